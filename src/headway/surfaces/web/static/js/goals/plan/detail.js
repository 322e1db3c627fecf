// One sub-goal in full, beside the plan. On a phone it is a sheet over the page.
import { html, useEffect, useRef } from "../../core/lib.js";
import { Ago, formatDuration, formatMoney, Icon, now, StatusIcon } from "../../core/ui.js";
import { Markdown } from "../../markdown/markdown.js";
import { Checks, ProofMark } from "../../work/proof.js";
import { Receipts } from "../../work/receipts.js";
import { WrittenFiles } from "../written_files.js";
import { pick } from "./address.js";
import { isNarrow } from "./narrow.js";
import { Runs } from "./runs.js";
import { formatTokens, getLook, LookPill } from "./sub_goal.js";

const Fact = ({ name, children }) => children && html`<dt>${name}</dt><dd dir="auto">${children}</dd>`;

const AS_EXPECTED = "as expected";

export function describeEvaluation({ divergence, divergence_reason }) {
  if (!divergence) return "";
  const verdict = divergence === "none" ? AS_EXPECTED : `${divergence} divergence`;
  const repeats = divergence_reason.toLowerCase().startsWith(verdict);
  return divergence_reason && !repeats ? `${verdict}: ${divergence_reason}` : verdict;
}

const Outcome = ({ outcome }) =>
  outcome.summary
    ? html`<${Markdown} text=${outcome.summary} />`
    : html`<pre>${outcome.error || JSON.stringify(outcome.data, null, 2)}</pre>`;

/** Other sub-goals as buttons that open them. */
const Others = ({ table, ids }) => html`<ul class="others">
  ${ids.map((id) => {
    const other = table.read(id);
    return html`<li key=${id}>${
      other
        ? html`<button class="plain" onClick=${() => pick(id)}>
            <${StatusIcon} status=${getLook(other)} /><span dir="auto">#${id} ${other.title}</span>
          </button>`
        : `#${id}`
    }</li>`;
  })}
</ul>`;

function Times({ subGoal }) {
  const { started_at, ended_at } = subGoal;
  if (!started_at) return ended_at ? html`ended <${Ago} at=${ended_at} /> without a start` : "not started";
  return html`started <${Ago} at=${started_at} />, ${ended_at ? "took" : "running for"} ${formatDuration(
    (ended_at || now.value) - started_at,
  )}`;
}

const sum = (runs, name) => runs.reduce((total, run) => total + run[name], 0);

function Spending({ subGoal, runs }) {
  const cost = subGoal.ended_at ? subGoal.cost_usd : sum(runs, "cost_usd");
  const tokens = { input_tokens: sum(runs, "input_tokens"), output_tokens: sum(runs, "output_tokens") };
  const isCounted = tokens.input_tokens + tokens.output_tokens > 0;
  return `${formatMoney(cost)}${isCounted ? `, ${formatTokens(tokens)}` : ""}`;
}

function Facts({ state, subGoal }) {
  const { id, description, outcome, depends_on, checks, plan_no, superseded_by } = subGoal;
  const table = state.subGoals;
  const dependants = table.list().filter((other) => other.depends_on.includes(id));
  const runs = state.runs.list().filter((run) => run.sub_goal_id === id && run.parent_run_id);
  const receipts = state.receipts.value.filter((receipt) => receipt.sub_goal_id === id);
  const evaluation = describeEvaluation(subGoal);
  return html`<dl>
      <${Fact} name="Description">${subGoal.title !== description && description}<//>
      <${Fact} name="Expected">${subGoal.expected_outcome}<//>
      <${Fact} name="Outcome">${outcome && html`<${Outcome} outcome=${outcome} />`}<//>
      <${Fact} name="Reason">${subGoal.reason}<//>
      <${Fact} name="Evaluation">${
        evaluation && html`<span class=${subGoal.divergence === "none" ? "" : "diverging"}>${evaluation}</span>`
      }<//>
      <${Fact} name="Checks">${checks.length > 0 && html`<${Checks} checks=${checks} />`}<//>
      <${Fact} name="Receipts">${receipts.length > 0 && html`<${Receipts} receipts=${receipts} />`}<//>
      <${Fact} name="Waits for">${depends_on.length > 0 ? html`<${Others} table=${table} ids=${depends_on} />` : "nothing"}<//>
      <${Fact} name="Waiting for it">${
        dependants.length > 0 && html`<${Others} table=${table} ids=${dependants.map((other) => other.id)} />`
      }<//>
      <${Fact} name="Time"><${Times} subGoal=${subGoal} /><//>
      <${Fact} name="Cost"><${Spending} subGoal=${subGoal} runs=${runs} /><//>
      <${Fact} name="Plan">${superseded_by ? `plan ${plan_no}, replaced by plan ${superseded_by}` : `since plan ${plan_no}`}<//>
    </dl>
    <${WrittenFiles}
      key=${id}
      of=${{ goal_id: state.goal.value.id, sub_goal_id: id }}
      writes=${state.countWrites(id)}
      level=${4}
    />
    <${Runs} state=${state} subGoal=${subGoal} runs=${runs} />`;
}

function Content({ state, id }) {
  const subGoal = state.subGoals.read(id);
  const close = () => pick(null);
  return html`<header>
      <h3 dir="auto">${subGoal ? subGoal.title : `Sub-goal ${id}`}</h3>
      <button class="btn ghost icon-only small" aria-label="Close the details" title="Close" onClick=${close}>
        <${Icon} name="close" />
      </button>
    </header>
    ${
      subGoal
        ? html`<p class="state">
              <${LookPill} subGoal=${subGoal} /><${ProofMark} proof=${subGoal.proof} />
              <span class="faint num">#${id}</span>
            </p>
            <${Facts} state=${state} subGoal=${subGoal} />`
        : html`<p class="muted">This goal has no such sub-goal.</p>`
    }`;
}

/** It opens over the page, and closes with Escape, a press beside it, or its button. */
function Sheet({ state, id }) {
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const closeOutside = (event) => event.target === dialog.current && dialog.current.close();
  return html`<dialog ref=${dialog} class="sheet" aria-label="Sub-goal ${id}" onClose=${() => pick(null)} onClick=${closeOutside}>
    <div class="detail"><${Content} key=${id} state=${state} id=${id} /></div>
  </dialog>`;
}

function Side({ state, id }) {
  const onKeyDown = (event) => event.key === "Escape" && pick(null);
  return html`<aside class="detail" aria-label="Sub-goal ${id}" tabindex="0" onKeyDown=${onKeyDown}>
    <${Content} key=${id} state=${state} id=${id} />
  </aside>`;
}

export const Detail = ({ state, id }) =>
  isNarrow.value ? html`<${Sheet} state=${state} id=${id} />` : html`<${Side} state=${state} id=${id} />`;

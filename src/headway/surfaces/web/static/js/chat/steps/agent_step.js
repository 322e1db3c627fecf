// A sub-agent: a line that opens to its task, its transcript, its outcome and what it changed.
import { get, post } from "../../core/api.js";
import { ask, createLazy } from "../../core/dialogs.js";
import { html } from "../../core/lib.js";
import { Ago, formatMoney, RetryTime, StatusIcon } from "../../core/ui.js";
import { spellOut } from "../../core/visible_text.js";
import { Block } from "../tool_line.js";
import { abbreviate, formatSpan } from "./describe.js";
import { Fold } from "./fold.js";

const Transcript = createLazy(async () => (await import("./transcript.js")).Transcript);
/** The changes of agents in a repository, which most do not have. */
export const Changes = createLazy(async () => (await import("../../work/changes.js")).Changes);
const STATUS_WORDS = { queued: "will start", running: "works", waiting: "waits" };

const getOutcome = ({ result }) => result?.summary || result?.error || (typeof result === "string" ? result : "");

function AgentLine({ run }) {
  const outcome = run.ended_at ? abbreviate(getOutcome(run)) : (STATUS_WORDS[run.status] ?? "");
  const span = formatSpan(run.ended_at ? run.ended_at - run.created_at : undefined);
  return html`<${StatusIcon} status=${run.status} />
    <strong>${spellOut(run.role)}</strong>
    <span class="truncate grow" dir="auto">${abbreviate(run.task)}</span>
    <span class="step-result ${run.status === "failed" ? "status-failed" : "faint"}" dir="auto">${
      run.status === "failed" && "failed: "
    }${outcome}</span>
    ${run.cost_usd > 0 && html`<span class="faint num">${formatMoney(run.cost_usd)}</span>`}
    ${span && html`<span class="faint num">${span}</span>`}`;
}

function AgentBody({ run, Item }) {
  const stop = () =>
    ask({ title: "Stop this sub-agent?", text: run.task, confirm: "Stop it", run: () => post(`/v1/agents/${run.id}/cancel`) });
  const steps = run.ended_at ? `${run.iterations} of ${run.limit} steps` : `at most ${run.limit} steps`;
  const loadChanges = async () => (await get(`/v1/agents/${run.id}`)).agent.changes;
  return html`<${Block} title="Task" value=${run.task} />
    <${Transcript} key=${run.id} run=${run} outcome=${run.ended_at ? getOutcome(run) : ""} Item=${Item} />
    ${run.changes && html`<${Changes} changes=${run.changes} load=${loadChanges} />`}
    <p class="faint small">
      ${steps} · started <${Ago} at=${run.created_at} /><${RetryTime} at=${run.retry_at} />
      ${!run.ended_at && html`<button class="btn small danger push" onClick=${stop}>Stop</button>`}
    </p>`;
}

/** `Item` renders a step of its transcript. */
export const AgentStep = ({ id, run, Item }) => html`<${Fold} id=${id} line=${html`<${AgentLine} run=${run} />`}>
  ${() => html`<${AgentBody} run=${run} Item=${Item} />`}
<//>`;

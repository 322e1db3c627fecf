// Tool calls and sub-agents: one line each, which opens to show the details.
import { get, post } from "../core/api.js";
import { ask } from "../core/dialogs.js";
import { html } from "../core/lib.js";
import { Ago, capitalize, formatMoney, Icon, pluralize, RetryTime, StatusIcon } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";
import { Changes } from "../work/changes.js";
import { forkAfterCall } from "./turn_actions.js";

const LINE_LENGTH = 72;
const BLOCK_LENGTH = 20_000;

function stringify(value) {
  if (typeof value === "string") return value;
  return Array.isArray(value) && value.every((part) => typeof part === "string") ? value.join(" ") : JSON.stringify(value);
}

function abbreviate(value) {
  const parts = typeof value === "string" ? [value] : Object.values(value ?? {});
  const line = spellOut(
    parts
      .map(stringify)
      .join(", ")
      .slice(0, 2 * LINE_LENGTH)
      .replace(/\s+/g, " "),
  );
  return line.length > LINE_LENGTH ? `${line.slice(0, LINE_LENGTH - 1)}…` : line;
}

/** A call in a few words. The ledger's tools take ids of todos; the titles are in their results. */
function summarize({ tool, arguments: given, result, request }) {
  if (request?.kind === "question")
    return abbreviate(request.answer ? `${request.question} → ${request.answer}` : request.question);
  if (result?.created) return `Added ${pluralize(result.created.length, "todo")}`;
  if (result?.state?.total !== undefined) return `${pluralize(result.state.remaining, "todo")} remaining`;
  if (result?.summary?.total !== undefined) return `Looked at ${pluralize(result.summary.total, "todo")}`;
  if (typeof result?.title !== "string") return abbreviate(given);
  return abbreviate(tool === "complete_todo" && result.outcome ? `${result.title} → ${result.outcome}` : result.title);
}

function formatValue(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (text.length <= BLOCK_LENGTH) return text;
  return `${text.slice(0, BLOCK_LENGTH)}\n… ${(text.length - BLOCK_LENGTH).toLocaleString()} characters more`;
}

const Block = ({ title, value }) => html`<h3>${title}</h3>
  <pre tabindex="0" aria-label=${title} dir="auto"><code><${VisibleText} text=${formatValue(value)} isBlock /></code></pre>`;

// By the state of a decided request: the shape of its icon; null means that of the call.
const DECISIONS = { approved: null, answered: null, rejected: "skipped", expired: "clock", canceled: "skipped" };

const getDecider = (request) => spellOut(request.decided_by || request.answered_by || "");
const getDecisionTime = (request) => request.decided_at || request.answered_at;

/** What was decided; where there is room, also by whom and when. */
const Verdict = ({ request }) => html`<span class="faint verdict">
  ${request.state}<span class="verdict-more">
    ${getDecider(request) && html` by <bdi>${getDecider(request)}</bdi>`}, <${Ago} at=${getDecisionTime(request)} />
  </span>
</span>`;

/** Who decided about a call, and when. */
function DecisionNote({ request, proposed }) {
  const by = getDecider(request);
  return html`<p class="faint small"><span>
    ${capitalize(request.state)}${proposed && " with other arguments than the agent's"}${
      by && html` by <bdi>${by}</bdi>`
    }, <${Ago} at=${getDecisionTime(request)} />${request.reason ? ": " : "."}
    ${request.reason && html`<span dir="auto"><${VisibleText} text=${request.reason} /></span>`}
  </span></p>`;
}

export function CallDetails({ item, origin }) {
  const { request, proposed } = item;
  const shape = DECISIONS[request?.state] ?? item.state;
  return html`<details>
    <summary>
      ${shape === "done" ? html`<${Icon} name="tool" />` : html`<${StatusIcon} status=${shape} />`}
      ${request && html`<strong>${spellOut(request.role)}</strong>`}
      <code>${spellOut(item.tool)}</code>
      <span class="truncate grow" dir="auto">${summarize(item)}</span>
      ${shape === "failed" ? html`<span class="status-failed">failed</span>` : request && html`<${Verdict} request=${request} />`}
      <${Icon} name="chev" class="chev" />
    </summary>
    <div class="tool-details">
      ${request && html`<${DecisionNote} request=${request} proposed=${proposed} />`}
      ${origin}
      ${proposed && html`<${Block} title="Proposed arguments" value=${proposed} />`}
      <${Block} title="Arguments" value=${item.arguments} />
      ${item.result !== undefined && html`<${Block} title=${item.state === "failed" ? "Error" : "Result"} value=${item.result} />`}
      ${
        item.turnId &&
        item.result !== undefined &&
        html`<p><button class="btn small" onClick=${() => forkAfterCall(item)}><${Icon} name="fork" />Fork from here</button></p>`
      }
    </div>
  </details>`;
}

export const ToolLine = ({ item }) => html`<li class="tool-line"><${CallDetails} item=${item} /></li>`;

export function AgentLine({ run }) {
  const stop = () =>
    ask({ title: "Stop this sub-agent?", text: run.task, confirm: "Stop it", run: () => post(`/v1/agents/${run.id}/cancel`) });
  const loadChanges = async () => (await get(`/v1/agents/${run.id}`)).agent.changes;
  const outcome = run.result?.summary ?? run.result?.error ?? run.result;
  return html`<li class="tool-line">
    <details>
      <summary>
        <${StatusIcon} status=${run.status} />
        <strong>${run.role}</strong>
        <span class="truncate grow" dir="auto">${abbreviate(run.task)}</span>
        <span class="faint num">${run.cost_usd > 0 ? formatMoney(run.cost_usd) : ""}</span>
        <${Icon} name="chev" class="chev" />
      </summary>
      <div class="tool-details">
        <${Block} title="Task" value=${run.task} />
        ${run.result !== null && html`<${Block} title="Outcome" value=${outcome} />`}
        ${run.changes && html`<${Changes} changes=${run.changes} load=${loadChanges} />`}
        <p class="faint small">
          ${run.iterations} of ${run.limit} steps · started <${Ago} at=${run.created_at} /><${RetryTime} at=${run.retry_at} />
          ${!run.ended_at && html`<button class="btn small danger push" onClick=${stop}>Stop</button>`}
        </p>
      </div>
    </details>
  </li>`;
}

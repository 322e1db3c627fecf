// A tool call: one line, which opens to show the arguments, the result, and who decided about it.
import { html } from "../core/lib.js";
import { Ago, capitalize, Icon, StatusIcon } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";
import { summarizeCall, summarizeResult } from "./steps/describe.js";
import { Fold } from "./steps/fold.js";
import { forkAfterCall } from "./turn_actions.js";
import { WrittenFiles } from "./written_files.js";

const BLOCK_LENGTH = 20_000;

function formatValue(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  if (text.length <= BLOCK_LENGTH) return text;
  return `${text.slice(0, BLOCK_LENGTH)}\n… ${(text.length - BLOCK_LENGTH).toLocaleString()} characters more`;
}

export const Block = ({ title, value }) => html`<p class="block-title" aria-hidden="true">${title}</p>
  <pre tabindex="0" aria-label=${title} dir="auto"><code><${VisibleText} text=${formatValue(value)} isBlock /></code></pre>`;

// By the state of a decided request: the shape of its icon; null means that of the call.
const DECISIONS = { approved: null, answered: null, rejected: "skipped", expired: "clock", canceled: "skipped" };

const getDecider = (request) => spellOut(request.decided_by || request.answered_by || "");
const getDecisionTime = (request) => request.decided_at || request.answered_at;

/** The decision; where there is room, also by whom and when. */
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

/** The arguments and the result of a call, who decided about it, and how to fork there. */
export function CallBody({ item, origin }) {
  const { request, proposed } = item;
  return html`${request && html`<${DecisionNote} request=${request} proposed=${proposed} />`}
    ${origin}
    ${item.files && html`<${WrittenFiles} files=${item.files} />`}
    ${proposed && html`<${Block} title="Proposed arguments" value=${proposed} />`}
    <${Block} title="Arguments" value=${item.arguments} />
    ${item.result !== undefined && html`<${Block} title=${item.state === "failed" ? "Error" : "Result"} value=${item.result} />`}
    ${
      item.turnId &&
      item.result !== undefined &&
      html`<p><button class="btn small" onClick=${() => forkAfterCall(item)}><${Icon} name="fork" />Fork from here</button></p>`
    }`;
}

function CallLine({ item }) {
  const { request } = item;
  const shape = DECISIONS[request?.state] ?? item.state;
  const result = request ? "" : summarizeResult(item);
  return html`${shape === "done" ? html`<${Icon} name="tool" />` : html`<${StatusIcon} status=${shape} />`}
    ${request && html`<strong>${spellOut(request.role)}</strong>`}
    <code>${spellOut(item.tool)}</code>
    <span class="truncate grow" dir="auto">${summarizeCall(item)}</span>
    ${
      shape === "failed"
        ? html`<span class="step-result status-failed" dir="auto">failed${result && `: ${result}`}</span>`
        : request
          ? html`<${Verdict} request=${request} />`
          : result && html`<span class="step-result faint" dir="auto">${result}</span>`
    }`;
}

/** A call as a line that opens. `origin`: where it comes from, if that is not clear from its place. */
export const CallDetails = ({ item, origin }) => html`<${Fold} id=${`call-${item.key}`} line=${html`<${CallLine} item=${item} />`}>
  ${() => html`<${CallBody} item=${item} origin=${origin} />`}
<//>`;

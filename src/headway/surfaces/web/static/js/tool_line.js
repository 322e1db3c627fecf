// Tool calls and sub-agents as quiet lines that open.
import { post } from "./api.js";
import { ask } from "./dialogs.js";
import { html } from "./lib.js";
import { Ago, Delay, Icon, money, plural, Status } from "./ui.js";

const SHORT = 72;
const LONG = 20_000;

function brief(value) {
  const words =
    typeof value === "string"
      ? value
      : Object.values(value ?? {})
          .map((one) => (typeof one === "string" ? one : JSON.stringify(one)))
          .join(", ");
  const line = words.replace(/\s+/g, " ");
  return line.length > SHORT ? `${line.slice(0, SHORT - 1)}…` : line;
}

/** What a call was about. The ledger's tools name todos by their ids; their answers have the titles. */
function about({ tool, arguments: given, result }) {
  if (result?.created) return `Added ${plural(result.created.length, "todo")}`;
  if (result?.state?.total !== undefined) return `${plural(result.state.remaining, "todo")} remaining`;
  if (result?.summary?.total !== undefined) return `Looked at ${plural(result.summary.total, "todo")}`;
  if (typeof result?.title === "string")
    return brief(tool === "complete_todo" && result.outcome ? `${result.title} → ${result.outcome}` : result.title);
  return brief(given);
}

function written(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.length > LONG ? `${text.slice(0, LONG)}\n… ${(text.length - LONG).toLocaleString()} characters more` : text;
}

const Block = ({ title, value }) =>
  html`<h3>${title}</h3><pre tabindex="0" aria-label=${title} dir="auto"><code>${written(value)}</code></pre>`;

export const ToolLine = ({ item }) => html`<li class="quiet">
  <details>
    <summary><${item.state === "done" ? Icon : Status} n="tool" s=${item.state} /><code>${item.tool}</code><span class="cut grow" dir="auto">${about(item)}</span>
      ${item.state === "failed" && html`<span class="st-failed">failed</span>`}<${Icon} n="chev" c="chev" /></summary>
    <div class="inside"><${Block} title="Asked" value=${item.arguments} />${item.result !== undefined && html`<${Block} title=${item.state === "failed" ? "Failed with" : "Answered"} value=${item.result} />`}</div>
  </details>
</li>`;

const ended = (run) => run.ended_at > 0;

export const AgentLine = ({ run }) => html`<li class="quiet">
  <details>
    <summary><${Status} s=${run.status} /><strong>${run.role}</strong><span class="cut grow" dir="auto">${brief(run.task)}</span><span class="faint num">${run.cost_usd > 0 ? money(run.cost_usd) : ""}</span><${Icon} n="chev" c="chev" /></summary>
    <div class="inside">
      <${Block} title="Task" value=${run.task} />
      ${run.result !== null && html`<${Block} title="Outcome" value=${run.result?.summary ?? run.result?.error ?? run.result} />`}
      <p class="faint small">${run.iterations} of ${run.limit} steps · started <${Ago} t=${run.created_at} /><${Delay} t=${run.retry_at} />
        ${!ended(run) && html`<button class="btn small danger push" onClick=${() => ask({ title: "Stop this sub-agent?", text: run.task, yes: "Stop it", run: () => post(`/v1/agents/${run.id}/cancel`) })}>Stop</button>`}</p>
    </div>
  </details>
</li>`;

// The transcript of a sub-agent: its steps, with the sub-agents that it started itself. It is loaded when it is opened, in pages.
// While it is open, events of the run load its end again.
import { get } from "../../core/api.js";
import { html, useEffect, useMemo, useState } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { Markdown } from "../../markdown/markdown.js";
import { Block } from "../tool_line.js";
import { followRun } from "./progress.js";

const PAGE_SIZE = 50;
const NO_STEPS = "It took no step.";
const NO_STEPS_YET = "It has not taken a step yet.";
const STATES = { proposed: "waiting", started: "running", succeeded: "done", failed: "failed", unknown: "failed" };

const parse = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text; // not JSON, or cut
  }
};

/** A step of the API as the lines show it. */
function toSteps(runId, { n, text, calls }, agents) {
  const key = `step-${runId}/${n}`;
  const items = calls.map((call, place) => ({
    key: `${runId}/${n}/${place}`,
    tool: call.tool,
    arguments: parse(call.arguments),
    state: STATES[call.state],
    result: call.ended_at ? parse(call.result) : undefined,
    at: call.started_at,
    endedAt: call.ended_at || undefined,
    run: agents.get(call.run_id),
  }));
  const own = items.filter(({ run }) => !run);
  const started = items.filter(({ run }) => run).map((item) => ({ key: `step-${item.key}`, calls: [item], run: item.run }));
  const remark = text.trim() ? { text } : undefined;
  return own.length || remark ? [{ key, remark, calls: own }, ...started] : started;
}

/** The loaded part of a transcript, and functions that load more of it. */
function createTranscript(runId, show) {
  let state = { steps: [], agents: [], nextAfter: null, isPruned: false, problem: "", isLoaded: false };
  const set = (changes) => {
    state = { ...state, ...changes };
    show(state);
  };
  const load = async (after) => {
    const page = await get(`/v1/agents/${runId}/steps`, { limit: PAGE_SIZE, ...(after >= 0 && { after }) });
    const kept = state.steps.filter(({ n }) => n <= after);
    const [steps, nextAfter, isPruned] = [[...kept, ...page.steps], page.next_after, page.pruned];
    set({ steps, agents: page.agents, nextAfter, isPruned, problem: "", isLoaded: true });
  };
  const attempt = async (after) => {
    try {
      await load(after);
    } catch (error) {
      set({ problem: error.message });
    }
  };
  return {
    begin: () => attempt(-1),
    loadMore: () => attempt(state.nextAfter),
    // The calls of the last step may have ended since, so it is loaded again.
    reload: coalesce(async () => state.nextAfter === null && attempt(state.steps.at(-2)?.n ?? -1)),
  };
}

function Steps({ runId, steps, agents, isRunning, Item }) {
  const known = new Map(agents.map((run) => [run.id, run]));
  const lines = steps.flatMap((step) => toSteps(runId, step, known));
  const named = new Set(steps.flatMap(({ calls }) => calls.map(({ run_id }) => run_id)));
  const others = agents.filter(({ id }) => !named.has(id)).map((run) => ({ key: `step-a${run.id}`, calls: [], run }));
  const all = [...lines, ...others];
  return html`<ol class="transcript" aria-label="Transcript">
    ${all.map((step, n) =>
      step.run || step.calls.length
        ? html`<${Item} key=${step.key} step=${step} isCurrent=${isRunning && n === all.length - 1} />`
        : html`<li key=${step.key} class="transcript-text"><${Markdown} text=${step.remark.text} /></li>`,
    )}
  </ol>`;
}

const Loading = () => html`<div class="loading-lines" role="status">
  <span class="sr-only">Loading the transcript…</span><i></i><i></i>
</div>`;

const Problem = ({ text, onRetry }) => html`<p class="problem" role="alert">
  <span class="grow" dir="auto">${text}</span><button class="btn small" onClick=${onRetry}>Try again</button>
</p>`;

/** `outcome`: how the run ended; not repeated if it is the last step's text. `Item` renders a step. */
export function Transcript({ run, outcome, Item }) {
  const [state, setState] = useState(null);
  const transcript = useMemo(() => createTranscript(run.id, setState), [run.id]);
  useEffect(() => {
    transcript.begin();
    return followRun(run.id, transcript.reload);
  }, [transcript]);
  if (!state) return html`<${Loading} />`;
  const { steps, agents, nextAfter, isPruned, problem, isLoaded } = state;
  const hasOther = outcome && nextAfter === null && outcome.trim() !== steps.at(-1)?.text.trim();
  return html`${isPruned && html`<p class="faint small">The beginning of its transcript was deleted because of its age.</p>`}
    ${isLoaded && !steps.length && !isPruned && html`<p class="faint small">${run.ended_at ? NO_STEPS : NO_STEPS_YET}</p>`}
    <${Steps} runId=${run.id} steps=${steps} agents=${agents} isRunning=${!run.ended_at} Item=${Item} />
    ${nextAfter !== null && html`<p><button class="btn small" onClick=${transcript.loadMore}>Show more steps</button></p>`}
    ${hasOther && html`<${Block} title="Outcome" value=${outcome} />`}
    ${problem && html`<${Problem} text=${problem} onRetry=${transcript.begin} />`}`;
}

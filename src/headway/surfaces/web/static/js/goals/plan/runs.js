// The agent runs of a sub-goal. Each opens to its transcript, which is loaded then.
import { get } from "../../core/api.js";
import { createLazy } from "../../core/dialogs.js";
import { html, useEffect, useState } from "../../core/lib.js";
import { Ago, formatDuration, formatMoney, now, pluralize, StatusIcon } from "../../core/ui.js";
import { Changes } from "../../work/changes.js";
import { formatTokens } from "./sub_goal.js";

const TranscriptOfRun = createLazy(async () => {
  const [{ Transcript }, { StepItem }] = await Promise.all([
    import("../../chat/steps/transcript.js"),
    import("../../chat/steps/step_lines.js"),
  ]);
  return ({ run }) => html`<${Transcript} run=${run} outcome="" Item=${StepItem} />`;
});

function describeRun(run) {
  const tokens = run.input_tokens + run.output_tokens;
  return [
    pluralize(run.iterations, "step"),
    formatDuration((run.ended_at || now.value) - run.created_at),
    formatMoney(run.cost_usd),
    tokens > 0 && formatTokens(run),
  ]
    .filter(Boolean)
    .join(" · ");
}

/** The changes of a run in its repository. */
function ChangesOfRun({ runId }) {
  const [changes, setChanges] = useState(null);
  useEffect(() => {
    get(`/v1/agents/${runId}`).then(
      ({ agent }) => setChanges(agent.changes),
      () => {}, // the transcript reports the problem
    );
  }, [runId]);
  return changes && html`<div class="tool-line"><${Changes} changes=${changes} /></div>`;
}

function RunItem({ state, id, attempt }) {
  const [isOpen, setIsOpen] = useState(false);
  const run = state.runs.read(id);
  const toggle = (event) => setIsOpen(event.currentTarget.open);
  return html`<li>
    <details onToggle=${toggle}>
      <summary>
        <${StatusIcon} status=${run.status} />
        <span class="grow">
          <strong>${run.role}</strong>${attempt && html` <span class="faint">${attempt}</span>`}
          <span class="sub num">${describeRun(run)}</span>
        </span>
        <${Ago} at=${run.created_at} />
      </summary>
      ${
        isOpen &&
        html`<div class="run-body">
          <${TranscriptOfRun} run=${run} />
          ${run.ended_at > 0 && html`<${ChangesOfRun} runId=${id} />`}
        </div>`
      }
    </details>
  </li>`;
}

/** Runs that the main agent started are attempts; the others help it or one of these. */
export function Runs({ state, subGoal, runs }) {
  const mainId = state.goal.value.run_id;
  const isLatest = (run) => Number(run.id === subGoal.run_id);
  const oldestFirst = runs.toSorted((a, b) => a.created_at - b.created_at || isLatest(a) - isLatest(b));
  const attempts = subGoal.mode === "agent" ? oldestFirst.filter((run) => run.parent_run_id === mainId) : [];
  const name = (run) => {
    const n = attempts.indexOf(run);
    if (n < 0) return "helper";
    return attempts.length > 1 ? `attempt ${n + 1} of ${attempts.length}` : "";
  };
  const isInline = subGoal.mode !== "agent" && subGoal.started_at > 0 && state.runs.has(mainId);
  if (!oldestFirst.length && !isInline) return null;
  return html`<section class="runs" aria-label="Agent runs">
    <h4>Agent runs</h4>
    <ul>
      ${isInline && html`<${RunItem} key=${mainId} state=${state} id=${mainId} attempt="main agent, whole goal" />`}
      ${oldestFirst.map((run) => html`<${RunItem} key=${run.id} state=${state} id=${run.id} attempt=${name(run)} />`)}
    </ul>
  </section>`;
}

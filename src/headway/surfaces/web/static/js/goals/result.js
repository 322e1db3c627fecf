// The result of a goal that has ended. It comes first on the page: the ending, the outcome and the files.
import { post } from "../core/api.js";
import { ask } from "../core/dialogs.js";
import { html } from "../core/lib.js";
import { navigate } from "../core/router.js";
import { Ago, Card, formatDuration, formatMoney, Icon, pluralize } from "../core/ui.js";
import { Markdown } from "../markdown/markdown.js";
import { formatTokens } from "./plan/sub_goal.js";
import { WrittenFiles } from "./written_files.js";

const ENDINGS = { completed: "Completed", abandoned: "Abandoned" };

/** The last words of the goal: the summary of its main agent, or why it was given up. */
function findOutcome(goal, entries) {
  const last = entries.find(({ kind }) => kind === goal.status);
  return last?.data.summary ?? last?.data.reason ?? goal.pause_reason ?? "";
}

const REPEAT = "A new goal starts now, with the same text, criteria, checks and limits, and a new plan. This one stays as it is.";

function RunAgain({ path }) {
  const start = async () => navigate(`/goals/${(await post(`${path}/run-again`)).goal.id}`);
  const confirm = () =>
    ask({ title: "Run this goal again?", text: REPEAT, confirm: "Run it again", cancel: "Not now", danger: false, run: start });
  return html`<button class="btn small" title=${REPEAT} onClick=${confirm}><${Icon} name="replan" />Run again</button>`;
}

function Facts({ state }) {
  const goal = state.goal.value;
  const { planned, completed, diverged, failed } = state.counts.value;
  const usage = state.usage.value;
  const facts = [
    `${completed} of ${pluralize(planned, "sub-goal")} done`,
    diverged > 0 && `${diverged} diverged`,
    failed > 0 && `${failed} failed`,
    `took ${formatDuration(goal.ended_at - goal.created_at)}`,
    formatMoney(goal.cost_usd),
    usage && usage.input_tokens + usage.output_tokens > 0 && formatTokens(usage),
  ];
  return html`<p class="result-facts muted num">
    ${ENDINGS[goal.status]} <${Ago} at=${goal.ended_at} /> · ${facts.filter(Boolean).join(" · ")}
  </p>`;
}

export function Result({ state }) {
  const goal = state.goal.value;
  const outcome = findOutcome(goal, state.entries.value);
  const again = html`<${RunAgain} path=${state.path} />`;
  return html`<${Card} title="Result" actions=${again}>
    <div class="result">
      <${Facts} state=${state} />
      ${outcome ? html`<${Markdown} text=${outcome} />` : html`<p class="faint">It ended without a report.</p>`}
      <${WrittenFiles} of=${{ goal_id: goal.id }} />
    </div>
  <//>`;
}

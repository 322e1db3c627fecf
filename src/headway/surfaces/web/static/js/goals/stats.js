// The figures at the top of a goal: its progress, its replans and its cost.
import { html } from "../core/lib.js";
import { formatMoney, pluralize } from "../core/ui.js";
import { formatTokens } from "./plan/sub_goal.js";

const Stat = ({ name, children }) => html`<div><dt>${name}</dt>${children}</div>`;

function CostStat({ state }) {
  const [goal, costs, usage] = [state.goal.value, state.costs.value, state.usage.value];
  const hasBudget = Boolean(goal.budget_usd);
  const isUncounted = costs?.unpriced.length > 0;
  const limit = goal.budget_usd || costs?.limit_usd || 0;
  const spent = hasBudget ? goal.cost_usd : costs?.spent_usd;
  const share = hasBudget ? `of ${formatMoney(limit)}` : costs && `· pool ${formatMoney(spent)} of ${formatMoney(limit)}`;
  const tokens = usage && usage.input_tokens + usage.output_tokens > 0 ? ` · ${formatTokens(usage)}` : "";
  return html`<${Stat} name=${hasBudget ? "Cost, own budget" : "Cost, shared pool"}>
    <dd>${formatMoney(goal.cost_usd)} <small>${share}${tokens}</small></dd>
    ${
      spent !== undefined &&
      html`<dd><progress
        class=${limit && spent / limit > 0.8 ? "warn" : ""}
        value=${spent}
        max=${limit || 1}
        aria-label=${hasBudget ? "Spent of the budget" : "Spent of the shared pool"}
      ></progress></dd>`
    }
    ${isUncounted && html`<dd><small><a class="link" href="/operations/spending">A model has no known price</a></small></dd>`}
  <//>`;
}

// The states of the sub-goals, in the order of the bar.
const SHARES = [
  ["completed", "done"],
  ["diverged", "diverged"],
  ["failed", "failed"],
  ["in-progress", "running"],
];

/** The shares of the plan by what became of them. Only what is done as expected is green. */
function ProgressBar({ counts }) {
  const parts = SHARES.filter(([name]) => counts[name] > 0);
  const label = parts.map(([name, word]) => `${counts[name]} ${word}`).join(", ") || "nothing done yet";
  let left = 0;
  return html`<svg
    class="share-bar"
    viewBox="0 0 ${counts.planned || 1} 1"
    preserveAspectRatio="none"
    role="img"
    aria-label=${label}
  >
    ${parts.map(([name]) => {
      const x = left;
      left += counts[name];
      return html`<rect key=${name} class="share-${name}" x=${x} width=${counts[name]} height="1" />`;
    })}
  </svg>`;
}

function ProgressStat({ counts }) {
  const { planned, completed, diverged } = counts;
  const rest = planned ? `of ${pluralize(planned, "sub-goal")}${diverged ? ` · ${diverged} diverged` : ""}` : "no plan yet";
  return html`<${Stat} name="Progress">
    <dd>${planned > 0 && completed} <small>${rest}</small></dd>
    <dd><${ProgressBar} counts=${counts} /></dd>
  <//>`;
}

export function Stats({ state }) {
  const goal = state.goal.value;
  const counts = state.counts.value;
  return html`<dl class="stats">
    <${ProgressStat} counts=${counts} />
    <${Stat} name="Running"><dd>${counts["in-progress"]}</dd><//>
    <${Stat} name="Failed"><dd>${counts.failed}</dd><//>
    <${Stat} name="Replans"><dd>${goal.replan_count} <small>of ${goal.replan_limit}</small></dd><//>
    <${CostStat} state=${state} />
  </dl>`;
}

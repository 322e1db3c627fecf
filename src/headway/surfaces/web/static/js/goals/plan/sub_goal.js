// Sub-goals in words: their names, what became of them, and which of them count.
import { html } from "../../core/lib.js";
import { formatMoney, getStatusClass, Pill } from "../../core/ui.js";

/** The status as it is drawn. Completed work that missed what was expected is not shown as done. */
export const getLook = ({ status, divergence }) => (status === "completed" && divergence === "major" ? "diverged" : status);
export const getLookClass = (subGoal) => getStatusClass(getLook(subGoal));
export const LookPill = ({ subGoal }) => html`<${Pill} status=${getLook(subGoal)} />`;

/** A sign for results that miss the expected one a little. */
export const MinorMark = ({ subGoal }) =>
  subGoal.status === "completed" &&
  subGoal.divergence === "minor" &&
  html`<span class="minor" title="Minor divergence: ${subGoal.divergence_reason}">
    ≈<span class="sr-only"> minor divergence</span>
  </span>`;

/** How many sub-goals of the current plan there are, by what became of them. */
export function countProgress(subGoals) {
  const counts = { planned: 0, superseded: 0, completed: 0, diverged: 0, failed: 0, "in-progress": 0, pending: 0, skipped: 0 };
  for (const subGoal of subGoals) {
    if (subGoal.superseded_by) counts.superseded++;
    else {
      counts.planned++;
      counts[getLook(subGoal)]++;
    }
  }
  return counts;
}

/** Who works on it, in words. */
export const describeWorker = ({ mode, role }) => (mode === "agent" ? role || "sub-agent" : "main agent");

export const formatCost = (dollars) => (dollars > 0 ? formatMoney(dollars) : "—");

const LARGE = [
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
];
/** 1,284,000 is "1.28M". */
export function formatCount(number) {
  const [unit, letter] = LARGE.find(([size]) => number >= size) ?? [1, ""];
  return `${unit === 1 ? number : Number((number / unit).toPrecision(3))}${letter}`;
}

export const formatTokens = ({ input_tokens, output_tokens }) => `${formatCount(input_tokens + output_tokens)} tokens`;

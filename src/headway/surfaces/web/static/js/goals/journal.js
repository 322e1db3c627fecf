// A goal's journal as a timeline. Each kind of entry has an icon, a colour and a sentence; unknown kinds show their data.
import { html, PureComponent } from "../core/lib.js";
import { Ago, Card, capitalize, Empty, Icon, pluralize } from "../core/ui.js";

const TITLE_LENGTH = 64;

const formatReason = (reason) => (reason ? `: ${reason}` : "");
const AS_EXPECTED = "as expected";
const formatDivergence = (divergence) => (divergence === "none" ? AS_EXPECTED : `${divergence} divergence`);
/** The evaluator's reason, unless it only repeats that the result was as expected. */
const formatEvaluation = (reason = "") => (reason.toLowerCase().startsWith(AS_EXPECTED) ? "" : formatReason(reason));

function formatSubGoal({ sub_goal_id, description = "" }) {
  return `#${sub_goal_id} ${description.length > TITLE_LENGTH ? `${description.slice(0, TITLE_LENGTH - 1)}…` : description}`;
}

const RECOVERIES = { retry: "restarted", replan: "replanned" };

/** What the recovery decided about each interrupted sub-goal: {"7": "resume"} */
export function describeRecovery(decisions) {
  const parts = Object.entries(decisions ?? {}).map(([id, action]) => `#${id} ${RECOVERIES[action] ?? "resumed"}`);
  return parts.length ? `: ${parts.join(", ")}` : ", no sub-goal was interrupted";
}

// By kind of entry: its icon, its colour, its sentence.
const KINDS = {
  goal_set: ["goal", "", ({ source }) => `${source === "operator-injected" ? "The operator" : "An agent"} set the goal`],
  goal_proposed: ["goal", "warn", ({ evidence }) => `An agent proposed the goal${formatReason(evidence)}`],
  planned: ["goal", "", ({ plan_no, added }) => `Plan ${plan_no}: ${pluralize(added?.length ?? 0, "sub-goal")}`],
  replanned: [
    "replan",
    "warn",
    ({ plan_no, why, added, dropped }) =>
      `Plan ${plan_no}: ${added?.length ?? 0} added, ${dropped?.length ?? 0} dropped${formatReason(why)}`,
  ],
  cycle_began: ["play", "", () => "A planning cycle began"],
  sub_goal_started: [
    "agent",
    "run",
    (data) => `${formatSubGoal(data)} started${data.mode === "agent" ? `, by ${data.role || "a sub-agent"}` : ""}`,
  ],
  sub_goal_ended: ["done", "ok", formatSubGoal],
  sub_goal_skipped: ["skipped", "", (data) => `${formatSubGoal(data)} skipped${formatReason(data.reason)}`],
  evaluated: [
    "check",
    "",
    (data) => `${formatSubGoal(data)}: ${formatDivergence(data.divergence)}${formatEvaluation(data.reason)}`,
  ],
  goal_evaluated: ["check", "", ({ met, reason }) => (met ? "The goal is met" : `Not met yet${formatReason(reason)}`)],
  check_in: ["bell", "", (data) => `${formatSubGoal(data)}: checked in`],
  intervened: ["bolt", "warn", (data) => `${formatSubGoal(data)}: ${data.action}${formatReason(data.why)}`],
  paused: ["paused", "warn", ({ reason }) => `Paused${formatReason(reason)}`],
  resumed: ["play", "run", () => "Resumed"],
  decided: ["bolt", "run", ({ action, note }) => `The operator decided: ${action}${note ? ` (${note})` : ""}`],
  interrupted: [
    "failed",
    "bad",
    ({ agents, sub_goals }) =>
      `Interrupted: ${pluralize(agents?.length ?? 0, "agent")}, ${pluralize(sub_goals?.length ?? 0, "unfinished sub-goal")}`,
  ],
  recovered: ["shield", "run", ({ sub_goals }) => `Recovered${describeRecovery(sub_goals)}`],
  completed: ["done", "ok", ({ summary }) => `Completed${formatReason(summary)}`],
  abandoned: ["failed", "bad", ({ reason }) => `Abandoned${formatReason(reason)}`],
};

function describeUnknown(kind, data) {
  const texts = Object.values(data).filter((value) => typeof value === "string");
  return { icon: "goal", tone: "", text: `${capitalize(kind.replaceAll("_", " "))}${formatReason(texts.join(" · "))}` };
}

function describeEntry({ kind, data }) {
  if (kind === "sub_goal_ended" && data.status === "failed") {
    return { icon: "failed", tone: "bad", text: `${formatSubGoal(data)} failed${formatReason(data.outcome?.error)}` };
  }
  if (!KINDS[kind]) return describeUnknown(kind, data ?? {});
  const [icon, tone, describe] = KINDS[kind];
  return { icon, tone, text: describe(data ?? {}) };
}

class Entry extends PureComponent {
  render({ entry }) {
    const { icon, tone, text } = describeEntry(entry);
    return html`<li class=${tone}>
      <${Icon} name=${icon} /><span class="clamp" dir="auto" title=${text}>${text}</span><${Ago} at=${entry.at} />
    </li>`;
  }
}

const Entries = ({ entries, hasMore, onMore }) => html`<div class="journal" tabindex="0" role="group" aria-label="Journal entries">
  <ol>${entries.map((entry) => html`<${Entry} key=${entry.n} entry=${entry} />`)}</ol>
  ${hasMore && html`<button class="btn small" onClick=${onMore}>Show older</button>`}
</div>`;

export function Journal({ entries, hasMore, onMore }) {
  if (!entries.length) return html`<${Card} title="Journal"><${Empty}>Nothing has happened yet.<//><//>`;
  return html`<${Card} title="Journal" count=${`${entries.length}${hasMore ? "+" : ""}`}>
    <${Entries} entries=${entries} hasMore=${hasMore} onMore=${onMore} />
  <//>`;
}

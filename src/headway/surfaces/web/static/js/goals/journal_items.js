// The items of a goal's journal: one for each sub-goal, with all that happened to it, and one for every other entry.
import { capitalize, formatDuration, formatMoney, pluralize } from "../core/ui.js";

const AS_EXPECTED = /^as expected\b/i;

const withReason = (text, reason) => (reason ? `${text}: ${reason}` : text);
/** Start a sentence with a word, unless the reason says it already: "Paused by the operator." */
const sayOnce = (word, reason = "") => (reason.toLowerCase().startsWith(word.toLowerCase()) ? reason : withReason(word, reason));

const RECOVERIES = { retry: "restarted", replan: "replanned" };

/** The decision of the recovery about each interrupted sub-goal: {"7": "resume"} */
export function describeRecovery(decisions) {
  const parts = Object.entries(decisions ?? {}).map(([id, action]) => `#${id} ${RECOVERIES[action] ?? "resumed"}`);
  return parts.length ? `: ${parts.join(", ")}` : ", no sub-goal was interrupted";
}

const count = (list, word) => pluralize(list?.length ?? 0, word);
const ACTIONS = { continue: "continue", replan: "make a new plan", abandon: "abandon the goal" };

// By kind of entry: its group, its icon, its colour, its sentence, and the text that opening it shows.
const KINDS = {
  goal_set: ["decisions", "goal", "", ({ source, repeat_of }) => describeStart(source, repeat_of)],
  goal_proposed: ["decisions", "goal", "warn", () => "An agent proposed the goal", ({ evidence }) => evidence],
  planned: ["plans", "goal", "", ({ plan_no, added }) => `Plan ${plan_no}: ${count(added, "sub-goal")}`, listTitles],
  replanned: [
    "plans",
    "replan",
    "warn",
    ({ plan_no, added, dropped }) => `Plan ${plan_no}: ${added?.length ?? 0} added, ${dropped?.length ?? 0} dropped`,
    (data) => [data.why, listTitles(data)].filter(Boolean).join("\n\n"),
  ],
  goal_evaluated: [
    "plans",
    "check",
    "",
    ({ met }) => (met ? "The goal is met" : "The goal is not met yet"),
    ({ reason }) => reason,
  ],
  paused: ["decisions", "paused", "warn", ({ reason }) => sayOnce("Paused", reason)],
  resumed: ["decisions", "play", "run", () => "Resumed"],
  decided: ["decisions", "bolt", "run", ({ action }) => `A person decided: ${ACTIONS[action] ?? action}`, ({ note }) => note],
  edited: ["decisions", "bolt", "run", ({ fields }) => `A person changed the ${(fields ?? []).join(" and the ")}`, describeEdit],
  repeated: ["decisions", "replan", "", ({ goal_id }) => `Run again as goal ${goal_id}`],
  forked: ["decisions", "goal", "", ({ goal_id, at }) => `Forked from goal ${goal_id}, after entry ${at} of its journal`],
  interrupted: [
    "faults",
    "failed",
    "bad",
    ({ agents, sub_goals }) => `Interrupted: ${count(agents, "agent")}, ${count(sub_goals, "unfinished sub-goal")}`,
  ],
  recovered: ["faults", "shield", "run", ({ sub_goals }) => `Recovered${describeRecovery(sub_goals)}`],
  completed: ["decisions", "done", "ok", () => "Completed", ({ summary }) => summary],
  abandoned: ["decisions", "failed", "bad", ({ reason }) => sayOnce("Abandoned", reason)],
};
export const FILTERS = [
  ["all", "Everything"],
  ["sub-goals", "Sub-goals"],
  ["plans", "Plans"],
  ["decisions", "Decisions"],
  ["faults", "Interruptions"],
];
const HIDDEN = new Set(["cycle_began"]); // each plan and each recovery begins one, and has its own entry

function describeStart(source, repeatOf) {
  if (repeatOf) return `Goal ${repeatOf} was run again`;
  return `${source === "operator-injected" ? "A person" : "An agent"} set the goal`;
}

function listTitles({ added }) {
  return (added ?? []).map(({ id, title }) => `#${id} ${title}`).join("\n");
}

function describeEdit({ old = {}, new: after = {} }) {
  const show = (value) => (value === null || value === 0 || value === "" ? "none" : String(value));
  return Object.keys(after)
    .map((name) => `${capitalize(name.replaceAll("_", " ").replace(" at", ""))}: ${show(old[name])} → ${show(after[name])}`)
    .join("\n");
}

function describeUnknown(kind, data) {
  const texts = Object.values(data).filter((value) => typeof value === "string");
  return { icon: "goal", tone: "", group: "faults", text: withReason(capitalize(kind.replaceAll("_", " ")), texts.join(" · ")) };
}

function describeEntry({ kind, data }) {
  if (!KINDS[kind]) return describeUnknown(kind, data ?? {});
  const [group, icon, tone, describe, open] = KINDS[kind];
  return { group, icon, tone, text: describe(data ?? {}), full: open?.(data ?? {}) || "" };
}

// The story of one sub-goal

const INTERVENTIONS = {
  message: "got a hint",
  rescope: "restarted with another description",
  cancel: "canceled",
  wait: "got more time",
};

/** One line of what happened to a sub-goal. */
function describeStep({ kind, data }) {
  switch (kind) {
    case "sub_goal_started":
      return data.mode === "agent" ? `started, by ${data.role || "a sub-agent"}` : "started, by the main agent";
    case "sub_goal_ended":
      return withReason(data.status, data.status === "failed" ? data.outcome?.error : "");
    case "sub_goal_skipped":
      return withReason("skipped", data.reason);
    case "evaluated":
      return describeJudgement(data);
    case "intervened":
      return withReason(INTERVENTIONS[data.action] ?? "checked", data.why);
    default:
      return kind.replaceAll("_", " ");
  }
}

/** The evaluator's judgement. Its reason is left out if it only repeats that the result was as expected. */
function describeJudgement({ divergence, reason = "" }) {
  if (divergence === "none") return AS_EXPECTED.test(reason) ? "as expected" : withReason("as expected", reason);
  return withReason(`${divergence} divergence`, reason);
}

const STATES = {
  completed: ["done", "ok"],
  failed: ["failed", "bad"],
  skipped: ["skipped", ""],
  diverged: ["warn", "warn"],
  running: ["agent", "run"],
};

function getState(ended, skipped, judged) {
  if (skipped) return "skipped";
  if (!ended) return "running";
  if (ended.data.status === "failed") return "failed";
  return judged?.data.divergence === "major" ? "diverged" : "completed";
}

/** `entries`: all of one sub-goal, newest first. */
function describeSubGoal(entries) {
  const find = (kind) => entries.find((entry) => entry.kind === kind);
  const { sub_goal_id: id, title, description = "" } = entries[0].data;
  const [ended, skipped, judged] = [find("sub_goal_ended"), find("sub_goal_skipped"), find("evaluated")];
  const state = getState(ended, skipped, judged);
  const [icon, tone] = STATES[state];
  const { outcome = {}, duration_s = 0 } = ended?.data ?? {};
  const facts = [state];
  if (ended) facts.push(formatDuration(duration_s), formatMoney(outcome.cost_usd ?? 0));
  const hint = judged && judged.data.divergence !== "none" ? describeJudgement(judged.data) : outcome.error || outcome.summary;
  return {
    key: `sub-goal-${id}`,
    at: entries[0].at,
    group: "sub-goals",
    icon,
    tone,
    text: `#${id} ${title}`,
    facts: facts.join(" · "),
    hint: hint ?? (skipped ? skipped.data.reason : ""),
    full: outcome.summary || outcome.error || description,
    steps: entries.toReversed().map((entry) => ({ key: entry.n, at: entry.at, text: describeStep(entry) })),
  };
}

/** Turn entries into items, newest first. */
export function buildItems(entries) {
  const bySubGoal = Map.groupBy(
    entries.filter(({ data }) => data?.sub_goal_id),
    ({ data }) => data.sub_goal_id,
  );
  const listed = new Set();
  const items = [];
  for (const entry of entries) {
    const id = entry.data?.sub_goal_id;
    if (HIDDEN.has(entry.kind) || (id && listed.has(id))) continue;
    if (id) listed.add(id);
    items.push(id ? describeSubGoal(bySubGoal.get(id)) : { key: `entry-${entry.n}`, at: entry.at, ...describeEntry(entry) });
  }
  return items;
}

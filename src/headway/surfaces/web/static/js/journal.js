// A goal's journal as a timeline. Each kind has an icon, a colour and a sentence; kinds that this page does not know are told plainly.
import { html, Kept } from "./lib.js";
import { Ago, Card, capital, Empty, Icon, plural } from "./ui.js";

const TITLE = 64;
const title = ({ sub_goal_id, description = "" }) =>
  `#${sub_goal_id} ${description.length > TITLE ? `${description.slice(0, TITLE - 1)}…` : description}`;
const because = (reason) => (reason ? `: ${reason}` : "");

const KINDS = {
  goal_set: ["goal", "", ({ source }) => (source === "operator-injected" ? "The operator set the goal" : "An agent set the goal")],
  goal_proposed: ["goal", "warn", ({ evidence }) => `An agent proposed the goal${because(evidence)}`],
  planned: ["goal", "", ({ plan_no, added }) => `Plan ${plan_no}: ${plural(added?.length ?? 0, "sub-goal")}`],
  replanned: [
    "replan",
    "warn",
    ({ plan_no, why, added, dropped }) =>
      `Plan ${plan_no}: ${added?.length ?? 0} added, ${dropped?.length ?? 0} dropped${because(why)}`,
  ],
  cycle_began: ["play", "", () => "A planning cycle began"],
  sub_goal_started: [
    "agent",
    "run",
    (data) => `${title(data)} started${data.mode === "agent" ? `, by ${data.role || "a sub-agent"}` : ""}`,
  ],
  sub_goal_ended: ["done", "ok", (data) => title(data)],
  sub_goal_skipped: ["skipped", "", (data) => `${title(data)} skipped${because(data.reason)}`],
  evaluated: [
    "check",
    "",
    (data) =>
      `${title(data)}: ${data.divergence === "none" ? "as expected" : `${data.divergence} divergence`}${because(data.reason)}`,
  ],
  goal_evaluated: ["check", "", ({ met, reason }) => (met ? "The goal is met" : `Not met yet${because(reason)}`)],
  check_in: ["bell", "", (data) => `${title(data)}: checked in`],
  intervened: ["bolt", "warn", (data) => `${title(data)}: ${data.action}${because(data.why)}`],
  paused: ["paused", "warn", ({ reason }) => `Paused${because(reason)}`],
  resumed: ["play", "run", () => "Resumed"],
  decided: ["bolt", "run", ({ action, note }) => `The operator decided: ${action}${note ? ` (${note})` : ""}`],
  interrupted: [
    "failed",
    "bad",
    ({ agents, sub_goals }) =>
      `Interrupted: ${plural(agents?.length ?? 0, "agent")}, ${plural(sub_goals?.length ?? 0, "sub-goal")} half done`,
  ],
  recovered: ["shield", "run", ({ sub_goals }) => `Recovered${recovery(sub_goals)}`],
  completed: ["done", "ok", ({ summary }) => `Completed${because(summary)}`],
  abandoned: ["failed", "bad", ({ reason }) => `Abandoned${because(reason)}`],
};

/** What was decided about half-done sub-goals: {"7": "resume"} */
export const recovery = (decided) => {
  const each = Object.entries(decided ?? {});
  return each.length
    ? `: ${each.map(([id, action]) => `#${id} ${action === "retry" ? "begun anew" : action === "replan" ? "planned anew" : "goes on"}`).join(", ")}`
    : ", nothing was half done";
};

const plainly = (kind) => [
  "goal",
  "",
  (data) =>
    `${capital(kind.replaceAll("_", " "))}${because(
      Object.values(data ?? {})
        .filter((one) => typeof one === "string")
        .join(" · "),
    )}`,
];

export function told({ kind, data }) {
  const [icon, tone, say] = KINDS[kind] ?? plainly(kind);
  if (kind === "sub_goal_ended" && data.status === "failed")
    return { icon: "failed", tone: "bad", text: `${title(data)} failed${because(data.outcome?.error)}` };
  return { icon, tone, text: say(data ?? {}) };
}

class Line extends Kept {
  render({ entry }) {
    const { icon, tone, text } = told(entry);
    return html`<li class=${tone}><${Icon} n=${icon} /><span class="clamp" dir="auto" title=${text}>${text}</span><${Ago} t=${entry.at} /></li>`;
  }
}

export const Journal = ({
  entries,
  more,
  onMore,
}) => html`<${Card} title="Journal" count=${entries.length ? `${entries.length}${more ? "+" : ""}` : undefined}>
  ${
    entries.length
      ? html`<div class="time" tabindex="0" role="group" aria-label="Journal entries"><ol>${entries.map((entry) => html`<${Line} key=${entry.n} entry=${entry} />`)}</ol>${more && html`<button class="btn small" onClick=${onMore}>Show older</button>`}</div>`
      : html`<${Empty}>Nothing has happened yet.<//>`
  }
<//>`;

// The decisions of a person about a paused goal. Each choice states its effect.
import { patch, post } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { html, useId, useRef } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import "./styles.js";

const REPLAN = [
  "replan",
  "Make a new plan",
  "Open sub-goals are planned again, with your note. Finished work is kept. The planner may also keep what is under way.",
];
// By the reason of the pause: the title of the card, and the choices, each with its name and what it does.
const PAUSES = {
  replans: {
    choices: ({ replan_limit }) => [
      ["continue", "Allow more replans", `The goal continues and may make up to ${replan_limit} new plans by itself again.`],
      REPLAN,
    ],
  },
  escalation: {
    choices: () => [
      ["continue", "Continue the plan", "The results so far count as they are, and the plan continues with what is open."],
      REPLAN,
    ],
  },
  goal_budget: {
    title: "The goal's budget is spent.",
    choices: () => [
      ["continue", "Continue without a budget", "The goal loses its own limit. Only the shared pool limits what it spends."],
      REPLAN,
    ],
    limit: { name: "Budget, dollars", field: "budget_usd", type: "number", button: "Raise the budget", read: Number },
  },
  deadline: {
    title: "The goal's deadline has passed.",
    choices: () => [
      ["continue", "Continue without a deadline", "The goal loses its deadline and continues where it stopped."],
      REPLAN,
    ],
    limit: {
      name: "Deadline",
      field: "deadline",
      type: "datetime-local",
      button: "Set a new deadline",
      read: (value) => Math.floor(new Date(value).getTime() / 1000),
    },
  },
  proposal: { choices: () => [["continue", "Start it", "An agent makes a plan and works on it at once."]] },
  operator: {
    title: "Paused by the operator.",
    choices: () => [["continue", "Resume", "The goal continues where it stopped."], REPLAN],
  },
  budget: {
    title: "Paused: the shared pool is spent.",
    choices: () => [["continue", "Resume", "The goal tries again now. It pauses again as long as the pool is empty."], REPLAN],
  },
  fault: {
    title: "Paused after a fault.",
    choices: () => [["continue", "Resume", "The goal continues from its last checkpoint. Fix the cause first."], REPLAN],
  },
};
const ABANDON = ["Abandon", "The goal ends for good. Sub-agents stop. Finished work and the journal are kept."];
const DECLINE = ["Decline", "The proposal ends. Nothing was started."];

/** A field for a new limit of the goal. With it, the goal continues. */
function LimitForm({ limit, path }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    attempt(() => patch(path, { [limit.field]: limit.read(field.current.value) }));
  };
  return html`<form class="limit-form" onSubmit=${submit}>
    <label class="field">${limit.name}<input
      ref=${field}
      type=${limit.type}
      min=${limit.type === "number" ? "0" : null}
      step=${limit.type === "number" ? "0.01" : null}
      required
    /></label>
    <button class="btn">${limit.button}</button>
  </form>`;
}

function Option({ name, effect, look, onChoose }) {
  const id = useId();
  return html`<li>
    <button class="btn ${look}" onClick=${onChoose} aria-describedby=${id}>${name}</button>
    <span id=${id} class="muted small">${effect}</span>
  </li>`;
}

export function Decision({ goal, path }) {
  const note = useRef();
  if (goal.status !== "paused") return null;
  const { title = "Waiting for your decision.", choices, limit } = PAUSES[goal.pause_kind] ?? PAUSES.operator;
  const isProposal = goal.pause_kind === "proposal";
  const [end, endEffect] = isProposal ? DECLINE : ABANDON;
  const decide = (action) => post(`${path}/decision`, { action, note: note.current?.value.trim() ?? "" });
  const askToEnd = () =>
    ask({
      title: isProposal ? "Decline this proposal?" : "Abandon this goal?",
      text: endEffect,
      confirm: isProposal ? "Decline" : "Abandon the goal",
      run: () => decide("abandon"),
    });
  return html`<div class="note stop decision" role="region" aria-label="Decision">
    <${Icon} name="paused" />
    <div class="grow">
      <strong>${title}</strong> ${goal.pause_reason !== title && html`<span class="muted" dir="auto">${goal.pause_reason}</span>`}
    </div>
    ${limit && html`<${LimitForm} limit=${limit} path=${path} />`}
    <input
      ref=${note}
      class="decision-note"
      aria-label="A note for the agent"
      placeholder="A note for the agent (optional)"
      maxlength="1000"
      dir="auto"
    />
    <ul class="choices">
      ${choices(goal).map(
        ([action, name, effect], n) => html`<${Option}
          key=${action}
          name=${name}
          effect=${effect}
          look=${n ? "" : "primary"}
          onChoose=${() => attempt(() => decide(action))}
        />`,
      )}
      <${Option} name=${end} effect=${endEffect} look="danger" onChoose=${askToEnd} />
    </ul>
  </div>`;
}

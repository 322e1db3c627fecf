// All goals: how far each is, what it costs, and which wait for a decision.
import { get, post } from "./api.js";
import { attempt } from "./dialogs.js";
import { html, signal, useRef, useState } from "./lib.js";
import { listed, soon } from "./looks.js";
import { go } from "./router.js";
import { Ago, Choice, Empty, Icon, money, Pill } from "./ui.js";
import { useStream } from "./watch.js";

export const TITLE = "Goals";

const goals = signal(null);
const shown = signal("all");
const SHOWN = 200;
const STATUSES = [
  ["all", "All"],
  ["active", "Active"],
  ["paused", "Paused"],
  ["completed", "Completed"],
  ["abandoned", "Abandoned"],
];

function fetched() {
  const wanted = { limit: SHOWN };
  if (shown.value !== "all") wanted.status = shown.value;
  return get("/v1/goals", wanted);
}

/** What is known of a goal stands until its next event: only a new one, or one that changed sides, needs another look. */
function apply({ goal }) {
  const at = goals.value?.findIndex((one) => one.id === goal.id) ?? -1;
  if (at < 0 || (shown.value !== "all" && goal.status !== shown.value)) reload();
  else goals.value = goals.value.with(at, { ...goals.value[at], ...goal });
}

const { load, changed } = listed(fetched, (found) => (goals.value = found.goals), apply);
const reload = soon(load);

export const origin = (goal) => (goal.source === "operator-injected" ? "from the operator" : "from an agent");
/** How many sub-goals count: what a plan did without does not, but what was given up with the goal does. */
export const planned = ({ status, progress }) => (status === "abandoned" ? progress.total : progress.total - progress.skipped);

function Row({ goal }) {
  const { progress } = goal;
  const bar = { completed: "ok", paused: "warn" }[goal.status] ?? "";
  return html`<tr>
    <td><a href="/goals/${goal.id}"><strong class="clamp" dir="auto">${goal.description}</strong></a><div class="faint small">#${goal.id} · ${origin(goal)} · priority ${goal.priority}</div></td>
    <td><${Pill} s=${goal.status} /></td>
    <td class="wide"><div class="num muted small">${planned(goal) ? `${progress.completed} of ${planned(goal)}` : "no plan yet"}${progress.failed > 0 && html` · <span class="st-failed">${progress.failed} failed</span>`}</div>
      <progress class=${bar} value=${progress.completed} max=${planned(goal) || 1} aria-label="Progress of goal ${goal.id}"></progress></td>
    <td class="num">${progress.in_progress ? `${progress.in_progress} running` : html`<span class="faint">—</span>`}</td>
    <td class="num">${money(goal.cost_usd)}</td>
    <td class="muted"><${Ago} t=${goal.updated_at} /></td>
  </tr>`;
}

function NewGoal({ dialog }) {
  const [busy, setBusy] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const body = {
      description: form.description.value,
      success_criteria: form.criteria.value,
      priority: Number(form.priority.value),
    };
    if (form.budget.value) body.budget_usd = Number(form.budget.value);
    if (form.deadline.value) body.deadline = Math.floor(new Date(form.deadline.value).getTime() / 1000);
    setBusy(true);
    attempt(async () => {
      const { goal } = await post("/v1/goals", body);
      dialog.current.close();
      go(`/goals/${goal.id}`);
    }).finally(() => setBusy(false));
  };
  return html`<dialog ref=${dialog} aria-labelledby="new-goal">
    <h2 id="new-goal">New goal</h2>
    <p>An agent plans it, works on it by itself, plans anew when things turn out differently, and asks you when it cannot go on.</p>
    <form class="fields" onSubmit=${submit}>
      <label class="field">What should be reached?<textarea name="description" required maxlength="8000" dir="auto" autofocus placeholder="Cut the checkout's p95 below 400 ms without raising cost"></textarea></label>
      <label class="field">How will it be known? <textarea name="criteria" maxlength="8000" dir="auto" placeholder="Optional: what must be true in the end"></textarea></label>
      <div class="pair">
        <label class="field">Priority<input name="priority" type="number" min="0" max="100" value="50" required /><span class="hint">0 comes first</span></label>
        <label class="field">Budget, dollars<input name="budget" type="number" min="0" step="0.01" placeholder="none" /></label>
      </div>
      <label class="field">Deadline<input name="deadline" type="datetime-local" /></label>
      <div class="acts"><button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button><button class="btn primary" disabled=${busy}>Set the goal</button></div>
    </form>
  </dialog>`;
}

export function Page() {
  const dialog = useRef();
  useStream("/v1/events", () => ({ load, on: { goal_changed: changed } }));
  const list = goals.value;
  const choose = (status) => {
    shown.value = status;
    attempt(load);
  };
  return html`<main class="main" id="main" tabindex="-1"><div class="page">
    <div class="title"><h1>Goals</h1><div class="acts"><${Choice} label="Show" value=${shown.value} options=${STATUSES} onChoose=${choose} /><button class="btn primary" onClick=${() => dialog.current.showModal()}><${Icon} n="plus" />New goal</button></div></div>
    ${
      list &&
      html`<section class="card" aria-label="Goals">${
        list.length
          ? html`<table class="goals-table"><thead><tr><th>Goal</th><th>Status</th><th>Progress</th><th>Sub-goals</th><th>Cost</th><th>Updated</th></tr></thead><tbody>${list.map((goal) => html`<${Row} key=${goal.id} goal=${goal} />`)}</tbody></table>`
          : html`<${Empty}>${shown.value === "all" ? "No goals yet. A goal is pursued without you: it plans, works, and asks when it must." : `No goal is ${shown.value}.`}<//>`
      }</section>`
    }
    <${NewGoal} dialog=${dialog} />
  </div></main>`;
}

// All goals: their progress, their cost, and which of them wait for a decision.
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, signal, useRef, useState } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { navigate } from "../core/router.js";
import { Ago, Choice, Empty, formatMoney, Icon, Main, Pill } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { useStream } from "../core/watch.js";
import { ProofMark } from "../work/proof.js";

export const TITLE = "Goals";

const goals = signal(null);
const statusFilter = signal("all");
const PAGE_SIZE = 200;
const STATUSES = [
  ["all", "All"],
  ["active", "Active"],
  ["paused", "Paused"],
  ["completed", "Completed"],
  ["abandoned", "Abandoned"],
];

function fetchGoals() {
  const query = { limit: PAGE_SIZE };
  if (statusFilter.value !== "all") query.status = statusFilter.value;
  return get("/v1/goals", query);
}

/** Merge the event into the goal. Only a new goal, or one that no longer matches the filter, needs another fetch. */
function apply({ goal }) {
  const at = goals.value?.findIndex(({ id }) => id === goal.id) ?? -1;
  if (at < 0 || (statusFilter.value !== "all" && goal.status !== statusFilter.value)) reload();
  else goals.value = goals.value.with(at, { ...goals.value[at], ...goal });
}

const { load, onChange } = createLiveList(fetchGoals, (fetched) => (goals.value = fetched.goals), apply);
const reload = coalesce(load);

export const describeOrigin = ({ source }) => (source === "operator-injected" ? "from the operator" : "from an agent");
/** How many sub-goals count: skipped ones do not, unless they were skipped because the goal was abandoned. */
export const countPlanned = ({ status, progress }) => (status === "abandoned" ? progress.total : progress.total - progress.skipped);

/** Whether one of the goal's agents waits for a person. */
const isWaiting = (goal) => openRequests.value.some(({ goal_id }) => goal_id === goal.id);

function Row({ goal }) {
  const { progress } = goal;
  const planned = countPlanned(goal);
  const tone = { completed: "ok", paused: "warn" }[goal.status] ?? "";
  return html`<tr>
    <td>
      <a href="/goals/${goal.id}"><strong class="clamp" dir="auto">${goal.description}</strong></a>
      <div class="faint small">#${goal.id} · ${describeOrigin(goal)} · priority ${goal.priority}</div>
    </td>
    <td>
      ${isWaiting(goal) ? html`<${Pill} status="waiting" label="Waits for you" />` : html`<${Pill} status=${goal.status} />`}
      <${ProofMark} proof=${goal.proof} />
    </td>
    <td class="wide">
      <div class="num muted small">
        ${planned ? `${progress.completed} of ${planned}` : "no plan yet"}
        ${progress.failed > 0 && html` · <span class="status-failed">${progress.failed} failed</span>`}
      </div>
      <progress class=${tone} value=${progress.completed} max=${planned || 1} aria-label="Progress of goal ${goal.id}"></progress>
    </td>
    <td class="num">${progress.in_progress ? `${progress.in_progress} running` : html`<span class="faint">—</span>`}</td>
    <td class="num">${formatMoney(goal.cost_usd)}</td>
    <td class="muted"><${Ago} at=${goal.updated_at} /></td>
  </tr>`;
}

function NewGoal({ dialog }) {
  const [isBusy, setIsBusy] = useState(false);
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
    setIsBusy(true);
    attempt(async () => {
      const { goal } = await post("/v1/goals", body);
      dialog.current.close();
      navigate(`/goals/${goal.id}`);
    }).finally(() => setIsBusy(false));
  };
  return html`<dialog ref=${dialog} aria-labelledby="new-goal">
    <h2 id="new-goal">New goal</h2>
    <p>An agent makes a plan and works on it unattended. It replans when results differ from the plan, and asks you when it
      cannot continue.</p>
    <form class="fields" onSubmit=${submit}>
      <label class="field">What should be achieved?<textarea
        name="description"
        required
        maxlength="8000"
        dir="auto"
        autofocus
        placeholder="Cut the checkout's p95 below 400 ms without raising cost"
      ></textarea></label>
      <label class="field">How will success be recognized?<textarea
        name="criteria"
        maxlength="8000"
        dir="auto"
        placeholder="Optional: what must be true when it is done"
      ></textarea></label>
      <div class="pair">
        <label class="field">Priority<input name="priority" type="number" min="0" max="100" value="50" required />
          <span class="hint">0 comes first</span>
        </label>
        <label class="field">Budget, dollars<input name="budget" type="number" min="0" step="0.01" placeholder="none" /></label>
      </div>
      <label class="field">Deadline<input name="deadline" type="datetime-local" /></label>
      <div class="actions">
        <button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>
        <button class="btn primary" disabled=${isBusy}>Set the goal</button>
      </div>
    </form>
  </dialog>`;
}

const NoGoals = () =>
  html`<${Empty}>${
    statusFilter.value === "all"
      ? "No goals yet. Agents pursue a goal unattended: they plan, work, and ask when they need a decision."
      : `No goal is ${statusFilter.value}.`
  }<//>`;

const COLUMNS = ["Goal", "Status", "Progress", "Sub-goals", "Cost", "Updated"];

const Table = ({ list }) => html`<table class="goals-table">
  <thead><tr>${COLUMNS.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead>
  <tbody>${list.map((goal) => html`<${Row} key=${goal.id} goal=${goal} />`)}</tbody>
</table>`;

export function Page() {
  const dialog = useRef();
  useStream("/v1/events", () => ({ load, on: { goal_changed: onChange } }));
  const list = goals.value;
  const choose = (status) => {
    statusFilter.value = status;
    attempt(load);
  };
  return html`<${Main}>
    <div class="title">
      <h1>Goals</h1>
      <div class="actions">
        <${Choice} label="Show" value=${statusFilter.value} options=${STATUSES} onChoose=${choose} />
        <button class="btn primary" onClick=${() => dialog.current.showModal()}><${Icon} name="plus" />New goal</button>
      </div>
    </div>
    ${
      list &&
      html`<section class="card" aria-label="Goals">
        ${list.length ? html`<${Table} list=${list} />` : html`<${NoGoals} />`}
      </section>`
    }
    <${NewGoal} dialog=${dialog} />
  <//>`;
}

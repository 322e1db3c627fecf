// All goals: their progress, their cost, and which wait for a person. The address keeps the filter, the search and the order.
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { computed, html, signal, useEffect, useRef, useState } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { navigate, search } from "../core/router.js";
import { Ago, Choice, Empty, formatMoney, Icon, Main, Pill, Select, Until } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { useStream } from "../core/watch.js";
import { ProofMark } from "../work/proof.js";
import "./styles.js";

export const TITLE = "Goals";

const goals = signal(null); // null until the server has answered
const nextCursor = signal(null);
const PAGE_SIZE = 50;
const MOST_AT_ONCE = 500; // that the server sends
const TYPING_MS = 250;
const FILTERS = [
  ["all", "All"],
  ["waiting", "Waiting for you"],
  ["active", "Active"],
  ["paused", "Paused"],
  ["completed", "Completed"],
  ["abandoned", "Abandoned"],
];
const ORDERS = [
  ["newest", "Newest first"],
  ["updated", "Last changed first"],
  ["priority", "Most urgent first"],
  ["deadline", "Next deadline first"],
];

/** The list on screen, as the address has it: ?show=paused&q=words&sort=priority */
const chosen = computed(() => {
  const parameters = new URLSearchParams(search.value);
  const choose = (options, value) => (options.some(([name]) => name === value) ? value : options[0][0]);
  return {
    show: choose(FILTERS, parameters.get("show")),
    sort: choose(ORDERS, parameters.get("sort")),
    q: parameters.get("q") ?? "",
  };
});

function choose(changes) {
  const { show, sort, q } = { ...chosen.peek(), ...changes };
  const given = Object.entries({ show: show === "all" ? "" : show, q, sort: sort === "newest" ? "" : sort }).filter(
    ([, value]) => value,
  );
  const query = String(new URLSearchParams(given));
  navigate(`/goals${query && `?${query}`}`, { replace: true });
}

function buildQuery(limit) {
  const { show, sort, q } = chosen.peek();
  const query = { limit, sort };
  if (q.trim()) query.q = q;
  if (show === "waiting") query.waiting = true;
  else if (show !== "all") query.status = show;
  return query;
}

/** Fetch as many goals as are on screen. */
const fetchGoals = () => get("/v1/goals", buildQuery(Math.min(Math.max(goals.peek()?.length ?? 0, PAGE_SIZE), MOST_AT_ONCE)));

async function loadMore() {
  const cursor = nextCursor.value;
  const page = await get("/v1/goals", { ...buildQuery(PAGE_SIZE), cursor });
  if (goals.value === null || nextCursor.value !== cursor) return; // other goals were asked for meanwhile
  const known = new Set(goals.value.map(({ id }) => id));
  goals.value = [...goals.value, ...page.goals.filter(({ id }) => !known.has(id))];
  nextCursor.value = page.next_cursor;
}

/** Whether one of the goal's agents waits for a person, or the goal itself does. */
const isWaiting = (goal) => goal.needs_decision || openRequests.value.some(({ goal_id }) => goal_id === goal.id);

const matches = (goal) => {
  const { show } = chosen.peek();
  return show === "all" || (show === "waiting" ? isWaiting(goal) : goal.status === show);
};

/** Merge the event into the goal. A new goal, or one that no longer matches the filter, needs another fetch. */
function apply({ goal }) {
  const at = goals.value?.findIndex(({ id }) => id === goal.id) ?? -1;
  if (at < 0 || !matches(goal)) reload();
  else goals.value = goals.value.with(at, { ...goals.value[at], ...goal });
}

function replace(page) {
  goals.value = page.goals;
  nextCursor.value = page.next_cursor;
}

const { load, onChange } = createLiveList(fetchGoals, replace, apply);
const reload = coalesce(load);

export const describeOrigin = ({ source }) => (source === "operator-injected" ? "from the operator" : "from an agent");

const TONES = { completed: "ok", paused: "warn" };
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const formatTokens = ({ input_tokens, output_tokens }) => compact.format(input_tokens + output_tokens);

function Progress({ goal }) {
  const { in_plan, done, failed } = goal.progress;
  if (!in_plan) return html`<span class="muted small">${goal.status === "active" ? "planning" : "no plan"}</span>`;
  return html`<div class="num muted small">
      ${done} of ${in_plan}${failed > 0 && html` · <span class="status-failed">${failed} failed</span>`}
    </div>
    <progress class=${TONES[goal.status] ?? ""} value=${done} max=${in_plan} aria-label="Progress of goal ${goal.id}"></progress>`;
}

const Nothing = () => html`<span class="faint">—</span>`;

function Row({ goal }) {
  const { in_progress } = goal.progress;
  const waits = isWaiting(goal);
  return html`<tr class=${waits ? "waits" : ""}>
    <td class="name">
      <a href="/goals/${goal.id}"><strong class="clamp" dir="auto">${goal.description}</strong></a>
      <div class="faint small">
        #${goal.id} · ${describeOrigin(goal)} · priority ${goal.priority}
        ${goal.deadline > 0 && !goal.ended_at && html` · due <${Until} at=${goal.deadline} />`}
      </div>
      ${goal.needs_decision && html`<div class="small why-waiting" dir="auto">${goal.pause_reason}</div>`}
    </td>
    <td class="state">
      <${Pill} status=${waits ? "waiting" : goal.status} label=${waits ? "Waits for you" : undefined} />
      <${ProofMark} proof=${goal.proof} />
    </td>
    <td class="wide"><${Progress} goal=${goal} /></td>
    <td class="num running">${in_progress ? `${in_progress} running` : html`<${Nothing} />`}</td>
    <td class="num tokens">
      ${goal.usage ? html`${formatTokens(goal.usage)}<span class="unit"> tokens</span>` : html`<${Nothing} />`}
    </td>
    <td class="num cost">
      ${formatMoney(goal.cost_usd)}${goal.budget_usd && html`<span class="faint"> of ${formatMoney(goal.budget_usd)}</span>`}
    </td>
    <td class="num muted changed"><${Ago} at=${goal.updated_at} /></td>
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
        maxlength="10000"
        dir="auto"
        autofocus
        placeholder="Cut the checkout's p95 below 400 ms without raising cost"
      ></textarea></label>
      <label class="field">How will success be recognized?<textarea
        name="criteria"
        maxlength="10000"
        dir="auto"
        placeholder="Optional: what must be true when it is done"
      ></textarea></label>
      <div class="pair">
        <label class="field">Priority<input name="priority" type="number" min="0" max="1000" defaultValue="50" required />
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

function NoGoals() {
  const { show, q } = chosen.value;
  if (q.trim()) return html`<${Empty}>No goal has these words${show === "all" ? "" : ", with this filter"}.<//>`;
  if (show === "waiting") return html`<${Empty}>No goal waits for you.<//>`;
  if (show !== "all") return html`<${Empty}>No goal is ${show}.<//>`;
  return html`<${Empty}>No goals yet. Agents pursue a goal unattended: they plan, work, and ask when they need a decision.<//>`;
}

const COLUMNS = ["Goal", "Status", "Progress", "Sub-goals", "Tokens", "Cost", "Changed"];

const Table = ({ list }) => html`<table class="goals-table">
  <thead><tr>${COLUMNS.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead>
  <tbody>${list.map((goal) => html`<${Row} key=${goal.id} goal=${goal} />`)}</tbody>
</table>`;

/** The placeholder of the goals until the server has answered. */
const Placeholder = () => html`<div class="goal-skeletons" role="status" aria-label="Loading">
  ${["w70", "w56", "w88", "w70", "w56"].map((width, at) => html`<span key=${at} class="skeleton ${width}"></span>`)}
</div>`;

function SearchField() {
  const field = useRef();
  const timer = useRef(0);
  const { q } = chosen.value;
  useEffect(() => {
    if (field.current !== document.activeElement) field.current.value = q; // the address changed, for example with Back
  }, [q]);
  const onInput = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => choose({ q: field.current?.value.trim() ?? "" }), TYPING_MS);
  };
  return html`<input
    ref=${field}
    type="search"
    class="search"
    aria-label="Search goals"
    placeholder="Search goals"
    maxlength="1000"
    dir="auto"
    onInput=${onInput}
  />`;
}

export function Page() {
  const dialog = useRef();
  const { show, sort, q } = chosen.value;
  const isFirst = useRef(true);
  useStream("/v1/events", () => ({ load, on: { goal_changed: onChange } }));
  useEffect(() => {
    if (!isFirst.current) {
      goals.value = null; // the goals on screen are not those that were asked for
      attempt(load);
    }
    isFirst.current = false;
  }, [show, sort, q]);
  const list = goals.value;
  return html`<${Main}>
    <div class="title">
      <h1>Goals</h1>
      <div class="actions">
        <button class="btn primary" onClick=${() => dialog.current.showModal()}><${Icon} name="plus" />New goal</button>
      </div>
    </div>
    <div class="goal-filters">
      <${Choice} label="Show" value=${show} options=${FILTERS} onChoose=${(name) => choose({ show: name })} />
      <span class="grow"></span>
      <${SearchField} />
      <${Select} label="Order" value=${sort} options=${ORDERS} onChoose=${(name) => choose({ sort: name })} />
    </div>
    <section class="card" aria-label="Goals">
      ${list === null && html`<${Placeholder} />`}
      ${list && (list.length ? html`<${Table} list=${list} />` : html`<${NoGoals} />`)}
      ${
        nextCursor.value &&
        list &&
        html`<div class="more"><button class="btn small" onClick=${() => attempt(loadMore)}>Show more</button></div>`
      }
    </section>
    <${NewGoal} dialog=${dialog} />
  <//>`;
}

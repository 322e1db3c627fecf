// Everything the page of one goal shows, kept current by events. An event changes the rows that it names; nothing is fetched again
// for it, except texts that the server derives from many rows, and those at most once in a while.
import { noteProgress } from "../chat/steps/progress.js";
import { get } from "../core/api.js";
import { computed, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { getMapRoom } from "./plan/minimap.js";
import { listSpans } from "./plan/spans.js";
import { countProgress } from "./plan/sub_goal.js";
import { createTable } from "./plan/table.js";

const JOURNAL_PAGE_SIZE = 100;
const PLANS_PAGE_SIZE = 20;
const DERIVED_MS = 1_000; // how often derived texts and sums are fetched while events arrive
const CARD_ROOM = 192; // pixels, with the gap
const SIDEBAR = 228;
const WIDEST = 1240;
const PADDING = 100; // of the page and of the frame
const MANY = 36; // sub-goals, which are likely to be higher than the frame, so that the map is beside them

/** How many cards fit beside each other in this window. */
function countColumns(cards) {
  const sidebar = innerWidth > 860 ? SIDEBAR : 0;
  const across = Math.min(WIDEST, innerWidth - sidebar) - PADDING;
  return Math.max(2, Math.round((across - (cards >= MANY ? getMapRoom(across) : 0)) / CARD_ROOM));
}

export function createGoalState(id) {
  const goal = signal(null); // without its sub-goals
  const subGoals = createTable();
  const runs = createTable(); // its agent runs, without their texts
  const usage = signal(null); // the tokens of all runs
  const plans = signal(null); // the newest first; null: not needed yet, or loading
  const plansCursor = signal(null); // of older plans
  const graph = signal(null); // null: not needed yet, or loading
  const graphPlan = signal("current"); // or "all": with the sub-goals that a later plan has replaced
  const entries = signal([]); // of the journal, newest first
  const hasOlderEntries = signal(false);
  const costs = signal(null);
  const why = signal("");
  const receipts = signal([]); // what the checks of the goal and of its sub-goals found, newest first
  const isMissing = signal(false);
  const writes = signal({}); // how often files were written while the page is open, by sub-goal
  const path = `/v1/goals/${id}`;
  let needsGraph = false;

  const title = computed(() => goal.value?.description ?? "");
  const counts = computed(() => countProgress(subGoals.list()));
  // Computed values that stay the same render nothing again.
  const planned = computed(() => counts.value.planned);
  const supersededIds = computed(() =>
    subGoals
      .list()
      .filter(({ superseded_by }) => superseded_by)
      .map((subGoal) => subGoal.id)
      .join(),
  );

  /** The runs of a sub-goal. */
  const runsBySubGoal = computed(() => Map.groupBy(runs.list(), ({ sub_goal_id }) => sub_goal_id));
  const runsOf = (subGoalId) => runsBySubGoal.value.get(subGoalId) ?? [];
  /** The times in which sub-goals were worked at. */
  const spans = computed(() =>
    subGoals.list().flatMap((subGoal) => listSpans(subGoal, runsOf(subGoal.id), goal.value?.run_id).attempts),
  );

  const countWrites = (subGoalId) => writes.value[subGoalId] ?? 0;

  async function loadGoal() {
    const { sub_goals, ...fetched } = (await get(path)).goal;
    goal.value = fetched;
    subGoals.replace(sub_goals);
  }
  async function loadRuns() {
    const fetched = await get(`${path}/runs`);
    runs.replace(fetched.runs);
    usage.value = fetched.usage;
  }
  async function loadGraph() {
    needsGraph = true;
    graph.value = (
      await get(`${path}/graph`, { plan: graphPlan.value, columns: countColumns(subGoals.ids.peek()?.length ?? 0) })
    ).graph;
  }
  async function loadPlans(cursor) {
    const page = await get(`${path}/plans`, { limit: PLANS_PAGE_SIZE, ...(cursor && { cursor }) });
    plans.value = cursor ? [...plans.value, ...page.plans] : page.plans;
    plansCursor.value = page.next_cursor;
  }
  const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
  const hasChecks = () => [goal.value, ...subGoals.list()].some(({ checks }) => checks.length > 0);
  const loadReceipts = async () => (receipts.value = hasChecks() ? (await get(`${path}/receipts`)).receipts : []);
  const loadWhy = async () => (why.value = (await get(`/v1/why/goal/${id}`)).why.at(-1).text);

  async function loadJournal(before) {
    const page = (await get(`${path}/journal`, { limit: JOURNAL_PAGE_SIZE, ...(before && { before }) })).entries;
    const newestFirst = page.toSorted((a, b) => b.n - a.n);
    entries.value = before ? [...entries.value, ...newestFirst] : newestFirst;
    hasOlderEntries.value = page.length === JOURNAL_PAGE_SIZE;
  }
  const loadOlderEntries = () => loadJournal(entries.value.at(-1).n);

  async function exists() {
    try {
      await loadGoal();
      return true;
    } catch (error) {
      if (error.status !== 404) throw error;
      isMissing.value = true;
      return false;
    }
  }

  async function load() {
    const graphLoad = needsGraph ? loadGraph() : null;
    const plansLoad = plans.value ? loadPlans() : null;
    await Promise.all([loadGoal(), graphLoad, plansLoad, loadJournal(), loadRuns(), loadCosts(), loadWhy()]);
    await loadReceipts();
  }

  const reloadGoal = coalesce(loadGoal);
  const reloadGraph = coalesce(async () => needsGraph && loadGraph());
  const reloadPlans = coalesce(async () => plans.value && loadPlans());
  const reloadWhy = coalesce(loadWhy, DERIVED_MS);
  const reloadReceipts = coalesce(loadReceipts);
  const reloadRuns = coalesce(loadRuns, DERIVED_MS);

  const showPlan = (name) => {
    graphPlan.value = name;
    return loadGraph();
  };

  /** A handler that ignores the events of other goals. */
  const ifOurs = (handle) => (data) => (data.goal_id ?? data.goal?.id) === id && goal.value && handle(data);
  const on = {
    goal_changed: ifOurs(({ goal: changed }) => {
      const before = goal.value;
      goal.value = { ...before, ...changed };
      const hasEnded = changed.ended_at && !before.ended_at;
      if (changed.repository && hasEnded) reloadGoal(); // what was changed there is not part of events
      if (changed.plan_no !== before.plan_no) {
        reloadGraph();
        reloadPlans();
      }
      if (hasEnded) reloadRuns();
      reloadWhy();
    }),
    sub_goal_changed: ifOurs(({ sub_goal: changed }) => {
      const before = subGoals.apply(changed);
      // The layout depends on the dependencies alone.
      if (!before || String(before.depends_on) !== String(changed.depends_on)) reloadGraph();
      if (changed.ended_at && !before?.ended_at) reloadRuns(); // for their tokens
      if (changed.proof !== before?.proof) reloadReceipts();
      reloadWhy();
    }),
    journal_appended: ifOurs(({ entry }) => {
      if (!entries.value.some(({ n }) => n === entry.n)) entries.value = [entry, ...entries.value];
    }),
    checks_ran: ifOurs(reloadReceipts),
    agent_changed({ run }) {
      if (run.goal_id !== id || !goal.value) return;
      if (!runs.apply(run)) reloadRuns();
      noteProgress(run.id);
      noteProgress(run.parent_run_id);
    },
    tool_result({ run_id, files }) {
      const subGoalId = files && runs.peek(run_id)?.sub_goal_id;
      if (subGoalId) writes.value = { ...writes.value, [subGoalId]: (writes.value[subGoalId] ?? 0) + 1 };
    },
    cost_changed({ run_id, spent_usd, limit_usd }) {
      if (costs.value) costs.value = { ...costs.value, spent_usd, limit_usd };
      if (runs.has(run_id)) noteProgress(run_id);
    },
  };
  return {
    path,
    goal,
    title,
    subGoals,
    runs,
    usage,
    counts,
    planned,
    supersededIds,
    runsOf,
    spans,
    plans,
    plansCursor,
    loadPlans,
    countWrites,
    graph,
    graphPlan,
    showPlan,
    entries,
    hasOlderEntries,
    costs,
    why,
    receipts,
    isMissing,
    exists,
    load,
    loadGraph,
    loadOlderEntries,
    on,
  };
}

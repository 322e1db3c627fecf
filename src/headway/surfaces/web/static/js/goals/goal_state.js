// Everything the page of one goal shows, kept current by events.
import { get } from "../core/api.js";
import { signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";

const JOURNAL_PAGE_SIZE = 100;

export function createGoalState(id) {
  const goal = signal(null);
  const graph = signal(null);
  const entries = signal([]); // of the journal, newest first
  const hasOlderEntries = signal(false);
  const agents = signal([]);
  const costs = signal(null);
  const why = signal("");
  const receipts = signal([]); // what the goal's own checks found, newest first
  const isMissing = signal(false);
  const path = `/v1/goals/${id}`;

  const loadGoal = async () => (goal.value = (await get(path)).goal);
  const loadGraph = async () => (graph.value = (await get(`${path}/graph`)).graph);
  const loadAgents = async () => (agents.value = (await get("/v1/agents", { goal_id: id, limit: 100 })).agents);
  const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
  const loadReceipts = async () => (receipts.value = goal.value.checks.length ? (await get(`${path}/receipts`)).receipts : []);
  const loadWhy = async () => (why.value = (await get(`${path}/why`)).why);

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
    await Promise.all([loadGoal(), loadGraph(), loadJournal(), loadAgents(), loadCosts(), loadWhy()]);
    await loadReceipts();
  }

  const reloadGoal = coalesce(loadGoal);
  const reloadGraph = coalesce(loadGraph);
  const reloadWhy = coalesce(loadWhy);
  const reloadReceipts = coalesce(loadReceipts);
  const reloadAgents = coalesce(loadAgents);
  const reloadCosts = coalesce(loadCosts);

  /** A handler that ignores the events of other goals. */
  const ifOurs = (handle) => (data) => (data.goal_id ?? data.goal?.id) === id && goal.value && handle(data);
  const on = {
    goal_changed: ifOurs(({ goal: changed }) => {
      goal.value = { ...goal.value, ...changed, sub_goals: changed.sub_goals ?? goal.value.sub_goals };
      if (changed.repository && changed.ended_at) reloadGoal(); // what it changed there is not part of events
      reloadWhy();
    }),
    sub_goal_changed: ifOurs(({ sub_goal: changed }) => {
      const list = goal.value.sub_goals;
      const at = list.findIndex((subGoal) => subGoal.id === changed.id);
      const before = list[at];
      goal.value = { ...goal.value, sub_goals: at < 0 ? [...list, changed] : list.with(at, { ...before, ...changed }) };
      // The layout depends on the dependencies alone.
      if (!before || String(before.depends_on) !== String(changed.depends_on)) reloadGraph();
      reloadWhy();
    }),
    journal_appended: ifOurs(({ entry }) => {
      if (!entries.value.some(({ n }) => n === entry.n)) entries.value = [entry, ...entries.value];
    }),
    checks_ran: ifOurs(reloadReceipts),
    agent_changed: reloadAgents,
    cost_changed: () => {
      reloadCosts();
      reloadAgents();
    },
  };
  return {
    path,
    goal,
    graph,
    entries,
    hasOlderEntries,
    agents,
    costs,
    why,
    receipts,
    isMissing,
    exists,
    load,
    loadOlderEntries,
    on,
  };
}

// The columns of the board. Each holds the first todos of the server's list, as many as were needed so far, and is kept in the
// server's order by events. Todos that are not loaded are counted by the server.
import { loadConversations } from "../chat/conversations.js";
import { ApiError, get } from "../core/api.js";
import { batch, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { isEnded, STATUSES } from "../work/statuses.js";
import { buildQuery, filters, filterText, matchesFilters, offerFilters, shownStatuses } from "./filters.js";

const PAGE_SIZE = 100;
const LARGEST_PAGE = 500;

const UNKNOWN = { isKnown: false, list: [], next: null, boundary: null };

/** By status: {isKnown, list, next: the cursor of the next page, boundary: the sort key up to which the list is complete}. */
export const columns = Object.fromEntries(STATUSES.map((status) => [status, signal(UNKNOWN)]));
/** By status: how many todos the server has; null: not known. */
export const counts = signal(null);
/** The ids of todos that others wait for and that have not ended. */
export const openIds = signal(new Set());

// The order of the server.
const compareOpen = (a, b) => a.position - b.position || a.id - b.id;
const compareEnded = (a, b) => b.completed_at - a.completed_at || b.id - a.id;
const getCompare = (status) => (isEnded(status) ? compareEnded : compareOpen);

let generation = 0; // counts the loads of the whole board, so that answers to an older one are ignored
const recordings = new Set(); // for each request under way, the events since it began
const loading = new Set(); // the columns whose next page is being fetched

/** Run a request, then `merge` its result and the events that arrived meanwhile. */
async function recordDuring(request, merge) {
  const events = [];
  const mine = generation;
  recordings.add(events);
  try {
    const result = await request();
    if (mine !== generation) return;
    batch(() => {
      merge(result);
      events.forEach(apply);
    });
  } finally {
    recordings.delete(events);
  }
}

const NO_TODOS = { todos: [], next_cursor: null, open_dependencies: [] };

/** The conversation that the address or a saved view names may have been deleted. Then there is nothing to show. */
async function getUnlessGone(path, query, nothing) {
  try {
    return await get(path, query);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && query.conversation_id) return nothing;
    throw error;
  }
}

function fetchPage(status, limit, cursor) {
  const { q } = filters.value;
  const query = { ...buildQuery(filters.value), status, limit, ...(q && { q }), ...(cursor && { cursor }) };
  return getUnlessGone("/v1/todos", query, NO_TODOS);
}

function appendPage(status, page, before) {
  const known = new Set(before.map(({ id }) => id));
  const list = [...before, ...page.todos.filter(({ id }) => !known.has(id))];
  const boundary = page.todos.at(-1) ?? columns[status].value.boundary;
  columns[status].value = { isKnown: true, list, next: page.next_cursor, boundary };
  openIds.value = new Set([...openIds.value, ...page.open_dependencies]);
  offerFilters(page.todos);
}

async function loadCounts() {
  const mine = filterText.value;
  if (filters.value.q)
    counts.value = null; // a search does not look at all todos
  else {
    const found = await getUnlessGone("/v1/todos/counts", buildQuery(filters.value), { counts: null });
    if (mine === filterText.value) counts.value = found.counts;
  }
}
const refreshCounts = coalesce(loadCounts);

/** Load the board again, each column as far as it was loaded. */
export async function load() {
  generation++;
  const shown = shownStatuses.value;
  const sizes = shown.map((status) => Math.min(Math.max(PAGE_SIZE, columns[status].value.list.length), LARGEST_PAGE));
  await recordDuring(
    () =>
      Promise.all([loadCounts(), loadConversations(), Promise.all(shown.map((status, n) => fetchPage(status, sizes[n], null)))]),
    ([, , pages]) => {
      openIds.value = new Set();
      for (const [n, status] of shown.entries()) appendPage(status, pages[n], []);
    },
  );
}

/** Forget what is shown, because other todos are asked for. */
export function reset() {
  generation++;
  batch(() => {
    counts.value = null;
    for (const status of STATUSES) columns[status].value = UNKNOWN;
  });
}

/** Load the next page of a column, if there is one. `needed`: how many todos are needed in all. */
export async function loadMore(status, needed) {
  const { next, list } = columns[status].value;
  if (!next || loading.has(status)) return;
  loading.add(status);
  try {
    const limit = Math.min(Math.max(PAGE_SIZE, needed - list.length), LARGEST_PAGE);
    await recordDuring(
      () => fetchPage(status, limit, next),
      (page) => appendPage(status, page, columns[status].value.list),
    );
  } finally {
    loading.delete(status);
  }
}

/** Whether a todo is within the part of the column that is loaded. */
function isWithin({ next, boundary }, status, todo) {
  return next === null || (boundary !== null && getCompare(status)(todo, boundary) <= 0);
}

/** The list with a todo at its place. */
function insert(list, todo, compare) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(list[middle], todo) < 0) low = middle + 1;
    else high = middle;
  }
  return list.toSpliced(low, 0, todo);
}

function findKnown(id) {
  for (const status of STATUSES) {
    const known = columns[status].value.list.find((todo) => todo.id === id);
    if (known) return known;
  }
  return null;
}

function put(todo) {
  const column = columns[todo.status];
  if (!column.value.isKnown || !matchesFilters(todo) || !isWithin(column.value, todo.status, todo)) return;
  column.value = { ...column.value, list: insert(column.value.list, todo, getCompare(todo.status)) };
}

function takeOut(todo) {
  const column = columns[todo.status];
  column.value = { ...column.value, list: column.value.list.filter(({ id }) => id !== todo.id) };
}

function applyChange({ change, todo }) {
  const known = findKnown(todo.id);
  if (known) takeOut(known);
  if (change !== "deleted") put({ ...known, ...todo }); // long texts that did not change are not in the event
  const isOpen = change !== "deleted" && !isEnded(todo.status);
  const next = new Set(openIds.value);
  if (isOpen) next.add(todo.id);
  else next.delete(todo.id);
  openIds.value = next;
  offerFilters([todo]);
}

const reload = coalesce(() => load());

/** Some todos got other positions. One that comes from the part which is not loaded has to be fetched. */
function applyMoves({ positions }) {
  const column = columns.pending;
  const { list, boundary } = column.value;
  const move = (todo) => ({ ...todo, position: positions[todo.id] ?? todo.position });
  const moved = list.map((todo) => (todo.id in positions ? move(todo) : todo));
  const within = moved.filter((todo) => isWithin(column.value, "pending", todo)).sort(compareOpen);
  column.value = { ...column.value, list: within };
  const known = new Set(list.map(({ id }) => id));
  const isMissing = ([id, position]) => !known.has(Number(id)) && boundary && position <= boundary.position;
  if (column.value.next && Object.entries(positions).some(isMissing)) reload();
}

function apply(event) {
  if (event.positions) applyMoves(event);
  else applyChange(event);
}

export function onEvent(event) {
  for (const events of recordings) events.push(event);
  batch(() => apply(event));
  refreshCounts();
}

/** How many rows a column has: those that are loaded, and those that the server has counted beyond them. */
export function countRows(status) {
  const { list, next, isKnown } = columns[status].value;
  if (!isKnown) return 0;
  if (next === null) return list.length;
  return Math.max(counts.value?.[status] ?? 0, list.length + 1);
}

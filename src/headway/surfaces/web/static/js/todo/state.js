// The open todo and what belongs to it, kept up to date by events.
import { ApiError, get } from "../core/api.js";
import { batch, computed, signal } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { setSheetEvents } from "../work/todo_changes.js";
import { shownId } from "./address.js";

const COMMENTS_PAGE = 100;

const loaded = signal(null); // {todo, receipts, neighbours, isGone} or {id, isMissing}
/** The comments: {id: of the todo, list, next}. */
export const comments = signal(null);
/** The open todo; null until the server has answered. */
export const view = computed(() => {
  const known = loaded.value;
  return known && (known.todo?.id ?? known.id) === shownId.value ? known : null;
});

async function fetchTodo() {
  const id = shownId.value;
  if (!id) return null;
  try {
    const [{ todo }, { receipts }, neighbours] = await Promise.all([
      get(`/v1/todos/${id}`),
      get(`/v1/todos/${id}/receipts`),
      get(`/v1/todos/${id}/dependencies`),
    ]);
    return { todo, receipts, neighbours };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return { id, isMissing: true };
  }
}

function applyChange({ change, todo }) {
  if (loaded.value?.todo?.id !== todo.id) return;
  // Long texts that did not change are not in the event.
  loaded.value = { ...loaded.value, todo: { ...loaded.value.todo, ...todo }, isGone: change === "deleted" };
}

const { load: loadTodo, onChange } = createLiveList(fetchTodo, (fetched) => (loaded.value = fetched ?? loaded.value), applyChange);

async function fetchComments(cursor) {
  const id = shownId.value;
  if (!id || view.value?.isMissing) return null;
  const query = { limit: COMMENTS_PAGE, ...(cursor && { cursor }) };
  const page = await get(`/v1/todos/${id}/comments`, query);
  return id === shownId.value ? { id, list: page.comments, next: page.next_cursor } : null;
}

export async function loadComments() {
  try {
    comments.value = (await fetchComments()) ?? comments.value;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error; // the todo was deleted
  }
}

export async function loadMoreComments() {
  const page = await fetchComments(comments.value.next);
  if (page) comments.value = { ...page, list: [...comments.value.list, ...page.list] };
}

/** Load everything about the open todo. */
export const load = () => Promise.all([loadTodo(), loadComments()]);

const reload = coalesce(loadTodo);
const reloadComments = coalesce(loadComments);

/** Whether an event about another todo changes what is shown of this one. */
function concernsNeighbour({ id, depends_on }) {
  const known = view.value?.neighbours;
  if (!known || id === shownId.value) return Boolean(known);
  return depends_on.includes(shownId.value) || [...known.waits_for, ...known.needed_by].some((one) => one.id === id);
}

setSheetEvents({
  todo_changed: (data) =>
    batch(() => {
      onChange(data);
      if (data.change !== "deleted" || data.todo.id !== shownId.value) if (concernsNeighbour(data.todo)) reload();
    }),
  checks_ran: ({ todo_id }) => todo_id === shownId.value && reload(),
  comment_changed: ({ todo_id }) => todo_id === shownId.value && reloadComments(),
});

// The todo that is open beside the page, which the address names: /todos/12 on the board, ?todo=12 on other pages.
import { computed, signal } from "../core/lib.js";
import { navigate, path, search } from "../core/router.js";

const ADDRESS = /^\/todos\/(\d{1,18})$/;

function parseId(text) {
  const id = /^\d{1,18}$/.test(text ?? "") ? Number(text) : 0;
  return Number.isSafeInteger(id) && id > 0 ? id : null;
}

/** The id of the open todo, or null. */
export const shownId = computed(() => parseId(ADDRESS.exec(path.value)?.[1] ?? new URLSearchParams(search.value).get("todo")));
/** The attempt to complete the todo that was just refused: {id, failures}. */
export const refusal = signal(null);

function buildAddress(page, query) {
  const text = query.toString();
  return text ? `${page}?${text}` : page;
}

/** The address with another todo open, or with none. The page and its filters stay. */
export function formatAddress(id) {
  const query = new URLSearchParams(search.value);
  query.delete("todo");
  if (path.value === "/board" || ADDRESS.test(path.value)) return buildAddress(id ? `/todos/${id}` : "/board", query);
  if (id) query.set("todo", id);
  return buildAddress(path.value, query);
}

export function showTodo(id, failures = null) {
  refusal.value = failures && { id, failures };
  navigate(formatAddress(id), { state: { opensTodo: shownId.value === null } });
}

/** Go back to where it was opened, so that the back button does not open it again. */
export function closeTodo() {
  if (history.state?.opensTodo) history.back();
  else navigate(formatAddress(null));
}

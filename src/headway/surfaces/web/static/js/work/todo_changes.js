// Changes of todos by people. Completing a todo runs its checks first, which can take minutes.
import { patch, post, remove } from "../core/api.js";
import { ask, attempt, showToast } from "../core/dialogs.js";
import { signal } from "../core/lib.js";
import { showTodo } from "../todo/address.js";

/** The ids of todos whose checks run because of this page. */
export const checkedIds = signal(new Set());

let sheetEvents = null;
/** The sheet with a todo, when it is loaded, sets what it does with events. */
export const setSheetEvents = (handlers) => (sheetEvents = handlers);
/** Handlers of events for the stream of a page that has the sheet. */
export const onTodoEvent = {
  todo_changed: (data) => sheetEvents?.todo_changed(data),
  checks_ran: (data) => sheetEvents?.checks_ran(data),
  comment_changed: (data) => sheetEvents?.comment_changed(data),
};

async function whileChecking(id, run) {
  checkedIds.value = new Set([...checkedIds.value, id]);
  try {
    return await run();
  } finally {
    checkedIds.value = new Set([...checkedIds.value].filter((other) => other !== id));
  }
}

/** Run a change. If an agent holds a lease on the todo, ask first whether to change it anyway. */
async function unlessLeased(title, confirm, run, force) {
  try {
    await run();
  } catch (error) {
    if (error.code !== "leased") throw error;
    ask({ title, text: error.message, confirm, danger: false, run: force });
  }
}

/** Change a todo. If a check fails, show the todo and what failed. */
export async function changeTodo(id, fields) {
  const send = () => patch(`/v1/todos/${id}`, fields);
  try {
    await unlessLeased(
      "Change it anyway?",
      "Change it",
      () => (fields.status === "completed" ? whileChecking(id, send) : send()),
      () => changeTodo(id, { ...fields, force: true }),
    );
  } catch (error) {
    if (error.code !== "check_failed") throw error;
    showTodo(id, error.failures);
  }
}

/** Run the checks of a todo again. The event that follows updates its proof. */
export const verifyTodo = (id) => whileChecking(id, () => post(`/v1/todos/${id}/verify`));

async function deleteTodo(todo, query, onDeleted) {
  await unlessLeased(
    "Delete it anyway?",
    "Delete it",
    async () => {
      await remove(`/v1/todos/${todo.id}${query}`);
      showToast(`Deleted #${todo.id}.`);
      onDeleted();
    },
    () => attempt(() => deleteTodo(todo, "?force=true", onDeleted)),
  );
}

/** Delete a todo for good, after asking. */
export const askToDelete = (todo, onDeleted) =>
  ask({
    title: `Delete #${todo.id}?`,
    text: `“${todo.subject}” is deleted for good, with its comments. What waits for it no longer does.`,
    confirm: "Delete",
    run: () => deleteTodo(todo, "", onDeleted),
  });

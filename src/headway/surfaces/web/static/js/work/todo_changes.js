// Changes of todos by people. Completing a todo runs its checks first, which can take minutes.
import { patch, post } from "../core/api.js";
import { ask } from "../core/dialogs.js";
import { signal } from "../core/lib.js";

/** The todo that the dialog shows: {id, failures: of the attempt to complete it that was just refused}. */
export const shownTodo = signal(null);
/** The ids of todos whose checks run because of this page. */
export const checkedIds = signal(new Set());

let dialogEvents = null;
/** The dialog, when it is loaded, sets what it does with events. */
export const setDialogEvents = (handlers) => (dialogEvents = handlers);
/** Handlers of events for the stream of a page that has the dialog. */
export const onTodoEvent = {
  todo_changed: (data) => dialogEvents?.todo_changed(data),
  checks_ran: (data) => dialogEvents?.checks_ran(data),
};

export const showTodo = (id, failures = null) => (shownTodo.value = { id, failures });

async function whileChecking(id, run) {
  checkedIds.value = new Set([...checkedIds.value, id]);
  try {
    return await run();
  } finally {
    checkedIds.value = new Set([...checkedIds.value].filter((other) => other !== id));
  }
}

/** Change a todo. If an agent holds a lease on it, ask for confirmation first. If a check fails, show the todo and what failed. */
export async function changeTodo(id, fields) {
  const send = () => patch(`/v1/todos/${id}`, fields);
  try {
    await (fields.status === "completed" ? whileChecking(id, send) : send());
  } catch (error) {
    if (error.code === "check_failed") return showTodo(id, error.failures);
    if (error.code !== "leased") throw error;
    ask({
      title: "Change it anyway?",
      text: error.message,
      confirm: "Change it",
      danger: false,
      run: () => changeTodo(id, { ...fields, force: true }),
    });
  }
}

/** Run the checks of a todo again. The event that follows updates its proof. */
export const verifyTodo = (id) => whileChecking(id, () => post(`/v1/todos/${id}/verify`));

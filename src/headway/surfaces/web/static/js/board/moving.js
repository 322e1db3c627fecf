// Moving cards: into another column, which changes the status, and within Pending, whose order is stored.
import { attempt } from "../core/dialogs.js";
import { batch, signal } from "../core/lib.js";
import { showTodo } from "../todo/address.js";
import { LABELS, LEGAL_TRANSITIONS } from "../work/statuses.js";
import { changeTodo } from "../work/todo_changes.js";
import { columns } from "./columns.js";
import { shownStatuses } from "./filters.js";

/** The todo that is being dragged, or null. */
export const dragged = signal(null);
/** Where it would be dropped: {status, index}. The index counts only in Pending. */
export const dropPlace = signal(null);
/** The todo whose card has the focus. It keeps it when the card moves. */
export const focused = signal(null);
/** The words of a screen reader about the last move. */
export const announcement = signal("");

/** Only the order of Pending is stored. In progress is short, and ended todos are sorted by time. */
export const isOrdered = (status) => status === "pending";

/** Whether the dragged card may be dropped on a column. */
export function isLegalTarget(status) {
  const todo = dragged.value;
  return !todo || (todo.status === status ? isOrdered(status) : LEGAL_TRANSITIONS[todo.status].includes(status));
}

/** The place before the card at an index, as the API names it. Without one, it is the end of the list. */
function describePlace(todo, index) {
  const others = columns.pending.value.list.filter(({ id }) => id !== todo.id);
  const before = others[index];
  if (before) return { before: before.id };
  const after = others.at(-1);
  return after ? { after: after.id } : {};
}

const changeStatus = (todo, status) => attempt(() => changeTodo(todo.id, { status }));

/** Move a card to a column; in Pending, before the card at `index`, which counts without the moved card. */
function moveTo(todo, status, index) {
  const place = isOrdered(status) && index !== null ? describePlace(todo, index) : {};
  const fields = { ...place, ...(status !== todo.status && { status }) };
  if (Object.keys(fields).length) attempt(() => changeTodo(todo.id, fields));
}

/** Move a card of Pending by one place. */
async function reorder(todo, index, step) {
  const { list } = columns[todo.status].value;
  const neighbour = list[index + step];
  if (!isOrdered(todo.status) || !neighbour) return;
  await attempt(() => changeTodo(todo.id, step < 0 ? { before: neighbour.id } : { after: neighbour.id }));
  announcement.value = `#${todo.id} moved to place ${index + step + 1}.`;
}

/** The next status in that direction that the ledger allows. */
function findNextStatus(status, step) {
  const order = step > 0 ? shownStatuses.value : shownStatuses.value.toReversed();
  return order.slice(order.indexOf(status) + 1).find((candidate) => LEGAL_TRANSITIONS[status].includes(candidate));
}

async function shiftStatus(todo, step) {
  const next = findNextStatus(todo.status, step);
  if (!next) return;
  await changeStatus(todo, next);
  announcement.value = `#${todo.id} moved to ${LABELS[next]}.`;
}

/** Move the focus to another card: along the column, or to the same place in the next one. */
function moveFocus(todo, index, { down = 0, right = 0 }) {
  const shown = shownStatuses.value;
  let status = todo.status;
  for (let at = shown.indexOf(status) + right; right && at >= 0 && at < shown.length; at += right) {
    if (!columns[shown[at]].value.list.length) continue;
    status = shown[at];
    break;
  }
  const { list } = columns[status].value;
  const target = list[Math.max(0, Math.min(index + down, list.length - 1))];
  if (!target || target.id === todo.id) return;
  focused.value = { id: target.id, moves: true };
}

const STEPS = {
  ArrowUp: { down: -1 },
  ArrowDown: { down: 1 },
  ArrowLeft: { right: -1 },
  ArrowRight: { right: 1 },
  PageUp: { down: -8 },
  PageDown: { down: 8 },
  Home: { down: -Infinity },
  End: { down: Infinity },
};

function onKeyDown(event, todo, index) {
  const step = STEPS[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.shiftKey || event.target.matches("select")) return;
  event.preventDefault();
  if (!event.altKey) return moveFocus(todo, index, step);
  focused.value = { id: todo.id, moves: true };
  if (step.right) shiftStatus(todo, step.right);
  else if (Math.abs(step.down) === 1) reorder(todo, index, step.down);
}

function onDragStart(event, todo) {
  event.dataTransfer.setData("text/plain", String(todo.id));
  event.dataTransfer.effectAllowed = "move";
  // After the browser has taken its picture of the card.
  setTimeout(() => (dragged.value = todo));
}

const onDragEnd = () =>
  batch(() => {
    dragged.value = null;
    dropPlace.value = null;
  });

export function onDrop(status) {
  const [todo, place] = [dragged.value, dropPlace.value];
  onDragEnd();
  if (!todo) return;
  const at = columns[todo.status].value.list.findIndex(({ id }) => id === todo.id);
  const isBelow = status === todo.status && place && place.index > at; // the card itself is above the place
  const index = place?.index === undefined ? null : place.index - (isBelow ? 1 : 0);
  if (status === todo.status && index === at) return;
  moveTo(todo, status, index);
}

/** The functions that cards call. */
export const actions = {
  changeStatus,
  onKeyDown,
  onDragStart,
  onDragEnd,
  open: (todo) => showTodo(todo.id),
  onFocus(todo) {
    if (focused.value?.id !== todo.id) focused.value = { id: todo.id, moves: false };
  },
};

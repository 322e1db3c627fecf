// The todo list of the turn, above the input. Changes go to the ledger; the panel shows the state that the ledger sends back.
import { post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, preferences, signal, useEffect, useId, useRef } from "../core/lib.js";
import { Icon, pluralize, Ring, StatusIcon } from "../core/ui.js";
import { checkedIds } from "../work/todo_changes.js";
import { TodoRow } from "./todo_row.js";
import { turnTodos } from "./turn_proofs.js";

const ROW_LIMIT = 50;
const isOpen = signal(preferences.get("todos-open") === "yes");
const doneTurn = signal(null); // the finished turn whose list the user has opened; otherwise a finished list is one line
const showsAll = signal(false);

function toggle(turnId, isDone) {
  if (isDone) {
    doneTurn.value = doneTurn.value === turnId ? null : turnId;
    return;
  }
  isOpen.value = !isOpen.value;
  preferences.set("todos-open", isOpen.value ? "yes" : "no");
}

/**
 * The items with their status as the ledger has it, then those that were canceled, which the state of the plan leaves out.
 * The state also names the first pending item as the current one: an item is shown as current only if it is in progress.
 */
export function listTodos(items, todos) {
  const shown = items.map((item) => {
    if (item.status !== "current") return item;
    return todos.get(item.id)?.status === "in_progress" ? item : { ...item, status: "pending" };
  });
  const known = new Set(items.map(({ id }) => id));
  const canceled = [...todos].filter(([id, { status }]) => status === "canceled" && !known.has(id));
  return [...shown, ...canceled.map(([id, { subject }]) => ({ id, description: subject, status: "canceled" }))];
}

/** Of a long list, the rows around the current one. */
function selectNearby(items, currentId) {
  if (items.length <= ROW_LIMIT) return items;
  const current = items.findIndex(({ id }) => id === currentId);
  const start = Math.min(Math.max(0, (current < 0 ? items.length : current) - 3), items.length - ROW_LIMIT);
  return items.slice(start, start + ROW_LIMIT);
}

function AddTodo({ turnId }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const subject = field.current.value.trim();
    if (!subject) return;
    attempt(async () => {
      await post("/v1/todos", { subject, turn_id: turnId });
      field.current.value = "";
    });
  };
  return html`<form class="todo-add" onSubmit=${submit}>
    <${Icon} name="plus" />
    <input
      ref=${field}
      aria-label="Add a todo"
      placeholder="Add a todo"
      maxlength="1000"
      autocomplete="off"
      enterkeyhint="done"
    />
  </form>`;
}

function Header({ state, canceled, flash, listId, isListOpen, onToggle }) {
  const isDone = state.remaining === 0;
  const counts = isDone ? pluralize(state.total, "todo") : `${state.total} total · ${state.remaining} remaining`;
  return html`<div class="todo-head ${isDone ? "done" : ""}">
    <h2><${Ring} value=${state.total - state.remaining} total=${state.total} />${isDone ? "All done" : "Todos"}</h2>
    <span class="count">${counts}${canceled > 0 && ` · ${canceled} canceled`}</span>
    <span class="grow truncate" role="status">
      ${flash !== null && html`<span class="flash" dir="auto">Continuing: <b>${flash}</b></span>`}
    </span>
    <button class="btn ghost small" aria-expanded=${String(isListOpen)} aria-controls=${listId} onClick=${onToggle}>
      ${isListOpen ? "Collapse" : "Expand"}<${Icon} name="chev" class="chev" />
    </button>
  </div>`;
}

/** The item in progress, or the one that comes next. */
function CurrentTodo({ todo, isRunning }) {
  const isCurrent = todo.status === "current" && isRunning;
  const label = isCurrent ? "Current:" : todo.status === "current" ? "Left in progress:" : "Next:";
  return html`<p class="todo-current">
    <${StatusIcon} status=${isCurrent ? "current" : "pending"} decorative />
    <span class="muted">${label}</span>
    <span class="truncate" dir="auto" title=${todo.description}>${todo.description}</span>
  </p>`;
}

function TodoRows({ items, proofs, turnId, listId, currentId, isRunning }) {
  const list = useRef();
  useEffect(() => {
    // Scrolls the list only: scrollIntoView would also move the conversation.
    const row = list.current.querySelector(`[data-id="${currentId}"]`);
    if (!row) return;
    const top = row.offsetTop;
    const isVisible = top >= list.current.scrollTop && top + row.offsetHeight <= list.current.scrollTop + list.current.clientHeight;
    if (!isVisible) list.current.scrollTop = top - list.current.clientHeight / 3;
  }, [currentId]);
  const rows = showsAll.value ? items : selectNearby(items, currentId);
  const hidden = items.length - rows.length;
  const showAll = () => (showsAll.value = true);
  return html`<div ref=${list} class="todo-list" id=${listId} tabindex="0" role="group" aria-label="All todos">
    <ul>
      ${rows.map(
        (item) => html`<${TodoRow}
          key=${item.id}
          item=${item}
          turnId=${turnId}
          proof=${proofs.get(item.id)}
          isChecking=${checkedIds.value.has(item.id)}
          isRunning=${isRunning}
        />`,
      )}
    </ul>
    ${hidden > 0 && html`<button class="btn ghost small show-more" onClick=${showAll}>+${hidden} more</button>`}
    ${
      showsAll.value &&
      items.length > ROW_LIMIT &&
      html`<button class="btn ghost small show-more" onClick=${() => (showsAll.value = false)}>Show fewer</button>`
    }
  </div>`;
}

export function TodoPanel({ timeline }) {
  const listId = useId();
  const state = timeline.todos.value;
  const turnId = timeline.turnId.value;
  const limitNotice = timeline.limitNotice.value;
  const isRunning = Boolean(timeline.running.value);
  const isDone = state.remaining === 0;
  const isListOpen = isDone ? doneTurn.value === turnId : isOpen.value;
  const items = listTodos(state.items, turnTodos.value);
  const next = items.find(({ id }) => id === state.current?.id);
  const canceled = items.length - state.items.length;
  return html`<section class="todo" aria-label="Todos">
    <${Header}
      state=${state}
      canceled=${canceled}
      flash=${timeline.flash.value}
      listId=${listId}
      isListOpen=${isListOpen}
      onToggle=${() => toggle(turnId, isDone)}
    />
    ${next && html`<${CurrentTodo} todo=${next} isRunning=${isRunning} />`}
    ${limitNotice && html`<p class="todo-limit" role="alert"><${Icon} name="warn" /><span dir="auto">${limitNotice}</span></p>`}
    ${
      isListOpen
        ? html`<${TodoRows}
              items=${items}
              proofs=${timeline.proofs.value}
              turnId=${turnId}
              listId=${listId}
              currentId=${next?.id}
              isRunning=${isRunning}
            /><${AddTodo} turnId=${turnId} />`
        : html`<div id=${listId} hidden></div>`
    }
  </section>`;
}

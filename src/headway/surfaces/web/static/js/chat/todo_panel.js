// The todo list of the turn, above the input. Changes go to the ledger; the panel shows the state that the ledger sends back.
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, PureComponent, preferences, signal, useId, useRef } from "../core/lib.js";
import { Icon, Ring, StatusIcon } from "../core/ui.js";
import { ProofMark } from "../work/proof.js";
import { changeTodo, checkedIds, showTodo } from "../work/todo_changes.js";

const ROW_LIMIT = 50;
const isOpen = signal(preferences.get("todos-open") === "yes");
const showsAll = signal(false);

const toggle = () => {
  isOpen.value = !isOpen.value;
  preferences.set("todos-open", isOpen.value ? "yes" : "no");
};

/** Move a pending todo one place up or down. Moving it down moves the next one up. */
async function moveTodo(turnId, id, isDown) {
  const pending = (await get("/v1/todos", { turn_id: turnId, status: "pending", limit: 500 })).todos;
  const at = pending.findIndex((todo) => todo.id === id);
  const [moved, target] = isDown ? [pending[at + 1], pending[at]] : [pending[at], pending[at - 1]];
  if (at >= 0 && moved && target) await changeTodo(moved.id, { position: target.position });
}

// A function and not a component: long lists have many of them.
const renderButton = ({ action, todo, shortcut, icon, onClick }) => html`<button
  class="btn ghost icon-only tiny"
  aria-label="${action}: ${todo}"
  title=${shortcut ? `${action} (${shortcut})` : action}
  onClick=${onClick}
><${Icon} name=${icon} /></button>`;

class Row extends PureComponent {
  render({ item, turnId, proof, isChecking }) {
    const todo = item.description;
    const move = (isDown) => attempt(() => moveTodo(turnId, item.id, isDown));
    const setStatus = (status) => attempt(() => changeTodo(item.id, { status }));
    const onKeyDown = (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      move(event.key === "ArrowDown");
    };
    return html`<li class="row-${item.status}" data-id=${item.id} onKeyDown=${onKeyDown}>
      <${StatusIcon} status=${item.status} /><span class="grow" dir="auto">${todo}</span>
      <span class="row-actions">
        ${
          item.status !== "done" && [
            renderButton({ action: "Move up", shortcut: "Alt ↑", todo, icon: "up", onClick: () => move(false) }),
            renderButton({ action: "Move down", shortcut: "Alt ↓", todo, icon: "down", onClick: () => move(true) }),
            renderButton({ action: "Finish", todo, icon: "check", onClick: () => setStatus("completed") }),
            renderButton({ action: "Cancel", todo, icon: "close", onClick: () => setStatus("canceled") }),
          ]
        }
        ${renderButton({ action: "Details", todo, icon: "menu", onClick: () => showTodo(item.id) })}
      </span>
      <${ProofMark} proof=${proof} isChecking=${isChecking} compact />
    </li>`;
  }
}

/** Of a long list, the rows around the current one. */
function selectNearby(items) {
  if (items.length <= ROW_LIMIT) return items;
  const current = items.findIndex(({ status }) => status === "current");
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

const Header = ({ state, flash, listId }) => html`<div class="todo-head">
  <h2><${Ring} value=${state.total - state.remaining} total=${state.total} />Todos</h2>
  <span class="count">${state.total} total · ${state.remaining} remaining</span>
  <span class="grow truncate" role="status">
    ${flash !== null && html`<span class="flash" dir="auto">Continuing: <b>${flash}</b></span>`}
  </span>
  <button class="btn ghost small" aria-expanded=${String(isOpen.value)} aria-controls=${listId} onClick=${toggle}>
    ${isOpen.value ? "Collapse" : "Expand"}<${Icon} name="chev" class="chev" />
  </button>
</div>`;

function CurrentTodo({ todo, hasEnded }) {
  if (!todo) return html`<p class="todo-current"><${StatusIcon} status="done" decorative /><span>All done</span></p>`;
  return html`<p class="todo-current">
    <${StatusIcon} status=${hasEnded ? "pending" : "current"} decorative />
    <span class="muted">${hasEnded ? "Next:" : "Current:"}</span>
    <span class="truncate" dir="auto" title=${todo.description}>${todo.description}</span>
  </p>`;
}

function TodoRows({ items, proofs, turnId, listId }) {
  const rows = showsAll.value ? items : selectNearby(items);
  const hidden = items.length - rows.length;
  const isLong = items.length > ROW_LIMIT;
  const showAll = () => (showsAll.value = true);
  const showFewer = () => (showsAll.value = false);
  return html`<div class="todo-list" id=${listId} hidden=${!isOpen.value} tabindex="0" role="group" aria-label="All todos">
    ${
      isOpen.value &&
      html`<ul>
          ${rows.map(
            (item) => html`<${Row}
              key=${item.id}
              item=${item}
              turnId=${turnId}
              proof=${proofs.get(item.id)}
              isChecking=${checkedIds.value.has(item.id)}
            />`,
          )}
        </ul>
        ${hidden > 0 && html`<button class="btn ghost small show-more" onClick=${showAll}>+${hidden} more</button>`}
        ${showsAll.value && isLong && html`<button class="btn ghost small show-more" onClick=${showFewer}>Show fewer</button>`}`
    }
  </div>`;
}

export function TodoPanel({ timeline }) {
  const listId = useId();
  const state = timeline.todos.value;
  if (!state?.total) return null;
  const turnId = timeline.turnId.value;
  const limitNotice = timeline.limitNotice.value;
  const hasEnded = !timeline.running.value && state.remaining > 0;
  return html`<section class="todo" aria-label="Todos">
    <${Header} state=${state} flash=${timeline.flash.value} listId=${listId} />
    <${CurrentTodo} todo=${state.current} hasEnded=${hasEnded} />
    ${limitNotice && html`<p class="todo-limit" role="alert"><${Icon} name="warn" /><span dir="auto">${limitNotice}</span></p>`}
    <${TodoRows} items=${state.items} proofs=${timeline.proofs.value} turnId=${turnId} listId=${listId} />
    ${isOpen.value && html`<${AddTodo} turnId=${turnId} />`}
  </section>`;
}

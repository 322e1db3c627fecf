// The turn's list, right above the input. People change it through the ledger; what is shown is what the ledger tells back.
import { get, patch, post } from "./api.js";
import { ask, attempt } from "./dialogs.js";
import { html, Kept, remembered, signal, useId, useRef } from "./lib.js";
import { Icon, Ring, Status } from "./ui.js";

const SHOWN = 50;
const open = signal(remembered.get("todos-open") === "yes");
const all = signal(false);

const toggle = () => {
  open.value = !open.value;
  remembered.set("todos-open", open.value ? "yes" : "no");
};

/** A todo that an agent holds is changed only by somebody who means it. */
export async function change(id, fields) {
  try {
    await patch(`/v1/todos/${id}`, fields);
  } catch (refusal) {
    if (refusal.code !== "leased") throw refusal;
    ask({
      title: "Change it all the same?",
      text: refusal.message,
      yes: "Change it",
      danger: false,
      run: () => patch(`/v1/todos/${id}`, { ...fields, force: true }),
    });
  }
}

/** One place up or down among those that wait. To move one down is to move the next one up. */
async function move(turnId, id, down) {
  const waiting = (await get("/v1/todos", { turn_id: turnId, status: "pending", limit: 500 })).todos;
  const at = waiting.findIndex((one) => one.id === id);
  const [mover, place] = down ? [waiting[at + 1], waiting[at]] : [waiting[at], waiting[at - 1]];
  if (at >= 0 && mover && place) await change(mover.id, { position: place.position });
}

class Row extends Kept {
  render({ item, turnId }) {
    const act = (action) => () => attempt(action);
    const moved = (down) => attempt(() => move(turnId, item.id, down));
    const onKeyDown = (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      moved(event.key === "ArrowDown");
    };
    const name = item.description;
    return html`<li class="row-${item.status}" data-id=${item.id} onKeyDown=${onKeyDown}>
      <${Status} s=${item.status} /><span class="grow" dir="auto">${name}</span>
      ${
        item.status !== "done" &&
        html`<span class="row-acts">
        <button class="btn ghost icon tiny" aria-label="Move up: ${name}" title="Move up (Alt ↑)" onClick=${() => moved(false)}><${Icon} n="up" /></button>
        <button class="btn ghost icon tiny" aria-label="Move down: ${name}" title="Move down (Alt ↓)" onClick=${() => moved(true)}><${Icon} n="down" /></button>
        <button class="btn ghost icon tiny" aria-label="Finish: ${name}" title="Finish" onClick=${act(() => change(item.id, { status: "completed" }))}><${Icon} n="check" /></button>
        <button class="btn ghost icon tiny" aria-label="Cancel: ${name}" title="Cancel" onClick=${act(() => change(item.id, { status: "canceled" }))}><${Icon} n="close" /></button>
      </span>`
      }
    </li>`;
  }
}

/** Of a long list, the neighbourhood of the current item. */
function nearby(items) {
  if (items.length <= SHOWN) return items;
  const current = items.findIndex((one) => one.status === "current");
  const start = Math.min(Math.max(0, (current < 0 ? items.length : current) - 3), items.length - SHOWN);
  return items.slice(start, start + SHOWN);
}

function Add({ turnId }) {
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
  return html`<form class="todo-add" onSubmit=${submit}><${Icon} n="plus" /><input ref=${field} aria-label="Add a todo" placeholder="Add a todo" maxlength="1000" autocomplete="off" enterkeyhint="done" /></form>`;
}

export function TodoPanel({ timeline }) {
  const id = useId();
  const state = timeline.todos.value;
  if (!state?.total) return null;
  const rows = open.value ? (all.value ? state.items : nearby(state.items)) : [];
  const hidden = state.items.length - rows.length;
  const turnId = timeline.turnId.value;
  const ended = !timeline.running.value && state.remaining > 0;
  return html`<section class="todo" aria-label="Todos">
    <div class="todo-head">
      <h2><${Ring} value=${state.total - state.remaining} total=${state.total} />Todos</h2>
      <span class="count">${state.total} total · ${state.remaining} remaining</span>
      <span class="grow cut" role="status">${timeline.flash.value !== null && html`<span class="flash" dir="auto">Continuing: <b>${timeline.flash.value}</b></span>`}</span>
      <button class="btn ghost small" aria-expanded=${String(open.value)} aria-controls=${id} onClick=${toggle}>${open.value ? "Collapse" : "Expand"}<${Icon} n="chev" c="chev" /></button>
    </div>
    <p class="todo-now">
      ${
        state.current
          ? html`<${Status} s=${ended ? "pending" : "current"} quiet /><span class="muted">${ended ? "Next:" : "Current:"}</span><span class="cut" dir="auto" title=${state.current.description}>${state.current.description}</span>`
          : html`<${Status} s="done" quiet /><span>All done</span>`
      }
    </p>
    ${timeline.cap.value && html`<p class="todo-cap" role="alert"><${Icon} n="warn" /><span dir="auto">${timeline.cap.value}</span></p>`}
    <div class="todo-list" id=${id} hidden=${!open.value} tabindex="0" role="group" aria-label="All todos">
      <ul>${rows.map((item) => html`<${Row} key=${item.id} item=${item} turnId=${turnId} />`)}</ul>
      ${open.value && hidden > 0 && html`<button class="btn ghost small more" onClick=${() => (all.value = true)}>+${hidden} more</button>`}
      ${open.value && all.value && state.items.length > SHOWN && html`<button class="btn ghost small more" onClick=${() => (all.value = false)}>Show fewer</button>`}
    </div>
    ${open.value && html`<${Add} turnId=${turnId} />`}
  </section>`;
}

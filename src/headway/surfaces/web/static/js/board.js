// All todos of the tenant by status. Dragging, the menu of a card and Alt with an arrow key change the status.
import { get, post } from "./api.js";
import { conversations, loadConversations } from "./conversations.js";
import { attempt } from "./dialogs.js";
import { computed, html, Kept, signal, useEffect, useRef, useState } from "./lib.js";
import { listed } from "./looks.js";
import { change } from "./todo_panel.js";
import { Empty, Icon, Select, Status } from "./ui.js";
import { useStream } from "./watch.js";

export const TITLE = "Board";

const COLUMNS = [
  ["in_progress", "In progress"],
  ["pending", "Pending"],
  ["completed", "Done"],
  ["canceled", "Canceled"],
];
const STATUSES = COLUMNS.map(([status]) => status);
// What ended can only be reopened, as pending or at once in progress; the ledger refuses anything else.
const LEGAL = {
  pending: ["in_progress", "completed", "canceled"],
  in_progress: ["pending", "completed", "canceled"],
  completed: ["pending", "in_progress"],
  canceled: ["pending", "in_progress"],
};
const ENDED = ["completed", "canceled"];
const PAGE = 250;
const EVERYWHERE = "all";

const todos = signal(new Map());
const cursors = signal({}); // where each column goes on
const filters = signal({ conversation: EVERYWHERE, agent: EVERYWHERE });

const query = (status, cursor) => {
  const { conversation, agent } = filters.value;
  const wanted = { status, limit: PAGE };
  if (conversation !== EVERYWHERE) wanted.conversation_id = conversation;
  if (agent !== EVERYWHERE) wanted.agent_id = agent;
  if (cursor) wanted.cursor = cursor;
  return get("/v1/todos", wanted);
};

/** A conversation's list comes with the tenant-wide todos; here it stands for itself. */
const fits = (todo) => {
  const { conversation, agent } = filters.value;
  const place = conversation === EVERYWHERE || todo.conversation_id === (conversation === "tenant" ? 0 : Number(conversation));
  return place && (agent === EVERYWHERE || todo.agent_id === agent);
};

async function fetched() {
  const [pages] = await Promise.all([Promise.all(STATUSES.map((status) => query(status))), loadConversations()]);
  return pages;
}

function take(pages) {
  todos.value = new Map(pages.flatMap((page) => page.todos).map((one) => [one.id, one]));
  cursors.value = Object.fromEntries(STATUSES.map((status, n) => [status, pages[n].next_cursor]));
}

async function loadMore(status) {
  const page = await query(status, cursors.value[status]);
  todos.value = new Map([...todos.value, ...page.todos.map((one) => [one.id, one])]);
  cursors.value = { ...cursors.value, [status]: page.next_cursor };
}

function apply({ change: what, todo }) {
  const next = new Map(todos.value);
  if (what === "deleted") next.delete(todo.id);
  else next.set(todo.id, todo);
  todos.value = next;
}

const { load, changed } = listed(fetched, take, apply);

const byPlace = (a, b) => a.position - b.position || a.id - b.id;
const byEnd = (a, b) => b.completed_at - a.completed_at || b.id - a.id;

const columns = computed(() => {
  const sorted = Object.fromEntries(STATUSES.map((status) => [status, []]));
  for (const todo of todos.value.values()) if (fits(todo)) sorted[todo.status].push(todo);
  for (const status of STATUSES) sorted[status].sort(ENDED.includes(status) ? byEnd : byPlace);
  return sorted;
});
const none = computed(() => STATUSES.every((status) => !columns.value[status].length));
let met = new Set(); // whoever was seen can be chosen, also while another's todos are all that is here
const agents = computed(() => {
  met = new Set([...met, ...[...todos.value.values()].map((one) => one.agent_id)]);
  return [...met].sort();
});
const narrowed = computed(() => Object.values(filters.value).some((chosen) => chosen !== EVERYWHERE));

const moveTo = (id, status) => attempt(() => change(id, { status }));

/** The next status in that direction that the ledger allows. */
function neighbour(status, step) {
  const order = step > 0 ? STATUSES : STATUSES.toReversed();
  return order.slice(order.indexOf(status) + 1).find((one) => LEGAL[status].includes(one));
}

// A card that is moved by keyboard is made anew in another column; whoever moved it stays with it.
let moved = null;

class Tile extends Kept {
  render({ todo, place }) {
    const onKeyDown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const to = event.altKey && step && neighbour(todo.status, step);
      if (!to) return;
      event.preventDefault();
      moved = todo.id;
      moveTo(todo.id, to);
    };
    const onDragStart = (event) => {
      event.dataTransfer.setData("text/plain", String(todo.id));
      event.dataTransfer.effectAllowed = "move";
      event.currentTarget.classList.add("dragging");
    };
    const keepFocus = (menu) => {
      if (!menu || moved !== todo.id) return;
      moved = null;
      menu.focus();
    };
    const words = COLUMNS.find(([status]) => status === todo.status)[1];
    return html`<li class="tile ${todo.status}" data-id=${todo.id} draggable="true" onKeyDown=${onKeyDown} onDragStart=${onDragStart} onDragEnd=${(event) => event.currentTarget.classList.remove("dragging")}>
      <div class="line"><${Status} s=${todo.status} quiet /><span class="clamp" dir="auto" title=${todo.subject}>${todo.subject}</span>
        <label class="mover"><${Icon} n="chev" /><select ref=${keepFocus} aria-label="Status of ${todo.subject}" title="Change the status (Alt ← →)" value=${todo.status} onChange=${(event) => moveTo(todo.id, event.currentTarget.value)}>
          <option value=${todo.status}>${words}</option>
          ${LEGAL[todo.status].map((status) => html`<option key=${status} value=${status}>${COLUMNS.find(([one]) => one === status)[1]}</option>`)}
        </select></label></div>
      <div class="sub"><span class="num">#${todo.id}</span><span aria-hidden="true">·</span>${todo.conversation_id ? html`<a class="cut" href="/c/${todo.conversation_id}" dir="auto">${place}</a>` : "tenant-wide"}${todo.agent_id !== "index" && html`<span aria-hidden="true">·</span><span class="cut" dir="auto">${todo.agent_id}</span>`}</div>
    </li>`;
  }
}

function Column({ status, title }) {
  const [over, setOver] = useState(false);
  const list = columns.value[status];
  const titles = new Map(conversations.value.map((one) => [one.id, one.title]));
  const more = Boolean(cursors.value[status]);
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    const id = Number(event.dataTransfer.getData("text/plain"));
    if (todos.value.get(id)?.status !== status) moveTo(id, status);
  };
  const dragOver = (event) => {
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
    setOver(true);
  };
  return html`<section class=${over ? "over" : ""} aria-label=${title} onDragOver=${dragOver} onDragLeave=${(event) => !event.currentTarget.contains(event.relatedTarget) && setOver(false)} onDrop=${drop}>
    <h2><${Status} s=${status} quiet />${title} <span class="faint num">${list.length}${more ? "+" : ""}</span></h2>
    ${status === "pending" && html`<${Add} />`}
    <ul>${list.map((todo) => html`<${Tile} key=${todo.id} todo=${todo} place=${titles.get(todo.conversation_id) || `Conversation ${todo.conversation_id}`} />`)}</ul>
    ${more && html`<button class="btn small more" onClick=${() => attempt(() => loadMore(status))}>Show more</button>`}
    ${!list.length && !more && html`<p class="hint nothing">Nothing here.</p>`}
  </section>`;
}

function Add() {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const subject = field.current.value.trim();
    const { conversation } = filters.value;
    const list = Number(conversation) || 0;
    if (!subject) return;
    attempt(async () => {
      await post("/v1/todos", { subject, conversation_id: list });
      field.current.value = "";
    });
  };
  return html`<form class="board-add" onSubmit=${submit}><${Icon} n="plus" /><input ref=${field} aria-label="Add a todo" placeholder="Add a todo" maxlength="1000" autocomplete="off" /></form>`;
}

function Filters() {
  const choose = (name) => (value) => {
    filters.value = { ...filters.value, [name]: value };
    attempt(load);
  };
  const { conversation, agent } = filters.value;
  const talks = conversations.value.map((one) => [String(one.id), one.title || `Conversation ${one.id}`]);
  return html`<div class="filters" role="group" aria-label="Filters">
    <${Select} label="Conversation" value=${conversation} options=${[[EVERYWHERE, "All conversations"], ["tenant", "Tenant-wide"], ...talks]} onChoose=${choose("conversation")} />
    <${Select} label="Agent" value=${agent} options=${[[EVERYWHERE, "All agents"], ...agents.value.map((one) => [one, one])]} onChoose=${choose("agent")} />
  </div>`;
}

export function Page() {
  useEffect(() => {
    const asked = new URLSearchParams(location.search).get("conversation");
    filters.value = { conversation: /^\d+$/.test(asked) ? asked : EVERYWHERE, agent: EVERYWHERE };
  }, []);
  useStream("/v1/events", () => ({ load, on: { todo_changed: changed } }));
  return html`<main class="main" id="main" tabindex="-1"><div class="page">
    <div class="title"><h1>Todo board</h1><${Filters} /></div>
    ${none.value && html`<div class="card"><${Empty}>${narrowed.value ? "No todos with these filters." : "No todos yet. An agent's plan appears here, and so does what you add."}<//></div>`}
    <div class="board">${COLUMNS.map(([status, title]) => html`<${Column} key=${status} status=${status} title=${title} />`)}</div>
  </div></main>`;
}

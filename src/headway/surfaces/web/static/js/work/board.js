// The tenant's todos by status. Dragging, a card's menu, and Alt with an arrow key change the status.

import { conversations, formatTitle, loadConversations } from "../chat/conversations.js";
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { computed, html, PureComponent, signal, useEffect, useRef, useState } from "../core/lib.js";
import { createLiveList } from "../core/live_list.js";
import { Empty, Icon, Main, Select, StatusIcon } from "../core/ui.js";
import { useStream } from "../core/watch.js";
import { showTodo } from "../todo/address.js";
import { TodoSheet } from "../todo/sheet.js";
import { ProofMark } from "./proof.js";
import { COLUMNS, isEnded, LABELS, LEGAL_TRANSITIONS, STATUSES } from "./statuses.js";
import { changeTodo, checkedIds, onTodoEvent } from "./todo_changes.js";
import { Why } from "./why.js";

export const TITLE = "Board";
export const KEY = "board";

const PAGE_SIZE = 250;
const ALL = "all";
const TENANT_WIDE = "tenant";
const DEFAULT_AGENT = "index";

const todos = signal(new Map());
const cursors = signal({}); // by column: where its next page begins
const filters = signal({ conversation: ALL, agent: ALL });

const fetchPage = (status, cursor) => {
  const { conversation, agent } = filters.value;
  const query = { status, limit: PAGE_SIZE };
  if (conversation !== ALL) query.conversation_id = conversation;
  if (agent !== ALL) query.agent_id = agent;
  if (cursor) query.cursor = cursor;
  return get("/v1/todos", query);
};

/** The API adds the tenant-wide todos to a conversation's list; the board shows the conversation's alone. */
const matchesFilters = (todo) => {
  const { conversation, agent } = filters.value;
  const listId = conversation === TENANT_WIDE ? 0 : Number(conversation);
  return (conversation === ALL || todo.conversation_id === listId) && (agent === ALL || todo.agent_id === agent);
};

async function fetchColumns() {
  const [pages] = await Promise.all([Promise.all(STATUSES.map((status) => fetchPage(status))), loadConversations()]);
  return pages;
}

function replaceTodos(pages) {
  todos.value = new Map(pages.flatMap((page) => page.todos).map((todo) => [todo.id, todo]));
  cursors.value = Object.fromEntries(STATUSES.map((status, n) => [status, pages[n].next_cursor]));
}

async function loadMore(status) {
  const page = await fetchPage(status, cursors.value[status]);
  todos.value = new Map([...todos.value, ...page.todos.map((todo) => [todo.id, todo])]);
  cursors.value = { ...cursors.value, [status]: page.next_cursor };
}

/** Apply a changed todo, or the new positions of several. */
function apply({ change, todo, positions, updated_at }) {
  const next = new Map(todos.value);
  if (positions) {
    const moved = Object.keys(positions).filter((id) => next.has(Number(id)));
    for (const id of moved) next.set(Number(id), { ...next.get(Number(id)), position: positions[id], updated_at });
  } else if (change === "deleted") next.delete(todo.id);
  else next.set(todo.id, { ...next.get(todo.id), ...todo }); // long texts that did not change are not in the event
  todos.value = next;
}

const { load, onChange } = createLiveList(fetchColumns, replaceTodos, apply);

const compareOpen = (a, b) => a.position - b.position || a.id - b.id;
const compareEnded = (a, b) => b.completed_at - a.completed_at || b.id - a.id;

const columns = computed(() => {
  const sorted = Object.fromEntries(STATUSES.map((status) => [status, []]));
  for (const todo of todos.value.values()) if (matchesFilters(todo)) sorted[todo.status].push(todo);
  for (const status of STATUSES) sorted[status].sort(isEnded(status) ? compareEnded : compareOpen);
  return sorted;
});
const isEmpty = computed(() => STATUSES.every((status) => !columns.value[status].length));
const isFiltered = computed(() => Object.values(filters.value).some((chosen) => chosen !== ALL));
let knownAgents = new Set(); // kept, so that an agent can still be chosen while another agent's todos are shown
const agents = computed(() => {
  knownAgents = new Set([...knownAgents, ...[...todos.value.values()].map((todo) => todo.agent_id)]);
  return [...knownAgents].sort();
});

const changeStatus = (id, status) => attempt(() => changeTodo(id, { status }));

/** The next status in that direction that the ledger allows. */
function findNextStatus(status, step) {
  const order = step > 0 ? STATUSES : STATUSES.toReversed();
  return order.slice(order.indexOf(status) + 1).find((candidate) => LEGAL_TRANSITIONS[status].includes(candidate));
}

// The card that was moved with the keyboard: it is rendered again in another column, where it takes the focus back.
let focusedId = null;

const renderStatusMenu = (todo, ref) => html`<label class="status-menu">
  <${Icon} name="chev" />
  <select
    ref=${ref}
    aria-label="Status of ${todo.subject}"
    title="Change the status (Alt ← →)"
    value=${todo.status}
    onChange=${(event) => changeStatus(todo.id, event.currentTarget.value)}
  >
    ${[todo.status, ...LEGAL_TRANSITIONS[todo.status]].map(
      (status) => html`<option key=${status} value=${status}>${LABELS[status]}</option>`,
    )}
  </select>
</label>`;

class Tile extends PureComponent {
  render({ todo, conversation, isChecking }) {
    const onKeyDown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const next = event.altKey && step && findNextStatus(todo.status, step);
      if (!next) return;
      event.preventDefault();
      focusedId = todo.id;
      changeStatus(todo.id, next);
    };
    const show = () => showTodo(todo.id);
    // Not a <button>: in some browsers a card cannot be dragged by one.
    const onTitleKey = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      show();
    };
    const onDragStart = (event) => {
      event.dataTransfer.setData("text/plain", String(todo.id));
      event.dataTransfer.effectAllowed = "move";
      event.currentTarget.classList.add("dragging");
    };
    const onDragEnd = (event) => event.currentTarget.classList.remove("dragging");
    const restoreFocus = (menu) => {
      if (!menu || focusedId !== todo.id) return;
      focusedId = null;
      menu.focus();
    };
    return html`<li
      class="tile ${todo.status}"
      data-id=${todo.id}
      draggable="true"
      onKeyDown=${onKeyDown}
      onDragStart=${onDragStart}
      onDragEnd=${onDragEnd}
    >
      <div class="line">
        <${StatusIcon} status=${todo.status} decorative />
        <span
          class="clamp"
          role="button"
          tabindex="0"
          dir="auto"
          title=${todo.subject}
          data-opens=${todo.id}
          onClick=${show}
          onKeyDown=${onTitleKey}
        >${todo.subject}</span>
        ${renderStatusMenu(todo, restoreFocus)}
      </div>
      <div class="sub">
        <span class="num">#${todo.id}</span><span aria-hidden="true">·</span>
        ${
          todo.proof !== "none" &&
          html`<${ProofMark} proof=${todo.proof} isChecking=${isChecking} /><span aria-hidden="true">·</span>`
        }
        ${
          todo.conversation_id
            ? html`<a class="truncate" href="/c/${todo.conversation_id}" dir="auto">${conversation}</a>`
            : "tenant-wide"
        }
        ${
          todo.agent_id !== DEFAULT_AGENT &&
          html`<span aria-hidden="true">·</span><span class="truncate" dir="auto">${todo.agent_id}</span>`
        }
      </div>
      <${Why} kind="todo" id=${todo.id} of=${todo.subject} />
    </li>`;
  }
}

function Column({ status, title }) {
  const [isTarget, setIsTarget] = useState(false);
  const list = columns.value[status];
  const titles = new Map(conversations.value.map((conversation) => [conversation.id, conversation.title]));
  const hasMore = Boolean(cursors.value[status]);
  const onDragOver = (event) => {
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
    setIsTarget(true);
  };
  const onDragLeave = (event) => !event.currentTarget.contains(event.relatedTarget) && setIsTarget(false);
  const onDrop = (event) => {
    event.preventDefault();
    setIsTarget(false);
    const id = Number(event.dataTransfer.getData("text/plain"));
    if (todos.value.get(id)?.status !== status) changeStatus(id, status);
  };
  const getConversation = ({ conversation_id: id }) => formatTitle({ id, title: titles.get(id) });
  return html`<section
    class=${isTarget ? "target" : ""}
    aria-label=${title}
    onDragOver=${onDragOver}
    onDragLeave=${onDragLeave}
    onDrop=${onDrop}
  >
    <h2>
      <${StatusIcon} status=${status} decorative />${title} <span class="faint num">${list.length}${hasMore ? "+" : ""}</span>
    </h2>
    ${status === "pending" && html`<${AddTodo} />`}
    <ul>${list.map(
      (todo) => html`<${Tile}
        key=${todo.id}
        todo=${todo}
        conversation=${getConversation(todo)}
        isChecking=${checkedIds.value.has(todo.id)}
      />`,
    )}</ul>
    ${hasMore && html`<button class="btn small show-more" onClick=${() => attempt(() => loadMore(status))}>Show more</button>`}
    ${!list.length && !hasMore && html`<p class="hint nothing">Nothing here.</p>`}
  </section>`;
}

function AddTodo() {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const subject = field.current.value.trim();
    const listId = Number(filters.value.conversation) || 0;
    if (!subject) return;
    attempt(async () => {
      await post("/v1/todos", { subject, conversation_id: listId });
      field.current.value = "";
    });
  };
  return html`<form class="board-add" onSubmit=${submit}>
    <${Icon} name="plus" />
    <input ref=${field} aria-label="Add a todo" placeholder="Add a todo" maxlength="1000" autocomplete="off" />
  </form>`;
}

function Filters() {
  const choose = (name) => (value) => {
    filters.value = { ...filters.value, [name]: value };
    attempt(load);
  };
  const { conversation, agent } = filters.value;
  const conversationOptions = [
    [ALL, "All conversations"],
    [TENANT_WIDE, "Tenant-wide"],
    ...conversations.value.map(({ id, title }) => [String(id), formatTitle({ id, title })]),
  ];
  const agentOptions = [[ALL, "All agents"], ...agents.value.map((id) => [id, id])];
  return html`<div class="filters" role="group" aria-label="Filters">
    <${Select} label="Conversation" value=${conversation} options=${conversationOptions} onChoose=${choose("conversation")} />
    <${Select} label="Agent" value=${agent} options=${agentOptions} onChoose=${choose("agent")} />
  </div>`;
}

const NoTodos = () =>
  html`<div class="card"><${Empty}>${
    isFiltered.value ? "No todos with these filters." : "No todos yet. The plans of agents and the todos you add appear here."
  }<//></div>`;

function onTodoChanged(data) {
  onChange(data);
  onTodoEvent.todo_changed(data);
}

export function Page() {
  useEffect(() => {
    const requested = new URLSearchParams(location.search).get("conversation");
    filters.value = { conversation: /^\d+$/.test(requested) ? requested : ALL, agent: ALL };
  }, []);
  useStream("/v1/events", () => ({ load, on: { ...onTodoEvent, todo_changed: onTodoChanged, todos_moved: onChange } }));
  return html`<${Main}>
    <div class="title"><h1>Todo board</h1><${Filters} /></div>
    ${isEmpty.value && html`<${NoTodos} />`}
    <div class="board">${COLUMNS.map(([status, title]) => html`<${Column} key=${status} status=${status} title=${title} />`)}</div>
    <${TodoSheet} />
  <//>`;
}

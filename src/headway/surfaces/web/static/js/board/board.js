// The tenant's todos by status. Cards are moved by dragging, with their menus and with the keyboard; one opens beside the board.
import { attempt } from "../core/dialogs.js";
import { computed, html, useEffect, useRef } from "../core/lib.js";
import { Empty, loadStyles } from "../core/ui.js";
import { useStream } from "../core/watch.js";
import { TodoSheet } from "../todo/sheet.js";
import { COLUMNS } from "../work/statuses.js";
import { onTodoEvent } from "../work/todo_changes.js";
import { Column } from "./column.js";
import { columns, countRows, load, onEvent, reset } from "./columns.js";
import { Filters, filterText, isFiltered, shownStatuses } from "./filters.js";
import { announcement, focused } from "./moving.js";
import { loadViews, onViewEvent } from "./saved_views.js";
import { ViewsMenu } from "./views_menu.js";

await loadStyles("board.css");

export const TITLE = "Board";
export const KEY = "board"; // the same page with another todo open

const shownColumns = computed(() => COLUMNS.filter(([status]) => shownStatuses.value.includes(status)));
const isEmpty = computed(() => shownStatuses.value.every((status) => columns[status].value.isKnown && !countRows(status)));

const NoTodos = () =>
  html`<div class="card"><${Empty}>${
    isFiltered.value ? "No todos with these filters." : "No todos yet. The plans of agents and the todos you add appear here."
  }<//></div>`;

function onTodoChanged(data) {
  onEvent(data);
  onTodoEvent.todo_changed(data);
}

/** Load other todos when the address asks for them. */
function useFilters() {
  const wanted = filterText.value;
  const shown = useRef(wanted);
  useEffect(() => {
    if (shown.current === wanted) return;
    shown.current = wanted;
    reset();
    attempt(load);
  }, [wanted]);
}

export function Page() {
  useEffect(() => {
    reset();
    return () => (focused.value = null);
  }, []);
  useFilters();
  useStream("/v1/events", () => ({
    load: () => Promise.all([load(), loadViews()]).then(() => undefined),
    on: { ...onTodoEvent, todo_changed: onTodoChanged, todos_moved: onEvent, view_changed: onViewEvent },
  }));
  return html`<main class="board-page" id="main" tabindex="-1">
    <div class="title"><h1>Todo board</h1><${ViewsMenu} /><${Filters} /></div>
    ${isEmpty.value && html`<${NoTodos} />`}
    <div class="board" data-columns=${shownColumns.value.length}>
      ${shownColumns.value.map(([status, title]) => html`<${Column} key=${status} status=${status} title=${title} />`)}
    </div>
    <p class="sr-only" role="status">${announcement.value}</p>
    <${TodoSheet} />
  </main>`;
}

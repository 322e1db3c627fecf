// Notices to the operator: what is open, and what is done.
import { get, post } from "../core/api.js";
import { html, signal, useEffect } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { Ago, Card, Choice, Empty, Icon } from "../core/ui.js";
import { act, GoalLink, getFilters, Known, Pages, setFilters, usePolling } from "./parts.js";

const page = signal(null); // {notices, next_cursor, of: the filters}
const PAGE_SIZE = 50;
const REQUEST_URL = /^\/inbox\/\d{1,18}$/;
const STATES = [
  ["open", "Open"],
  ["done", "Done"],
];

const readFilters = () => {
  const { state, cursor } = getFilters("state", "cursor");
  return { state: state === "done" ? "done" : "open", ...(cursor && { cursor }) };
};

export async function load() {
  const filters = readFilters();
  const loaded = await get("/v1/notices", { ...filters, limit: PAGE_SIZE });
  const of = JSON.stringify(filters);
  if (of === JSON.stringify(readFilters())) page.value = { ...loaded, of };
}

const reload = coalesce(load);
export const on = { operator_notice: reload, goal_changed: reload, waiting_changed: reload };

function Notice({ notice }) {
  const isDone = notice.done_at > 0;
  const mark = () => act(() => post("/v1/notices/done", { ids: [notice.id], done: !isDone }), load);
  const label = isDone ? "Open again" : "Done";
  return html`<li>
    <${Icon} name=${isDone ? "check" : "bell"} />
    <div class="grow">
      <div dir="auto">${notice.text}</div>
      <div class="sub">
        ${notice.kind.replaceAll("_", " ")} · <${Ago} at=${notice.created_at} />
        ${REQUEST_URL.test(notice.url) && html` · <a class="link" href=${notice.url}>open the request</a>`}
        <${GoalLink} id=${notice.goal_id} />
        ${isDone && html` · done <${Ago} at=${notice.done_at} />`}
      </div>
    </div>
    <div class="actions">
      <button class="btn small" aria-label="${label}: ${notice.text}" onClick=${mark}>${label}</button>
    </div>
  </li>`;
}

const List = ({ known, state }) =>
  known.notices.length
    ? html`<ul class="rows">${known.notices.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}</ul>
        <${Pages} cursor=${known.next_cursor} />`
    : html`<${Empty}>${state === "open" ? "There are no notices." : "No notice is done yet."}<//>`;

export function Tab() {
  const filters = readFilters();
  const of = JSON.stringify(filters);
  usePolling(load);
  useEffect(() => {
    if (page.value && page.value.of !== of) load().catch(() => {});
  }, [of]);
  const known = page.value?.of === of ? page.value : null;
  const newest = known?.notices[0]?.id;
  const markAll = () => act(() => post("/v1/notices/done", { up_to: newest }), load);
  const canMark = filters.state === "open" && newest && !filters.cursor;
  const choose = (state) => setFilters({ state: state === "open" ? "" : state, cursor: "" });
  return html`<${Card}
    title="Notices"
    actions=${html`<${Choice} label="State" value=${filters.state} options=${STATES} onChoose=${choose} />
      ${canMark && html`<button class="btn small" onClick=${markAll}>Mark all as done</button>`}`}
  >
    <${Known} value=${known}>${(value) => html`<${List} known=${value} state=${filters.state} />`}<//>
  <//>`;
}

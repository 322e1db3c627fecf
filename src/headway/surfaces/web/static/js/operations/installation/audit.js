// The audit log: who changed access, limits or rules. The filters are in the address, so that a view can be shared.
import { get } from "../../core/api.js";
import { attempt, showToast } from "../../core/dialogs.js";
import { html, signal, useEffect, useRef } from "../../core/lib.js";
import { navigate } from "../../core/router.js";
import { Ago, Card, Empty, Icon, pluralize } from "../../core/ui.js";
import { Known } from "../parts.js";
import { formatValue, listChanges } from "./audit_values.js";
import { MoreButton } from "./parts.js";

const PAGE_SIZE = 50;
const EXPORT_PAGE = 500;
const EXPORT_LIMIT = 100_000;
const EMPTY_PAGES = 20; // pages without a match that are skipped before the reader is asked to continue
const TYPING_MS = 300;
const NAMES = ["who", "action", "target", "from", "to"];
const KINDS = ["token", "session", "link", "tenant", "limit", "halt", "approval", "policy", "job", "todo", "memory", "webhook"];

const log = signal(null); // {entries, cursor}; null: not known yet
const filters = signal({});

const readAddress = () => {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
};

/** The seconds at which a day begins, in the reader's time zone, some days later. */
function toSeconds(day, later = 0) {
  const [year, month, date] = day.split("-").map(Number);
  const at = new Date(year, month - 1, date + later).getTime() / 1000;
  return Number.isFinite(at) ? Math.max(0, Math.floor(at)) : 0;
}

function buildQuery(limit, cursor) {
  const { from, to, ...texts } = filters.value;
  const query = { ...texts, limit };
  if (from) query.since = toSeconds(from);
  if (to) query.until = toSeconds(to, 1);
  if (cursor) query.cursor = cursor;
  return query;
}

let asked = 0; // the number of the newest search: an answer to an earlier one is ignored

/** Fetch a page. Those that have no match, although older entries follow, are skipped. */
async function fetchPage(cursor) {
  for (let pages = 0; ; pages += 1) {
    const page = await get("/v1/audit", buildQuery(PAGE_SIZE, cursor));
    if (page.entries.length || !page.next_cursor || pages === EMPTY_PAGES) return page;
    cursor = page.next_cursor;
  }
}

export async function load() {
  asked += 1;
  const search = asked;
  filters.value = readAddress();
  const page = await fetchPage(null);
  if (search === asked) log.value = { entries: page.entries, cursor: page.next_cursor };
}

async function loadOlder() {
  const search = asked;
  const page = await fetchPage(log.value.cursor);
  if (search === asked) log.value = { entries: [...log.value.entries, ...page.entries], cursor: page.next_cursor };
}

export const on = {};

function choose(changed) {
  const query = new URLSearchParams(Object.entries({ ...filters.value, ...changed }).filter(([, value]) => value));
  navigate(`/operations/audit${query.size ? `?${query}` : ""}`, { replace: true });
  attempt(load);
}

async function exportEntries() {
  const entries = [];
  let cursor = null;
  do {
    const page = await get("/v1/audit", buildQuery(EXPORT_PAGE, cursor));
    entries.push(...page.entries);
    cursor = page.next_cursor;
  } while (cursor && entries.length < EXPORT_LIMIT);
  const file = new Blob([JSON.stringify({ entries }, null, 1)], { type: "application/json" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `headway-audit-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  const rest = cursor ? " There are more: narrow the filters, or use headway admin audit." : "";
  showToast(`${pluralize(entries.length, "entry", "entries")} exported.${rest}`);
}

function TextFilter({ name, label, list }) {
  const timer = useRef(0);
  const field = useRef();
  const value = filters.value[name] ?? "";
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (document.activeElement !== field.current) field.current.value = value;
  }, [value]);
  const search = (event) => {
    const typed = event.currentTarget.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => typed !== (filters.value[name] ?? "") && choose({ [name]: typed }), TYPING_MS);
  };
  return html`<input
    ref=${field}
    type="search"
    class="search"
    aria-label=${label}
    placeholder=${label}
    maxlength="200"
    dir="auto"
    list=${list}
    defaultValue=${value}
    onInput=${search}
  />`;
}

const DateFilter = ({ name, label }) => html`<label class="date">${label}<input
  type="date"
  value=${filters.value[name] ?? ""}
  onChange=${(event) => choose({ [name]: event.currentTarget.value })}
/></label>`;

function Filters() {
  const isFiltered = Object.keys(filters.value).length > 0;
  const clear = () => choose(Object.fromEntries(NAMES.map((name) => [name, ""])));
  return html`<div class="filter-bar" role="search">
    <${TextFilter} name="who" label="Who" />
    <${TextFilter} name="action" label="Action" list="audit-kinds" />
    <${TextFilter} name="target" label="Target" />
    <datalist id="audit-kinds">${KINDS.map((kind) => html`<option key=${kind} value=${kind} />`)}</datalist>
    <${DateFilter} name="from" label="From" />
    <${DateFilter} name="to" label="To" />
    ${isFiltered && html`<button class="btn small" onClick=${clear}>Clear</button>`}
  </div>`;
}

const Change = ({ name, old, next }) => html`<li>
  ${name && html`<span class="change-name">${name}</span>`}
  ${old !== undefined && html`<del><bdi>${formatValue(old, name)}</bdi></del><span class="faint"> → </span>`}
  <ins><bdi>${next === undefined ? "removed" : formatValue(next, name)}</bdi></ins>
</li>`;

const Changes = ({ changes }) => html`<ul class="changes">
  ${changes.map((change) => html`<${Change} key=${change.name} ...${change} />`)}
</ul>`;

function Entry({ entry }) {
  const { seq, at, who, tenant, action, target, old, new: next } = entry;
  const changes = listChanges(old, next);
  return html`<li class="audit-entry">
    <div class="grow">
      <div class="name-line">
        <code class="action">${action}</code>
        <button class="link-button" title="Only this target" onClick=${() => choose({ target })}><bdi>${target}</bdi></button>
        ${tenant === null && html`<span class="pill">installation</span>`}
      </div>
      ${changes.length > 0 && html`<${Changes} changes=${changes} />`}
      <div class="sub"><bdi>${who}</bdi> · <${Ago} at=${at} /> · <span class="num">entry ${seq}</span></div>
    </div>
  </li>`;
}

function Entries({ entries, cursor }) {
  if (!entries.length) {
    return html`<${Empty}>${cursor ? "No match among the newest entries." : "No entries."}<//>
      ${cursor && html`<${MoreButton} onClick=${() => attempt(loadOlder)} />`}`;
  }
  return html`<ul class="rows" aria-label="Entries">
      ${entries.map((entry) => html`<${Entry} key=${entry.seq} entry=${entry} />`)}
    </ul>
    ${cursor && html`<${MoreButton} onClick=${() => attempt(loadOlder)} />`}`;
}

export function Tab() {
  const action = html`<button class="btn small" onClick=${() => attempt(exportEntries)}>
    <${Icon} name="down" />Export as JSON
  </button>`;
  return html`<${Card} title="Audit log" actions=${action}>
    <${Filters} />
    <${Known} value=${log.value} count=${6}>${({ entries, cursor }) => html`<${Entries} entries=${entries} cursor=${cursor} />`}<//>
  <//>`;
}

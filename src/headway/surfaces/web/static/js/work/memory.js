// The tenant's memory: what agents and people noted, newest first. People search, add, edit and delete.

import { conversations, formatTitle, loadConversations } from "../chat/conversations.js";
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, signal, useEffect, useRef } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { Card, Empty, Icon, Main, Select } from "../core/ui.js";
import { useStream } from "../core/watch.js";
import { MemoryEntry } from "./memory_entry.js";

export const TITLE = "Memory";

const PAGE_SIZE = 50;
const TEXT_LENGTH = 10_000;
const QUERY_LENGTH = 1_000;
const TYPING_MS = 250;
const ALL = "all";
const TENANT_WIDE = "tenant";

const entries = signal(null); // null: not loaded yet
const next = signal({ cursor: null, searchedAll: true }); // where the next page begins, and whether the search has covered all
const filters = signal({ words: "", conversation: ALL });

function fetchPage(cursor) {
  const { words, conversation } = filters.value;
  const query = { limit: PAGE_SIZE };
  if (words) query.q = words;
  if (conversation !== ALL) query.conversation_id = conversation;
  if (cursor) query.cursor = cursor;
  return get("/v1/memory", query);
}

async function fetchNewest() {
  const [page] = await Promise.all([fetchPage(), loadConversations()]);
  return page;
}

const continueAt = (page) => ({ cursor: page.next_cursor, searchedAll: page.searched_all });

let isFresh = true; // whether the next page that arrives replaces all entries, and not only the newest

function replaceNewest(page) {
  const oldest = page.entries.at(-1)?.id ?? Number.POSITIVE_INFINITY;
  const keepsOlder = !isFresh && page.next_cursor;
  const older = keepsOlder ? entries.value.filter(({ id }) => id < oldest) : [];
  entries.value = [...page.entries, ...older];
  if (!older.length) next.value = continueAt(page);
  isFresh = false;
}

async function loadOlder() {
  const asked = filters.value;
  const page = await fetchPage(next.value.cursor);
  if (asked !== filters.value) return; // another search has begun
  const known = new Set(entries.value.map(({ id }) => id));
  entries.value = [...entries.value, ...page.entries.filter(({ id }) => !known.has(id))];
  next.value = continueAt(page);
}

function replaceEntry(entry) {
  entries.value = entries.value?.map((known) => (known.id === entry.id ? entry : known)) ?? null;
}

/** An edited entry is fetched, because events have no text. One that was deleted meanwhile stays as it is until its own event. */
async function fetchEdited(id) {
  const { entry } = await get(`/v1/memory/${id}`);
  replaceEntry(entry);
}

function apply({ change, id }) {
  if (change === "deleted") entries.value = entries.value?.filter((entry) => entry.id !== id) ?? null;
  else if (entries.value?.some((entry) => entry.id === id)) fetchEdited(id).catch(() => {});
  else reload();
}

const { load: loadNewest, onChange } = createLiveList(fetchNewest, replaceNewest, apply);
const reload = coalesce(loadNewest);

function load() {
  isFresh = true;
  return loadNewest();
}

function choose(chosen) {
  filters.value = { ...filters.value, ...chosen };
  attempt(load);
}

function Filters() {
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (event) => {
    const words = event.currentTarget.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => words !== filters.value.words && choose({ words }), TYPING_MS);
  };
  const options = [
    [ALL, "All conversations"],
    [TENANT_WIDE, "Tenant-wide only"],
    ...conversations.value.map((conversation) => [String(conversation.id), formatTitle(conversation)]),
  ];
  return html`<div class="filters" role="search">
    <input
      type="search"
      class="search"
      aria-label="Search the memory"
      placeholder="Search"
      maxlength=${QUERY_LENGTH}
      dir="auto"
      defaultValue=${filters.value.words}
      onInput=${search}
    />
    <${Select}
      label="Conversation"
      title="What agents recall in a conversation: its own entries and the tenant-wide ones"
      value=${filters.value.conversation}
      options=${options}
      onChoose=${(conversation) => choose({ conversation })}
    />
  </div>`;
}

function AddEntry() {
  const field = useRef();
  const conversation = Number(filters.value.conversation) || 0;
  const label = conversation ? "Add a note for this conversation" : "Add a note for all conversations";
  const submit = (event) => {
    event.preventDefault();
    const text = field.current.value.trim();
    if (!text) return;
    attempt(async () => {
      await post("/v1/memory", { text, conversation_id: conversation });
      field.current.value = "";
    });
  };
  return html`<form class="board-add memory-add" onSubmit=${submit}>
    <${Icon} name="plus" />
    <input ref=${field} aria-label=${label} placeholder=${label} maxlength=${TEXT_LENGTH} autocomplete="off" dir="auto" />
  </form>`;
}

function describeCount(list, { words }) {
  if (!list) return "";
  if (!list.length) return words ? "No entry has all these words." : "";
  const more = next.value.cursor ? "+" : "";
  return words ? `${list.length}${more} found` : `${list.length}${more}`;
}

/** Below the list: older entries that are not shown yet, or that the search has not covered yet. */
function Older() {
  const { cursor, searchedAll } = next.value;
  if (!cursor || !entries.value) return null;
  return html`<p class="memory-older">
    ${!searchedAll && html`<span class="muted">Older entries were not searched yet.</span>`}
    <button class="btn small" onClick=${() => attempt(loadOlder)}>${searchedAll ? "Show more" : "Search older entries"}</button>
  </p>`;
}

function Entries() {
  const list = entries.value;
  const count = html`<span role="status">${describeCount(list, filters.value)}</span>`;
  const isUnfiltered = !filters.value.words && filters.value.conversation === ALL;
  return html`<${Card} title="Entries" count=${count}>
    <${AddEntry} />
    ${list?.length === 0 && isUnfiltered && html`<${Empty}>Nothing yet. What agents remember beyond a turn appears here.<//>`}
    <ul class="rows memory">
      ${list?.map((entry) => html`<${MemoryEntry} key=${entry.id} entry=${entry} onSaved=${replaceEntry} />`)}
    </ul>
    <${Older} />
  <//>`;
}

export function Page() {
  useStream("/v1/events", () => ({ load, on: { memory_changed: onChange } }));
  return html`<${Main}>
    <div class="title"><h1>Memory</h1><${Filters} /></div>
    <${Entries} />
  <//>`;
}

// The conversations beside the chat: the list by last use, search, and the title of the one on screen.
import { get } from "../core/api.js";
import { computed, html, signal, useEffect, useRef, useState } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { useItemTitle } from "../core/title.js";
import { Icon, now } from "../core/ui.js";
import { shareHandlers } from "../core/watch.js";
import { ConversationRow, canChange, DeletedNote, RenameField } from "./conversation_row.js";

/** Those that were loaded, the last used first; null: not known yet. */
const listed = signal(null);
export const conversations = computed(() => listed.value ?? []);
const opened = signal(null); // the one on screen, which may not be among those loaded
const deletedIds = signal(new Set());
const nextCursor = signal(null);
const PAGE_SIZE = 50;

const fetchPage = (query) => get("/v1/conversations", { sort: "activity", limit: PAGE_SIZE, ...query });

/** Whether `a` comes after `b` in the list. */
const isOlder = (a, b) => a.updated_at < b.updated_at || (a.updated_at === b.updated_at && a.id < b.id);

export async function loadConversations() {
  const page = await fetchPage();
  const newest = page.conversations;
  const known = new Set(newest.map(({ id }) => id));
  const last = newest.at(-1);
  const older = last && page.next_cursor ? conversations.value.filter((row) => !known.has(row.id) && isOlder(row, last)) : [];
  listed.value = [...newest, ...older];
  if (!older.length) nextCursor.value = page.next_cursor;
}

async function loadOlder() {
  const page = await fetchPage({ cursor: nextCursor.value });
  const known = new Set(conversations.value.map(({ id }) => id));
  listed.value = [...conversations.value, ...page.conversations.filter(({ id }) => !known.has(id))];
  nextCursor.value = page.next_cursor;
}

async function loadOpened(id) {
  opened.value = null;
  try {
    opened.value = (await get(`/v1/conversations/${id}`)).conversation;
  } catch (error) {
    if (error.status === 404) opened.value = { id, title: "", isMissing: true }; // the chat itself says so
  }
}

const reload = coalesce(loadConversations);
const drop = (id) => (listed.value = listed.value?.filter((row) => row.id !== id) ?? null);

/** A turn began, paused or ended. Starting one is what moves a conversation to the top. */
function applyState(id, state) {
  const rows = conversations.value;
  const at = rows.findIndex((row) => row.id === id);
  if (at < 0) return reload();
  const hasBegun = state === "running" && rows[at].state === "idle";
  const row = { ...rows[at], state, ...(hasBegun ? { updated_at: Math.floor(Date.now() / 1000) } : {}) };
  listed.value = hasBegun ? [row, ...rows.toSpliced(at, 1)] : rows.with(at, row);
}

shareHandlers({
  conversation_changed({ id, change, state }) {
    if (change === "state") return applyState(id, state);
    const ids = new Set(deletedIds.value);
    if (change === "deleted") {
      ids.add(id);
      drop(id);
    } else {
      ids.delete(id);
      reload();
      if (opened.value?.id === id) loadOpened(id);
    }
    deletedIds.value = ids;
  },
});

export const formatTitle = ({ id, title }) => title || `Conversation ${id}`;

const find = (id) => conversations.value.find((row) => row.id === id) ?? (opened.value?.id === id ? opened.value : undefined);

/** The title; empty while it is not known. */
export function getTitle(id) {
  if (!id) return "New conversation";
  const row = find(id);
  return row ? formatTitle(row) : "";
}

/** The heading of the chat. A click on the pencil renames the conversation. */
export function ConversationTitle({ id }) {
  const [isEditing, setIsEditing] = useState(false);
  const row = id && find(id);
  useEffect(() => {
    setIsEditing(false);
    if (id && !find(id)) loadOpened(id);
  }, [id]);
  const title = getTitle(id);
  useItemTitle(id ? title : "");
  if (isEditing && row) return html`<${RenameField} row=${row} onEnd=${() => setIsEditing(false)} />`;
  return html`<h1 class="truncate" dir="auto">${title || html`<span class="skeleton" aria-label="Loading"></span>`}</h1>
    ${
      row &&
      !row.isMissing &&
      canChange() &&
      html`<button class="btn ghost icon-only small" aria-label="Rename" title="Rename" onClick=${() => setIsEditing(true)}>
        <${Icon} name="edit" />
      </button>`
    }
    ${id && deletedIds.value.has(id) && html`<${DeletedNote} id=${id} />`}`;
}

// The list, by when each was last used.
const DAY_S = 86_400;
const GROUPS = [
  ["Today", 0],
  ["Yesterday", 1],
  ["Previous 7 days", 7],
  ["Earlier", Number.POSITIVE_INFINITY],
];

function groupByAge(rows) {
  const midnight = new Date(now.value * 1000).setHours(0, 0, 0, 0) / 1000;
  const getDays = ({ updated_at }) => Math.max(0, Math.ceil((midnight - updated_at) / DAY_S));
  return GROUPS.map(([name, days], index) => {
    const above = GROUPS[index - 1]?.[1] ?? -1;
    return [name, rows.filter((row) => getDays(row) > above && getDays(row) <= days)];
  }).filter(([, members]) => members.length);
}

const Rows = ({ rows, id, onChoose }) =>
  rows.map((row) => html`<${ConversationRow} key=${row.id} row=${row} isCurrent=${row.id === id} onChoose=${onChoose} />`);

function RecentList({ id, onChoose }) {
  const [isBusy, setIsBusy] = useState(false);
  if (!listed.value) return html`<${Skeletons} />`;
  if (!listed.value.length) return html`<p class="conversation-note">No conversations yet.</p>`;
  const showOlder = async () => {
    setIsBusy(true);
    await loadOlder().catch(() => {}); // the button stays
    setIsBusy(false);
  };
  return html`${groupByAge(listed.value).map(
    ([name, rows]) => html`<section key=${name} aria-label=${name}>
      <h3>${name}</h3>
      <ul><${Rows} rows=${rows} id=${id} onChoose=${onChoose} /></ul>
    </section>`,
  )}
  ${nextCursor.value && html`<button class="btn ghost small" disabled=${isBusy} onClick=${showOlder}>Show older</button>`}`;
}

const Skeletons = () => html`<div class="skeletons" role="status" aria-label="Loading conversations">
  ${[70, 88, 56].map((width) => html`<span key=${width} class="skeleton w${width}"></span>`)}
</div>`;

const SEARCH_DELAY_MS = 250;
const ENOUGH = 20;
const MOST_REQUESTS = 10; // for one search; the user can continue it

/** Search titles and messages. A request reads a part of them, so it may take several. */
function useSearch(query) {
  const [state, setState] = useState(null); // {rows, cursor, isBusy}
  const turn = useRef(0);
  const run = async (rows, cursor) => {
    const mine = ++turn.current;
    let result = { rows, cursor };
    setState({ ...result, isBusy: true });
    const wanted = rows.length + ENOUGH;
    for (let n = 0; n < MOST_REQUESTS && result.rows.length < wanted && (n === 0 || result.cursor); n++) {
      const page = await get("/v1/conversations", { q: query, limit: ENOUGH, ...(result.cursor ? { cursor: result.cursor } : {}) });
      if (mine !== turn.current) return;
      result = { rows: [...result.rows, ...page.conversations], cursor: page.next_cursor };
      setState({ ...result, isBusy: true });
    }
    setState({ ...result, isBusy: false });
  };
  const start = (rows, cursor) =>
    run(rows, cursor).catch((error) => setState({ rows, cursor, isBusy: false, problem: error.message }));
  useEffect(() => {
    if (!query) return setState(null);
    const timer = setTimeout(() => start([], null), SEARCH_DELAY_MS);
    return () => {
      turn.current++;
      clearTimeout(timer);
    };
  }, [query]);
  return [state, () => start(state.rows, state.cursor)];
}

function SearchResults({ query, id, onChoose }) {
  const [state, continueSearch] = useSearch(query);
  const rows = (state?.rows ?? []).filter((row) => !deletedIds.value.has(row.id));
  const isBusy = !state || state.isBusy;
  const summary = isBusy ? "Searching…" : (state.problem ?? (rows.length ? `${rows.length} found` : "Nothing found."));
  return html`<p class="conversation-note" role="status">${summary}</p>
    <ul><${Rows} rows=${rows} id=${id} onChoose=${onChoose} /></ul>
    ${!isBusy && state.cursor && html`<button class="btn ghost small" onClick=${continueSearch}>Search older ones</button>`}`;
}

function ConversationList({ id, onChoose }) {
  const [query, setQuery] = useState("");
  const words = query.trim();
  const onKeyDown = (event) => {
    if (event.key === "Escape" && query) {
      event.preventDefault();
      setQuery("");
    }
  };
  return html`<input
      class="conversation-search"
      type="search"
      value=${query}
      placeholder="Search"
      aria-label="Search conversations"
      maxlength="200"
      onInput=${(event) => setQuery(event.currentTarget.value)}
      onKeyDown=${onKeyDown}
    />
    <div class="conversation-list">
      ${
        words
          ? html`<${SearchResults} query=${words} id=${id} onChoose=${onChoose} />`
          : html`<${RecentList} id=${id} onChoose=${onChoose} />`
      }
    </div>`;
}

/** The list on wide screens, below the navigation. */
export const Sidebar = ({ id }) => html`<section class="conversations" aria-label="Conversations">
  <header>
    <h2>Conversations</h2>
    <a class="btn ghost icon-only small" href="/" aria-label="New conversation" title="New conversation"><${Icon} name="plus" /></a>
  </header>
  <${ConversationList} id=${id} />
</section>`;

/** The list on narrow screens, in a drawer. */
export function Drawer({ id }) {
  const dialog = useRef();
  const [isOpen, setIsOpen] = useState(false);
  const open = () => {
    setIsOpen(true);
    dialog.current.showModal();
  };
  const close = () => dialog.current.close();
  const closeOutside = (event) => event.target === dialog.current && close();
  return html`<button class="btn ghost icon-only narrow-only" aria-label="Conversations" onClick=${open}>
      <${Icon} name="menu" />
    </button>
    <dialog ref=${dialog} class="drawer" aria-label="Conversations" onClick=${closeOutside} onClose=${() => setIsOpen(false)}>
      <header>
        <h2>Conversations</h2>
        <button class="btn ghost icon-only small" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>
      </header>
      <a class="btn wide" href="/" onClick=${close}><${Icon} name="plus" />New conversation</a>
      ${isOpen && html`<${ConversationList} id=${id} onChoose=${close} />`}
    </dialog>`;
}

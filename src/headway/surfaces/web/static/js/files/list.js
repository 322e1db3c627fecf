// The list of files that agents wrote, with search and filters, which are in the address.
import { conversations, formatTitle, loadConversations } from "../chat/conversations.js";
import { get } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, signal, useEffect, useRef } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { navigate, search } from "../core/router.js";
import { Ago, Card, Empty, Icon, Select } from "../core/ui.js";
import { spellOut } from "../core/visible_text.js";
import { useStream } from "../core/watch.js";
import { Author, FilePath, formatGoal, formatSize, goals, Owner, Skeleton, toAddress } from "./words.js";

const PAGE_SIZE = 50;
const QUERY_LENGTH = 1_000;
const TYPING_MS = 250;
const GOALS = 200; // that the filter offers
const FILTERS = ["q", "conversation_id", "goal_id", "sub_goal_id", "role", "turn_id", "path"];
// Filters that links set, and that have no field here.
const CHIPS = { turn_id: "One turn", sub_goal_id: "One sub-goal", path: "Folder" };

const files = signal(null); // null: not loaded yet
const next = signal({ cursor: null, searchedAll: true });
const problem = signal("");
const roles = signal(new Set()); // that were seen

const readFilters = () => {
  const given = new URLSearchParams(search.value);
  return Object.fromEntries(FILTERS.flatMap((name) => (given.get(name) ? [[name, given.get(name)]] : [])));
};

function choose(chosen) {
  const filters = Object.entries({ ...readFilters(), ...chosen }).filter(([, value]) => value);
  const query = new URLSearchParams(filters).toString();
  navigate(query ? `/files?${query}` : "/files", { replace: "q" in chosen });
}

const fetchPage = (cursor) => get("/v1/files", { ...readFilters(), limit: PAGE_SIZE, ...(cursor ? { cursor } : {}) });

async function fetchNewest() {
  const asked = search.value;
  const [page, known] = await Promise.all([fetchPage(), get("/v1/goals", { limit: GOALS }), loadConversations()]);
  return { asked, page, goals: known.goals };
}

function noteRoles(list) {
  const seen = list.map(({ version }) => version.role).filter((role) => role && !roles.value.has(role));
  if (seen.length) roles.value = new Set([...roles.value, ...seen]);
}

function replaceNewest({ asked, page, goals: known }) {
  if (asked !== search.value) return;
  goals.value = known;
  files.value = page.files;
  next.value = { cursor: page.next_cursor, searchedAll: page.searched_all };
  problem.value = "";
  noteRoles(page.files);
}

async function loadOlder() {
  const asked = search.value;
  const page = await fetchPage(next.value.cursor);
  if (asked !== search.value) return; // another search has begun
  const known = new Set(files.value.map(({ id }) => id));
  files.value = [...files.value, ...page.files.filter(({ id }) => !known.has(id))];
  next.value = { cursor: page.next_cursor, searchedAll: page.searched_all };
  noteRoles(page.files);
}

const { load: loadNewest } = createLiveList(fetchNewest, replaceNewest, () => {});
const reload = coalesce(loadNewest);

/** The goal or conversation of a filter may not exist any more: the page says so instead of showing a list of something else. */
async function load() {
  try {
    await loadNewest();
  } catch (error) {
    if (error.status !== 404 && error.status !== 422) throw error;
    files.value = [];
    next.value = { cursor: null, searchedAll: true };
    problem.value = error.message;
  }
}

function SearchField({ words }) {
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const onInput = (event) => {
    const q = event.currentTarget.value.trim();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => choose({ q }), TYPING_MS);
  };
  return html`<input
    type="search"
    class="search"
    aria-label="Search paths"
    placeholder="Search paths"
    maxlength=${QUERY_LENGTH}
    dir="auto"
    defaultValue=${words}
    onInput=${onInput}
  />`;
}

/** The options of a filter. One that the address names is always among them. */
function listOptions(all, entries, chosen) {
  const options = [["", all], ...entries];
  return !chosen || entries.some(([value]) => value === chosen) ? options : [...options, [chosen, spellOut(chosen)]];
}

function Filters({ filters }) {
  const conversationOptions = conversations.value.map((conversation) => [String(conversation.id), formatTitle(conversation)]);
  const goalOptions = goals.value.map((goal) => [String(goal.id), formatGoal(goal)]);
  const roleOptions = [...roles.value].sort().map((role) => [role, spellOut(role)]);
  return html`<div class="filters" role="search">
    <${SearchField} words=${filters.q ?? ""} />
    <${Select}
      label="Conversation"
      value=${filters.conversation_id ?? ""}
      options=${listOptions("All conversations", conversationOptions, filters.conversation_id)}
      onChoose=${(conversation_id) => choose({ conversation_id })}
    />
    <${Select}
      label="Goal"
      value=${filters.goal_id ?? ""}
      options=${listOptions("All goals", goalOptions, filters.goal_id)}
      onChoose=${(goal_id) => choose({ goal_id, sub_goal_id: "" })}
    />
    <${Select}
      label="Who"
      value=${filters.role ?? ""}
      options=${listOptions("Everybody", roleOptions, filters.role)}
      onChoose=${(role) => choose({ role })}
    />
  </div>`;
}

function Chips({ filters }) {
  const shown = Object.keys(CHIPS).filter((name) => filters[name]);
  if (!shown.length) return null;
  return html`<p class="file-chips">
    ${shown.map((name) => {
      const text = name === "path" ? `${CHIPS[name]}: ${spellOut(filters[name])}` : CHIPS[name];
      return html`<button key=${name} class="btn small" onClick=${() => choose({ [name]: "" })}>
        <bdi>${text}</bdi><${Icon} name="close" /><span class="sr-only">Remove this filter</span>
      </button>`;
    })}
  </p>`;
}

function FileRow({ file }) {
  const { version } = file;
  const isDeleted = version.change === "deleted";
  return html`<li class="file-row ${isDeleted ? "gone" : ""}">
    <${Icon} name=${isDeleted ? "trash" : "file"} />
    <div class="grow">
      <a class="file-link" href=${toAddress(file)}><${FilePath} path=${file.path} /></a>
      <p class="file-facts">
        <${Author} version=${version} />
        <${Owner} version=${version} />
        ${file.workspace && html`<span class="faint truncate"><bdi>${spellOut(file.workspace)}</bdi></span>`}
      </p>
    </div>
    <div class="file-numbers faint num">
      <span>${isDeleted ? "deleted" : formatSize(version.size)}</span>
      <span>version ${version.n}${version.n < file.latest && ` of ${file.latest}`}</span>
      <${Ago} at=${version.at} />
    </div>
  </li>`;
}

function Older() {
  const { cursor, searchedAll } = next.value;
  if (!cursor || !files.value) return null;
  return html`<p class="memory-older">
    ${!searchedAll && html`<span class="muted">Older files were not searched yet.</span>`}
    <button class="btn small" onClick=${() => attempt(loadOlder)}>${searchedAll ? "Show more" : "Search older files"}</button>
  </p>`;
}

function Files({ isFiltered }) {
  const list = files.value;
  const count = list?.length ? `${list.length}${next.value.cursor ? "+" : ""}` : "";
  return html`<${Card} title="What agents wrote" count=${html`<span role="status">${count}</span>`}>
    ${!list && html`<${Skeleton} label="Loading files…" />`}
    ${
      problem.value && html`<${Empty}><span dir="auto">${problem.value}</span> <a class="link" href="/files">Show all files</a><//>`
    }
    ${
      list?.length === 0 &&
      !problem.value &&
      html`<${Empty}>${
        isFiltered
          ? html`No file matches. <a class="link" href="/files">Show all files</a>`
          : "Nothing yet. Files that agents write, edit or make with programs appear here."
      }<//>`
    }
    <ul class="rows">${list?.map((file) => html`<${FileRow} key=${file.id} file=${file} />`)}</ul>
    <${Older} />
  <//>`;
}

export function Page() {
  const query = search.value;
  const filters = readFilters();
  const isFirst = useRef(true);
  useStream("/v1/events", () => ({ load, on: { tool_result: ({ files: written }) => written && reload() } }));
  useEffect(() => {
    if (!isFirst.current) attempt(load);
    isFirst.current = false;
  }, [query]);
  return html`<div class="file-part">
    <div class="title"><h1>Files</h1><${Filters} filters=${filters} /></div>
    <${Chips} filters=${filters} />
    <${Files} isFiltered=${Object.keys(filters).length > 0} />
  </div>`;
}

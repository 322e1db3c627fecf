// The palette: one field to go anywhere and do anything. It is loaded when it is first opened.

import { getPath, isOffered, TABS } from "../operations/tabs.js";
import { get, remove } from "./api.js";
import { attempt } from "./dialogs.js";
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import { navigate } from "./router.js";
import { askToSignOut, session } from "./session.js";
import { showsPalette, showsShortcuts } from "./shortcuts.js";
import { setTheme, THEME_ICONS, THEMES, theme } from "./theme_choice.js";
import { capitalize, getStatusLabel, Icon, StatusIcon } from "./ui.js";
import { halt } from "./watch.js";

const SEARCH_DELAY_MS = 200;
const SHOWN = 6; // of each group that is searched
const LOADED = 200; // todos and goals, whose texts are compared here

function listActions() {
  const actions = [
    { key: "new", label: "New conversation", icon: "plus", run: () => navigate("/") },
    ...THEMES.filter((name) => name !== theme.value).map((name) => ({
      key: `theme-${name}`,
      label: `Theme: ${name}`,
      icon: THEME_ICONS[name],
      run: () => setTheme(name),
    })),
    { key: "keys", label: "Keyboard shortcuts", icon: "menu", hint: "?", run: () => (showsShortcuts.value = true) },
    { key: "out", label: "Sign out…", icon: "exit", run: askToSignOut },
  ];
  if (!session.value?.operator || !halt.value.isKnown) return actions;
  const change = halt.value.halted
    ? { key: "unhalt", label: "Lift the halt", icon: "play", run: () => attempt(() => remove("/v1/halt")) }
    : { key: "halt", label: "Halt everything…", icon: "stop", run: () => navigate("/operations?halt=yes") };
  return [...actions.slice(0, -1), change, actions.at(-1)];
}

/** The tabs of Operations, which are found when something is typed. */
const listTabs = () =>
  TABS.filter((tab) => tab.name && isOffered(tab)).map((tab) => ({
    key: getPath(tab),
    label: `Operations: ${tab.label}`,
    icon: "operations",
    run: () => navigate(getPath(tab)),
  }));

const hasWords = (text, words) => words.every((word) => text.toLocaleLowerCase().includes(word));

async function findConversations(query) {
  const filter = query ? { q: query } : { sort: "activity" };
  const { conversations } = await get("/v1/conversations", { ...filter, limit: SHOWN });
  return conversations.map(({ id, title, excerpt }) => ({
    key: `c${id}`,
    label: title || `Conversation ${id}`,
    detail: excerpt,
    icon: "chat",
    run: () => navigate(`/c/${id}`),
  }));
}

/** Todos and goals are fetched once while the palette is open. */
function createTexts() {
  let loaded = null;
  const load = async () => {
    const [{ todos }, { goals }] = await Promise.all([get("/v1/todos", { limit: LOADED }), get("/v1/goals", { limit: LOADED })]);
    return {
      Goals: goals.map(({ id, description, status }) => ({
        key: `g${id}`,
        label: description,
        status,
        run: () => navigate(`/goals/${id}`),
      })),
      Todos: todos.map(({ id, subject, status }) => ({
        key: `t${id}`,
        label: subject,
        status,
        run: () => navigate(`/todos/${id}`),
      })),
    };
  };
  return async (words) => {
    if (!words.length) return [];
    loaded ??= load();
    const groups = Object.entries(await loaded);
    return groups.map(([name, items]) => [name, items.filter(({ label }) => hasWords(label, words)).slice(0, SHOWN)]);
  };
}

/** The groups of results for what was typed: [name, items]. The groups from the server arrive later. */
function useResults(query, pages) {
  const [found, setFound] = useState({ groups: [], isBusy: true });
  const findTexts = useMemo(createTexts, []);
  const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  useEffect(() => {
    let isCurrent = true;
    setFound((before) => ({ ...before, isBusy: true }));
    const timer = setTimeout(
      async () => {
        const answers = await Promise.allSettled([findConversations(words.join(" ")), findTexts(words)]);
        if (!isCurrent) return;
        const [conversations, texts] = answers.map(({ value }) => value ?? []);
        setFound({ groups: [["Conversations", conversations], ...texts], isBusy: false });
      },
      words.length ? SEARCH_DELAY_MS : 0,
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [query]);
  const goTo = pages.map(([icon, label, to]) => ({ key: to, label, icon, run: () => navigate(to) }));
  const local = [
    ["Go to", words.length ? [...goTo, ...listTabs()] : goTo],
    ["Actions", listActions()],
  ].map(([name, items]) => [name, items.filter(({ label }) => hasWords(label, words))]);
  const groups = words.length ? [...local, ...found.groups] : [local[0], ...found.groups, local[1]];
  return { groups: groups.filter(([, items]) => items.length), isBusy: found.isBusy };
}

const Option = ({ item, isChosen, onChoose, onPoint }) => html`<li
  id="palette-${item.key}"
  role="option"
  aria-selected=${String(isChosen)}
  onClick=${onChoose}
  onPointerMove=${onPoint}
>
  ${item.status ? html`<${StatusIcon} status=${item.status} decorative />` : html`<${Icon} name=${item.icon} />`}
  <span class="grow">
    <span class="truncate" dir="auto">${item.label}</span>
    ${item.detail && html`<small class="truncate" dir="auto">${item.detail}</small>`}
  </span>
  ${item.status && html`<small class="muted">${capitalize(getStatusLabel(item.status))}</small>`}
  ${item.hint && html`<kbd>${item.hint}</kbd>`}
</li>`;

const MOVES = { ArrowDown: 1, ArrowUp: -1 };

/** `pages`: the pages of the navigation, as [icon, name, address]. */
export function Palette({ pages }) {
  const dialog = useRef();
  const list = useRef();
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState(0);
  const { groups, isBusy } = useResults(query, pages);
  const items = groups.flatMap(([, members]) => members);
  const at = Math.min(chosen, items.length - 1);
  useEffect(() => dialog.current.showModal(), []);
  useEffect(() => setChosen(0), [query]);
  useEffect(() => list.current.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [at, groups.length]);
  const close = () => {
    dialog.current.close(); // returns the focus
    showsPalette.value = false; // at once: the event about it comes later, when the palette may be wanted again
  };
  const choose = (item) => {
    close();
    item.run();
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    if (MOVES[event.key] && items.length) setChosen((at + MOVES[event.key] + items.length) % items.length);
    else if (event.key === "Enter" && items[at]) choose(items[at]);
    else return;
    event.preventDefault();
  };
  const summary = isBusy ? "Searching…" : items.length ? `${items.length} results` : "Nothing found";
  return html`<dialog
    ref=${dialog}
    class="palette"
    aria-label="Go anywhere, do anything"
    onClose=${({ currentTarget }) => {
      if (currentTarget.isConnected) showsPalette.value = false;
    }}
    onClick=${(event) => event.target === dialog.current && close()}
  >
    <label class="palette-field"><${Icon} name="search" /><input
      role="combobox"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-autocomplete="list"
      aria-activedescendant=${items[at] ? `palette-${items[at].key}` : null}
      aria-label="Search pages, conversations, goals, todos and actions"
      placeholder="Go anywhere, do anything"
      maxlength="200"
      autocomplete="off"
      autofocus
      value=${query}
      onInput=${(event) => setQuery(event.currentTarget.value)}
      onKeyDown=${onKeyDown}
    /></label>
    <p class="sr-only" role="status">${summary}</p>
    <div ref=${list} id="palette-list" role="listbox" aria-label="Results" tabindex="-1">
      ${groups.map(
        ([name, members]) => html`<ul key=${name} role="group" aria-label=${name}>
          <li class="palette-group" role="presentation">${name}</li>
          ${members.map(
            (item) => html`<${Option}
              key=${item.key}
              item=${item}
              isChosen=${item === items[at]}
              onChoose=${() => choose(item)}
              onPoint=${() => setChosen(items.indexOf(item))}
            />`,
          )}
        </ul>`,
      )}
      ${!items.length && !isBusy && html`<p class="empty">Nothing found.</p>`}
    </div>
  </dialog>`;
}

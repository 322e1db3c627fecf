// Operations: a list of tabs, and the tab on screen. Each tab has its own address and its own module.
import { html, signal, useEffect, useRef } from "../core/lib.js";
import { path } from "../core/router.js";
import { isOutdated, session } from "../core/session.js";
import { useItemTitle } from "../core/title.js";
import { Empty, loadStyles, Main } from "../core/ui.js";
import { useStream } from "../core/watch.js";
import { Skeletons } from "./parts.js";
import { getPath, isOffered, TABS } from "./tabs.js";

export const TITLE = "Operations";
export const KEY = "/operations"; // all tabs are one page, whose list keeps the focus
const UNKNOWN = { name: null, label: "Page not found" };

await loadStyles("operations.css");

const modules = signal({}); // by the name of the tab
const getTab = () => TABS.find((tab) => getPath(tab) === path.value || tab.formerPath === path.value) ?? UNKNOWN;

async function loadModule({ name, load }) {
  if (modules.value[name]) return;
  try {
    const loaded = await load();
    modules.value = { ...modules.value, [name]: loaded };
  } catch {
    isOutdated.value = true; // the server has another build, whose files have other addresses
  }
}

function TabLink({ tab, isCurrent }) {
  const link = useRef();
  const count = tab.count?.() ?? 0;
  useEffect(() => {
    if (isCurrent) link.current.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone, the list scrolls sideways
  }, [isCurrent]);
  return html`<li>
    <a ref=${link} class="tab" href=${getPath(tab)} aria-current=${isCurrent ? "page" : null}>
      ${tab.label}${count > 0 && html` <span class="count">${count}</span>`}
    </a>
  </li>`;
}

function TabList({ current }) {
  const groups = Object.groupBy(TABS.filter(isOffered), ({ group }) => group);
  return html`<nav class="tabs" aria-label="Operations">
    ${Object.entries(groups).map(
      ([group, tabs]) => html`<div key=${group} class="tab-group">
        <p id="tabs-${group}">${group}</p>
        <ul aria-labelledby="tabs-${group}">
          ${tabs.map((tab) => html`<${TabLink} key=${tab.name} tab=${tab} isCurrent=${tab === current} />`)}
        </ul>
      </div>`,
    )}
  </nav>`;
}

function LiveTab({ module: { Tab, load, on } }) {
  useStream("/v1/events", () => ({ load, on }));
  return html`<${Tab} />`;
}

/** The screen instead of a tab, while it is loaded and where there is none. It follows the events that all pages follow. */
function NoTab({ children }) {
  useStream("/v1/events", () => ({ load: async () => {}, on: {} }));
  return children;
}

function TabContent({ tab }) {
  const isAllowed = isOffered(tab);
  useEffect(() => {
    if (tab.load && isAllowed) loadModule(tab);
  }, [isAllowed]);
  const loaded = modules.value[tab.name];
  if (!tab.load) return html`<${NoTab}><${Empty}>There is nothing at this address. Choose a tab.<//><//>`;
  if (!session.value && tab.needs) return html`<${NoTab}><${Skeletons} /><//>`;
  if (!isAllowed) return html`<${NoTab}><${Empty}>This needs a token with the ${tab.needs} scope.<//><//>`;
  return loaded ? html`<${LiveTab} module=${loaded} />` : html`<${Skeletons} />`;
}

export function Page() {
  const tab = getTab();
  useItemTitle(tab.name ? `${tab.label} · Operations` : "");
  useEffect(() => {
    // Where the focused link was part of the tab before, the focus would be lost.
    if (document.activeElement === document.body) document.getElementById("main").focus({ preventScroll: true });
  }, [tab]);
  return html`<${Main}>
    <div class="title"><h1>Operations</h1></div>
    <div class="operations">
      <${TabList} current=${tab} />
      <div class="stack tab-content"><${TabContent} key=${tab.name} tab=${tab} /></div>
    </div>
  <//>`;
}

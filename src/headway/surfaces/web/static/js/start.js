// The entry point: loads the session and the requested page, then renders.
import { signedOut } from "./core/api.js";
import { html, render, signal, useEffect, useLayoutEffect, useRef } from "./core/lib.js";
import { Login } from "./core/login.js";
import { followLinks, navigate, path } from "./core/router.js";
import { isOutdated, loadSession } from "./core/session.js";
import { Shell } from "./core/shell.js";
import { showsPalette } from "./core/shortcuts.js";
import { pageTitle } from "./core/title.js";
import { Icon, Main } from "./core/ui.js";
import { useStream } from "./core/watch.js";

const NUMBER = "(\\d{1,18})";
// Parameters that are not numbers.
const PARAMETERS = { file_id: "[0-9a-f]{32}", tab: "[a-z-]{1,32}", turn_id: "[\\w-]{1,64}", other: "[\\w-]{1,64}" };

// The page's addresses, which the server reads here. Each page is loaded when it is first opened.
// Its module exports `Page`, `TITLE` (its name in the navigation) and optionally `Sidebar`, which is shown below the navigation,
// and `KEY`, if one page stays on screen while its address changes.
const PAGES = Object.entries({
  "/": () => import("./chat/chat.js"),
  "/c/{conversation_id}": () => import("./chat/chat.js"),
  "/board": () => import("./board/board.js"),
  "/todos/{todo_id}": () => import("./board/board.js"),
  "/goals": () => import("./goals/goals.js"),
  "/goals/{goal_id}": () => import("./goals/goal.js"),
  "/inbox": () => import("./people/inbox.js"),
  "/inbox/{request_id}": () => import("./people/inbox.js"),
  "/files": () => import("./files/files.js"),
  "/files/{file_id}": () => import("./files/files.js"),
  "/memory": () => import("./work/memory.js"),
  "/compare/{turn_id}/{other}": () => import("./chat/compare.js"),
  "/operations": () => import("./operations/operations.js"),
  "/operations/{tab}": () => import("./operations/operations.js"),
}).map(([address, load]) => [compileAddress(address), load]);

const SHOWN_PATH = 200; // characters of an address that does not exist
const current = signal(null); // {page, id, key} or {missing}; the page before stays until the next one is loaded

function compileAddress(address) {
  return new RegExp(`^${address.replace(/\{(\w{1,20})\}/g, (_, name) => PARAMETERS[name] ?? NUMBER)}$`);
}

const findPage = (address) => PAGES.find(([pattern]) => pattern.test(address));

async function showPage(requested) {
  const [pattern, load] = findPage(requested) ?? [];
  if (!pattern) {
    current.value = { missing: true };
    return;
  }
  const id = Number(pattern.exec(requested)[1]);
  try {
    const page = await load();
    const key = page.KEY ?? requested;
    if (path.value === requested && current.value?.key !== key) current.value = { page, id: id || null, key };
  } catch {
    isOutdated.value = true; // the server has another build, whose files have other addresses
  }
}

function NotFound() {
  useStream("/v1/events", () => ({ load: async () => {}, on: {} }));
  return html`<${Main}>
    <h1>Page not found</h1>
    <p class="muted">
      There is nothing at <code>${path.value.slice(0, SHOWN_PATH)}</code>. <a class="link" href="/">Go to the chat</a>, or search.
    </p>
    <p><button class="btn" onClick=${() => (showsPalette.value = true)}><${Icon} name="search" />Search</button></p>
  <//>`;
}

function App() {
  const requested = path.value;
  useEffect(() => {
    showPage(requested === "/login" ? "/" : requested);
  }, [requested]);
  const view = current.value;
  const isFirst = useRef(true);
  useLayoutEffect(() => {
    pageTitle.value = view?.missing ? "Page not found" : (view?.page?.TITLE ?? "");
    // Moves a screen reader to the new page's content.
    if (view && !isFirst.current) document.getElementById("main")?.focus({ preventScroll: true });
    isFirst.current &&= !view;
  }, [view?.page, view?.key, view?.missing]);
  if (signedOut.value) return html`<${Login} />`;
  if (!view) return html`<${Shell} />`;
  if (view.missing) return html`<${Shell}><${NotFound} /><//>`;
  const { Page, Sidebar, TITLE } = view.page;
  return html`<${Shell} title=${TITLE} sidebar=${Sidebar && html`<${Sidebar} id=${view.id} />`}>
    <${Page} key=${view.key} id=${view.id} />
  <//>`;
}

async function start() {
  followLinks((address) => address === "/login" || findPage(address));
  try {
    await loadSession();
    if (path.value === "/login") navigate("/", { replace: true });
  } catch {
    /* no session or no server: the page shows which */
  }
  render(html`<${App} />`, document.getElementById("app"));
}
start();

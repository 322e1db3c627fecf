// The beginning: who is there, which page is asked for, and drawing it.
import { locked } from "./api.js";
import { html, render, signal, useEffect, useRef } from "./lib.js";
import { Login } from "./login.js";
import { go, path } from "./router.js";
import { look, stale } from "./session.js";
import { Shell } from "./shell.js";

// A page is loaded when it is first asked for. Each module has a `Page`, the name of its place in the navigation, and may add to it.
const PAGES = [
  [/^\/$/, () => import("./chat.js")],
  [/^\/c\/(\d{1,18})$/, () => import("./chat.js")],
  [/^\/board$/, () => import("./board.js")],
  [/^\/goals$/, () => import("./goals.js")],
  [/^\/goals\/(\d{1,18})$/, () => import("./goal.js")],
  [/^\/operations$/, () => import("./operations.js")],
];

const shown = signal(null); // {page, id}

async function show(wanted) {
  const [pattern, load] = PAGES.find(([one]) => one.test(wanted)) ?? [];
  if (!pattern) {
    shown.value = { missing: true };
    return;
  }
  const id = pattern.exec(wanted)[1];
  try {
    const page = await load();
    if (path.value === wanted) shown.value = { page, id: id ? Number(id) : null };
  } catch {
    stale.value = true; // the server has another build, whose files have other names
  }
}

const Missing = () =>
  html`<main class="main" id="main" tabindex="-1"><div class="page"><h1>There is nothing here</h1><p class="muted">This address leads nowhere. <a class="link" href="/">Go to the chat</a>.</p></div></main>`;

function App() {
  const wanted = path.value;
  useEffect(() => {
    show(wanted === "/login" ? "/" : wanted);
  }, [wanted]);
  const at = shown.value;
  const first = useRef(true);
  useEffect(() => {
    document.title = at?.page ? `${at.page.TITLE} · Headway` : "Headway";
    if (at && !first.current) document.getElementById("main")?.focus({ preventScroll: true }); // a screen reader reads on from here
    first.current &&= !at;
  }, [at]);
  if (locked.value) return html`<${Login} />`;
  if (!at) return html`<${Shell} />`;
  if (at.missing) return html`<${Shell}><${Missing} /><//>`;
  return html`<${Shell} at=${at.page.TITLE} side=${at.page.Side && html`<${at.page.Side} id=${at.id} />`}><${at.page.Page} key=${wanted} id=${at.id} /><//>`;
}

async function begin() {
  try {
    await look();
    if (path.value === "/login") go("/", { replace: true });
  } catch {
    /* no session, or no server: the page says which */
  }
  render(html`<${App} />`, document.getElementById("app"));
}
begin();

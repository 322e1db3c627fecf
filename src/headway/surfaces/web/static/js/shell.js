// What stands around every page: navigation, the state of the connection, and what concerns everything.
import { remove } from "./api.js";
import { attempt, Messages, Question } from "./dialogs.js";
import { html, remembered } from "./lib.js";
import { session, signOut, stale } from "./session.js";
import { link } from "./stream.js";
import { Icon } from "./ui.js";
import { deadLetters, halt } from "./watch.js";

const NAV = [
  ["chat", "Chat", "/"],
  ["board", "Board", "/board"],
  ["goal", "Goals", "/goals"],
  ["operations", "Operations", "/operations"],
];
const LINK = {
  live: ["live", "Live"],
  connecting: ["", "Connecting…"],
  waiting: ["wait", "Reconnecting…"],
  offline: ["wait", "Offline"],
};

function flipTheme() {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  remembered.set("theme", root.dataset.theme);
}

const Badge = ({ count, what }) => count > 0 && html`<span class="count bad">${count}<span class="sr"> ${what}</span></span>`;

const Banners = () => html`
  ${stale.value && html`<div class="banner" role="status"><${Icon} n="replan" /><span class="grow">Headway was updated. Reload to get the new page.</span><button class="btn small" onClick=${() => location.reload()}>Reload</button></div>`}
  ${
    halt.value.halted &&
    html`<div class="banner bad" role="status"><${Icon} n="stop" /><span class="grow" dir="auto"><strong>Everything is halted.</strong> ${halt.value.why || "No model is called and nothing starts."}</span>
    ${session.value?.operator && html`<button class="btn small" onClick=${() => attempt(() => remove("/v1/halt"))}>Let everything go on</button>`}</div>`
  }
`;

/** `side` is what a page adds to the navigation. */
export function Shell({ at, side, children }) {
  const [dot, words] = LINK[link.value];
  return html`<a class="skip" href="#main">Skip to content</a>
    <div class="shell">
      <nav class="side" aria-label="Main">
        <a class="brand" href="/"><${Icon} n="mark" /><span>Headway</span></a>
        <div class="nav-list">
          ${NAV.map(
            ([
              icon,
              text,
              to,
            ]) => html`<a key=${to} class="nav" href=${to} aria-current=${at === text ? "page" : null} title=${text}>
              <${Icon} n=${icon} /><span class="t">${text}</span>${text === "Operations" && html`<${Badge} count=${deadLetters.value} what="dead letters" />`}
            </a>`,
          )}
        </div>
        ${side}
        <footer>
          <span class="link" role="status" title="The connection to the server"><i class="dot ${dot}"></i><span>${words}</span></span>
          <span class="grow cut tenant" title="The tenant of this session" dir="auto">${session.value?.tenant}</span>
          <button class="btn ghost icon small" onClick=${flipTheme} aria-label="Switch between light and dark" title="Light or dark"><${Icon} n="theme" /></button>
          <button class="btn ghost icon small" onClick=${() => attempt(signOut)} aria-label="Sign out" title="Sign out"><${Icon} n="exit" /></button>
        </footer>
      </nav>
      <div class="content"><${Banners} />${children}</div>
    </div>
    <${Question} /><${Messages} />`;
}

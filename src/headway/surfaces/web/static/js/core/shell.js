// The frame around every page: navigation, the state of the connection, and banners.
import { remove } from "./api.js";
import { attempt, ConfirmDialog, Toasts } from "./dialogs.js";
import { html, useEffect, useState } from "./lib.js";
import { moveProblem } from "./moves.js";
import { askToSignOut, isOutdated, session } from "./session.js";
import { PALETTE_KEYS, ShortcutsDialog, showsPalette, showsShortcuts } from "./shortcuts.js";
import { connection } from "./stream.js";
import { getNextTheme, setTheme, THEME_ICONS, theme } from "./theme_choice.js";
import { Icon } from "./ui.js";
import { decisions, openRequests } from "./waiting.js";
import { deadLetterCount, halt } from "./watch.js";

const NAVIGATION = [
  ["chat", "Chat", "/"],
  ["board", "Board", "/board"],
  ["goal", "Goals", "/goals"],
  ["bell", "Inbox", "/inbox"],
  ["file", "Files", "/files"],
  ["memory", "Memory", "/memory"],
  ["operations", "Operations", "/operations"],
];
// By the name in the navigation: how many things there need a person.
const COUNTS = {
  Goals: () => html`<${Badge} count=${decisions.value.length} label="waiting for your decision" tone="waiting" />`,
  Inbox: () => html`<${Badge} count=${openRequests.value.length} label="waiting for you" tone="waiting" />`,
  Operations: () => html`<${Badge} count=${deadLetterCount.value} label="dead letters" tone="bad" />`,
};
// By the state of the connection: the class of the dot, and the label.
const CONNECTIONS = {
  live: ["live", "Live"],
  connecting: ["", "Connecting…"],
  waiting: ["wait", "Reconnecting…"],
  offline: ["wait", "Offline"],
};

const Badge = ({ count, label, tone }) =>
  count > 0 && html`<span class="count ${tone}">${count}<span class="sr-only"> ${label}</span></span>`;

const OutdatedBanner = () => html`<div class="banner" role="status">
  <${Icon} name="replan" />
  <span class="grow">Headway was updated. Reload to get the new page.</span>
  <button class="btn small" onClick=${() => location.reload()}>Reload</button>
</div>`;

const HaltBanner = () => html`<div class="banner bad" role="status">
  <${Icon} name="stop" />
  <span class="grow" dir="auto">
    <strong>Everything is halted.</strong> ${halt.value.why || "No model is called and nothing starts."}
  </span>
  ${
    session.value?.operator &&
    html`<button class="btn small" onClick=${() => attempt(() => remove("/v1/halt"))}>Lift the halt</button>`
  }
</div>`;

const MoveBanner = () => html`<div class="banner bad" role="status">
  <${Icon} name="warn" />
  <span class="grow" dir="auto"><strong>Your workspace is at another address.</strong> ${moveProblem.value}</span>
</div>`;

function ThemeButton() {
  const next = getNextTheme();
  return html`<button
    class="btn ghost icon-only small in-palette"
    onClick=${() => setTheme(next)}
    aria-label="Theme: ${theme.value}. Change to ${next}"
    title="Theme: ${theme.value}"
  ><${Icon} name=${THEME_ICONS[theme.value]} /></button>`;
}

const PaletteButton = () => html`<button
  class="btn ghost icon-only small"
  onClick=${() => (showsPalette.value = true)}
  aria-label="Go anywhere, do anything"
  aria-haspopup="dialog"
  title="Go anywhere (${PALETTE_KEYS})"
><${Icon} name="search" /></button>`;

/** The palette, whose module is loaded when it is first opened. */
function LazyPalette() {
  const [module, setModule] = useState(null);
  const isOpen = showsPalette.value;
  useEffect(() => {
    if (!isOpen || module) return;
    import("./palette.js").then(setModule, () => {
      isOutdated.value = true; // the server has another build, whose files have other addresses
      showsPalette.value = false;
    });
  }, [isOpen]);
  return isOpen && module && html`<${module.Palette} pages=${NAVIGATION} />`;
}

/** `sidebar`: what the page adds below the navigation. */
export function Shell({ title, sidebar, children }) {
  const [dot, label] = CONNECTIONS[connection.value];
  return html`<a class="skip-link" href="#main">Skip to content</a>
    <div class="shell">
      <nav class="side" aria-label="Main">
        <a class="brand" href="/"><${Icon} name="mark" /><span>Headway</span></a>
        <div class="nav-list">
          ${NAVIGATION.map(
            ([icon, text, to]) => html`<a
              key=${to}
              class="nav-item"
              href=${to}
              aria-current=${title === text ? "page" : null}
              title=${text}
            >
              <${Icon} name=${icon} /><span>${text}</span>
              ${COUNTS[text]?.()}
            </a>`,
          )}
        </div>
        ${sidebar}
        <footer>
          <span class="connection" role="status" title="The connection to the server">
            <i class="dot ${dot}"></i><span>${label}</span>
          </span>
          <span class="grow truncate tenant" title="The tenant of this session" dir="auto">${session.value?.tenant}</span>
          ${session.value?.scopes.includes("write") === false && html`<span class="hint">read-only</span>`}
          <${PaletteButton} /><${ThemeButton} />
          <button class="btn ghost icon-only small in-palette" onClick=${askToSignOut} aria-label="Sign out" title="Sign out">
            <${Icon} name="exit" />
          </button>
        </footer>
      </nav>
      <div class="content">
        ${isOutdated.value && html`<${OutdatedBanner} />`}
        ${moveProblem.value && html`<${MoveBanner} />`}
        ${halt.value.halted && html`<${HaltBanner} />`}
        ${children}
      </div>
    </div>
    <${LazyPalette} />${showsShortcuts.value && html`<${ShortcutsDialog} />`}<${ConfirmDialog} /><${Toasts} />`;
}

// Keys that work on every page. Those without a modifier do nothing while the user types.
import { html, signal, useEffect, useRef } from "./lib.js";
import { Icon } from "./ui.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
export const PALETTE_KEYS = isMac ? "⌘K" : "Ctrl K";
export const showsPalette = signal(false);
export const showsShortcuts = signal(false);

const SECTIONS = [
  [
    "Everywhere",
    [
      [PALETTE_KEYS, "Go anywhere, do anything"],
      ["?", "Show these shortcuts"],
      ["Tab, Shift Tab", "Move between controls"],
      ["Esc", "Close a dialog, leave a field as it was"],
    ],
  ],
  [
    "Chat",
    [
      ["Enter", "Send"],
      ["Shift Enter", "Start a new line"],
      ["Ctrl Enter", "Send an edited message again"],
      ["Alt ↑, Alt ↓", "Move the focused todo"],
      ["F2", "Rename the focused conversation"],
    ],
  ],
  [
    "Board and plan",
    [
      ["Arrow keys", "Move between cards"],
      ["Alt ←, Alt →", "Change the status of the focused card"],
      ["Alt ↑, Alt ↓", "Move a pending card"],
      ["Enter", "Open a card"],
    ],
  ],
];

const isTyping = ({ target }) => target.closest?.("input, textarea, select, [contenteditable]") !== null;

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.repeat) return;
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if ((isMac ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (showsPalette.value || !document.querySelector("dialog:modal")) showsPalette.value = !showsPalette.value;
  } else if (event.key === "?" && !hasModifier && !isTyping(event) && !document.querySelector("dialog:modal")) {
    event.preventDefault();
    showsShortcuts.value = true;
  }
});

export function ShortcutsDialog() {
  const dialog = useRef();
  useEffect(() => dialog.current.showModal(), []);
  const close = () => dialog.current.close();
  return html`<dialog
    ref=${dialog}
    class="shortcuts"
    aria-labelledby="shortcuts-title"
    onClose=${() => (showsShortcuts.value = false)}
    onClick=${(event) => event.target === dialog.current && close()}
  >
    <header>
      <h2 id="shortcuts-title">Keyboard shortcuts</h2>
      <button class="btn ghost icon-only small" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>
    </header>
    ${SECTIONS.map(
      ([name, keys]) => html`<section key=${name}>
        <h3>${name}</h3>
        <dl>${keys.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
      </section>`,
    )}
  </dialog>`;
}

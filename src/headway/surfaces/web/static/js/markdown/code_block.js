// A block of code: its language, a button to copy it, and colours.
import { html } from "../core/lib.js";
import { CopyButton } from "./copy_button.js";
import { findLanguage, highlight } from "./highlighting.js";

/** `isOpen`: more of it may arrive, so that it has no colours yet. */
export function CodeBlock({ code, info, isOpen }) {
  const { name, label } = findLanguage(info);
  return html`<div class="code-block">
    <div class="code-head"><span class="truncate grow">${label}</span><${CopyButton} text=${code} label="Copy code" /></div>
    <pre tabindex="0" role="group" aria-label=${label ? `Code, ${label}` : "Code"}><code dir="ltr">${
      isOpen ? code : highlight(code, name)
    }</code></pre>
  </div>`;
}

// A block of code: its language, a button to copy it, and colours.
import { html } from "../core/lib.js";
import { CopyButton } from "./copy_button.js";
import { findLanguage, highlight } from "./highlighting.js";

/** `isPlain`: it has no colours, because more of it may arrive or there is too much code. */
export function CodeBlock({ code, info, isPlain }) {
  const { name, label } = findLanguage(info);
  return html`<div class="code-block">
    <div class="code-head"><span class="truncate grow">${label}</span><${CopyButton} text=${code} label="Copy code" /></div>
    <pre tabindex="0" role="group" aria-label=${label ? `Code, ${label}` : "Code"}><code dir="ltr">${
      isPlain ? code : highlight(code, name)
    }</code></pre>
  </div>`;
}

// The arguments of a tool call, so that a person can decide by them.
import { html, useState } from "./lib.js";
import { VisibleText } from "./visible_text.js";

const CUT_LENGTH = 1_500;
const INLINE_LENGTH = 120;
const SAFE_WORD = /^[\w@%+=:,./-]+$/;

/** Quote a word of a command line as a shell would need it, so that it is clear where each word begins and ends. */
const quote = (word) => (SAFE_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

const isCommand = (value) => Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string");

/** Each word is isolated, so that right-to-left text in one cannot change the order of the others. */
const CommandLine = ({ words }) => html`<pre class="argument-block command" tabindex="0" aria-label="Command"><code
  ><span class="prompt" aria-hidden="true">$ </span>${words.map(
    (word, n) => html`${n ? " " : ""}<bdi dir="ltr"><${VisibleText} text=${quote(word)} /></bdi>`,
  )}</code></pre>`;

function Block({ name, text }) {
  const [isWhole, setIsWhole] = useState(false);
  const rest = text.length - CUT_LENGTH;
  const isCut = rest > 0 && !isWhole;
  return html`<pre class="argument-block" tabindex="0" aria-label=${name} dir="ltr"><code
      ><${VisibleText} text=${isCut ? text.slice(0, CUT_LENGTH) : text} isBlock /></code></pre>
    ${
      isCut &&
      html`<p class="cut-note">
        <span>${rest.toLocaleString()} characters more</span>
        <button type="button" class="btn small" onClick=${() => setIsWhole(true)}>Show all</button>
      </p>`
    }`;
}

function Value({ name, value }) {
  if (name === "command" && isCommand(value)) return html`<${CommandLine} words=${value} />`;
  if (typeof value !== "string") {
    const text = JSON.stringify(value, null, 2);
    if (text.length > INLINE_LENGTH || text.includes("\n")) return html`<${Block} name=${name} text=${text} />`;
    return html`<code class="argument"><${VisibleText} text=${text} /></code>`;
  }
  if (value.length > INLINE_LENGTH || value.includes("\n")) return html`<${Block} name=${name} text=${value} />`;
  return value
    ? html`<code class="argument" dir="ltr"><${VisibleText} text=${value} /></code>`
    : html`<span class="faint">empty</span>`;
}

export function Arguments({ value }) {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return html`<${Value} name="Arguments" value=${value} />`;
  const entries = Object.entries(value);
  if (!entries.length) return html`<p class="faint small">Without arguments.</p>`;
  if (entries.length === 1 && entries[0][0] === "command" && isCommand(entries[0][1])) {
    return html`<${CommandLine} words=${entries[0][1]} />`;
  }
  return html`<dl class="arguments">
    ${entries.map(
      ([name, argument]) => html`<div key=${name}>
        <dt><${VisibleText} text=${name} /></dt>
        <dd><${Value} name=${name} value=${argument} /></dd>
      </div>`,
    )}
  </dl>`;
}

// The arguments of a tool call, so that a person can decide by them.
import { html, useState } from "../core/lib.js";
import { VisibleText } from "../core/visible_text.js";

const CUT_LENGTH = 1_500;
const CUT_LINES = 20;
const INLINE_LENGTH = 120;
const SAFE_WORD = /^[\w@%+=:,./-]+$/;

/** Quote a word of a command line as a shell would need it, so that it is clear where each word begins and ends. */
const quote = (word) => (SAFE_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''").replaceAll("\0", "⟨U+0000⟩")}'`);

const isCommand = (value) => Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string");

/** Split off what is shown at first: few enough lines to be seen without scrolling, so that nothing hides below an edge. */
function cut(text) {
  const lines = text.split("\n", CUT_LINES + 1);
  const shown = lines.slice(0, CUT_LINES).join("\n").slice(0, CUT_LENGTH);
  return { shown, rest: text.length - shown.length };
}

/** A block of text whose end is shown on demand. `render` renders a part of the text. */
function CutBlock({ text, name, kind = "", render }) {
  const [isWhole, setIsWhole] = useState(false);
  const { shown, rest } = cut(text);
  const isCut = rest > 0 && !isWhole;
  return html`<pre class="argument-block ${kind}" tabindex="0" aria-label=${name} dir="ltr"><code
      >${render(isCut ? shown : text)}</code></pre>
    ${
      isCut &&
      html`<p class="cut-note">
        <span>${rest.toLocaleString()} characters more</span>
        <button type="button" class="btn small" onClick=${() => setIsWhole(true)}>Show all</button>
      </p>`
    }`;
}

const Block = ({ name, text }) => html`<${CutBlock}
  name=${name}
  text=${text}
  render=${(part) => html`<${VisibleText} text=${part} isBlock />`}
/>`;

/** Words are separated by NUL, which no quoted word contains. Each is isolated: right-to-left text cannot move to another. */
const CommandLine = ({ words }) => html`<${CutBlock}
  name="Command"
  kind="command"
  text=${words.map(quote).join("\0")}
  render=${(part) => [
    html`<span class="prompt" aria-hidden="true">$ </span>`,
    part.split("\0").map((word, n) => html`${n ? " " : ""}<bdi dir="ltr"><${VisibleText} text=${word} /></bdi>`),
  ]}
/>`;

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

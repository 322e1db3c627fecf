// A message in Markdown. The text is never parsed as HTML, so there is nothing to sanitize.
import { Component, html, PureComponent } from "../core/lib.js";
import { parse, parsePart } from "./parser.js";
import { createContext, renderTokens } from "./render.js";

const LENGTH_LIMIT = 100_000; // characters; what is longer is shown without formatting
const SHORT_PART = 4_000; // a part that is longer is parsed again only when it has grown by 2%
const GROWTH = 1.02;

let lastId = 0;
const createId = () => `text-${++lastId}`;

/** Split a text that would take long to format, at the end of a line. */
function splitLong(text) {
  if (text.length <= LENGTH_LIMIT) return [text, ""];
  const end = text.lastIndexOf("\n", LENGTH_LIMIT);
  const at = end > LENGTH_LIMIT / 2 ? end + 1 : LENGTH_LIMIT;
  return [text.slice(0, at), text.slice(at)];
}

const renderRest = (rest) =>
  rest &&
  html`<p class="cut-note">This message is very long. The rest of it is shown without formatting.</p><p class="plain">${rest}</p>`;

/** A message that is complete. */
export class Markdown extends PureComponent {
  id = createId();
  render({ text }) {
    const [start, rest] = splitLong(text);
    return html`<div class="markdown">${renderTokens(parse(start), createContext(this.id))}${renderRest(rest)}</div>`;
  }
}

/** The text with the line ends that the parser counts. */
const normalize = (text) => text.replace(/\r\n?/g, "\n");

/** Where a line begins in a text. */
function findLine(text, line) {
  let at = 0;
  for (let count = 0; count < line; count++) at = text.indexOf("\n", at) + 1;
  return at;
}

/** A message that still arrives. Blocks that are complete are neither parsed nor rendered again. */
export class StreamedMarkdown extends Component {
  id = createId();
  reset() {
    this.finished = []; // elements of complete blocks
    this.start = 0; // where the first block begins that is not complete
    this.parts = createContext(this.id);
  }
  shouldComponentUpdate(next) {
    const text = normalize(next.text);
    if (!text.startsWith(this.shown)) return true;
    const open = this.shown.length - this.start;
    return open < SHORT_PART ? text !== this.shown : text.length - this.start > open * GROWTH;
  }
  render(props) {
    const text = normalize(props.text);
    if (!this.shown || !text.startsWith(this.shown)) this.reset();
    this.shown = text;
    const [formatted, rest] = splitLong(text);
    const open = this.parseOpen(formatted.slice(this.start));
    return html`<div class="markdown">${[...this.finished, ...open]}${renderRest(rest)}</div>`;
  }
  /** Parse what is not complete. Blocks before the last empty line between two blocks are complete. */
  parseOpen(text) {
    const lines = text.split("\n");
    const tokens = parsePart(text);
    const startsBlock = ({ level, map, nesting }) => level === 0 && map && nesting >= 0 && map[0] > 0 && !lines[map[0] - 1].trim();
    const last = tokens.findLastIndex(startsBlock);
    if (last > 0) {
      this.finished = [...this.finished, ...renderTokens(tokens.slice(0, last), this.parts)];
      this.start += findLine(text, tokens[last].map[0]);
    }
    const context = { ...this.parts, headings: [...this.parts.headings], isOpen: true };
    return renderTokens(tokens.slice(Math.max(last, 0)), context);
  }
}

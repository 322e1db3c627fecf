// Renders a model's Markdown as elements. The text is never parsed as HTML, so there is nothing to sanitize. Every pattern has
// bounds, so that no text takes long to match.
import { html, PureComponent } from "../core/lib.js";

const INLINE = new RegExp(
  [
    /(`{1,3})([^`\n]{1,2000})\1/, // code
    /\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__/, // strong
    /(?<![\w*])\*([^*\s][^*\n]{0,2000})\*(?![\w*])|(?<![\w])_([^_\s][^_\n]{0,2000})_(?![\w])/, // emphasis
    /~~([^~\n]{1,2000})~~/, // struck out
    /\[([^[\]\n]{1,500})\]\(([^)[\s]{1,2000})\)/, // link
    /(https?:\/\/[^\s<>"'`)\]]{1,2000}[^\s<>"'`)\].,;:!?])/, // address
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);
const SAFE_TARGET = /^(https?:\/\/|mailto:|\/(?![/\\])|#)/i; // browsers read // and /\ as the start of another host
const MAX_DEPTH = 4;

function parseInline(text, depth = 0) {
  if (depth > MAX_DEPTH) return text;
  const out = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) out.push(text.slice(at, match.index));
    const [whole, , code, strong, strong2, em, em2, struck, label, target, address] = match;
    const parseInner = (inner) => parseInline(inner, depth + 1);
    if (code) out.push(html`<code>${code}</code>`);
    else if (strong ?? strong2) out.push(html`<strong>${parseInner(strong ?? strong2)}</strong>`);
    else if (em ?? em2) out.push(html`<em>${parseInner(em ?? em2)}</em>`);
    else if (struck) out.push(html`<s>${parseInner(struck)}</s>`);
    else if (label) out.push(SAFE_TARGET.test(target) ? renderLink(target, label) : whole);
    else out.push(renderLink(address, address));
    at = match.index + whole.length;
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

const renderLink = (to, label) => html`<a href=${to} target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})\s(.*)/s;
const ITEM = /^(\s{0,12})([-*+]|\d{1,9}[.)])\s(.*)/s;
const QUOTE = /^ {0,3}>\s?(.*)/s;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const TABLE_MARK = /^:?-+:?$/;
const TABLE_LIMIT = 10_000; // characters of the line below a table's head

const opensBlock = (line) => [FENCE, HEADING, ITEM, QUOTE, RULE].some((pattern) => pattern.test(line));

/** Turn lines into elements. Each parser below consumes its lines, adds elements to `out` and returns the next line's index. */
function parseBlocks(lines, depth = 0) {
  const out = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (!line.trim()) at++;
    else if (FENCE.test(line)) at = parseFence(lines, at, out);
    else if (HEADING.test(line)) at = parseHeading(lines, at, out);
    else if (RULE.test(line)) {
      out.push(html`<hr />`);
      at++;
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) at = parseQuote(lines, at, out, depth);
    else if (ITEM.test(line) && depth < MAX_DEPTH) at = parseList(lines, at, out, depth);
    else if (line.includes("|") && isTableLine(lines[at + 1] ?? "")) at = parseTable(lines, at, out);
    else at = parseParagraph(lines, at, out);
  }
  return out;
}

function parseHeading(lines, at, out) {
  const [, { length: level }, text] = HEADING.exec(lines[at]);
  out.push(
    html`<p class="h h${level}" role="heading" aria-level=${Math.min(6, level + 1)} dir="auto">${parseInline(text.trim())}</p>`,
  );
  return at + 1;
}

function parseFence(lines, start, out) {
  const mark = FENCE.exec(lines[start])[1];
  let at = start + 1;
  const code = [];
  for (; at < lines.length && !lines[at].trim().startsWith(mark); at++) code.push(lines[at]);
  out.push(html`<pre tabindex="0" aria-label="Code"><code>${code.join("\n")}</code></pre>`);
  return at + 1;
}

function parseQuote(lines, start, out, depth) {
  let at = start;
  const inner = [];
  for (; at < lines.length && QUOTE.test(lines[at]); at++) inner.push(QUOTE.exec(lines[at])[1]);
  out.push(html`<blockquote>${parseBlocks(inner, depth + 1)}</blockquote>`);
  return at;
}

function parseList(lines, start, out, depth) {
  const [, { length: indent }, mark] = ITEM.exec(lines[start]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || match[1].length > indent + 1 || /\d/.test(match[2]) !== isOrdered || match[1].length < indent) break;
    const inner = [match[3].trimStart()];
    for (at++; at < lines.length && belongsToItem(lines, at, indent); at++) {
      inner.push(lines[at].slice(Math.min(indent + 2, lines[at].search(/\S|$/))));
    }
    items.push(html`<li dir="auto">${unwrapParagraph(parseBlocks(inner, depth + 1))}</li>`);
  }
  out.push(isOrdered ? html`<ol start=${Number.parseInt(mark, 10)}>${items}</ol>` : html`<ul>${items}</ul>`);
  return at;
}

/** Whether a line belongs to the item above it: it is indented further, or continues its sentence. */
function belongsToItem(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return /^\s{2,}\S/.test(lines[at + 1] ?? "") && lines[at + 1].search(/\S/) > indent + 1;
  return line.search(/\S/) > indent + 1 || !(opensBlock(line) || !lines[at - 1].trim());
}

/** The first paragraph of an item is shown without its <p>. */
function unwrapParagraph([first, ...rest]) {
  const isParagraph = first?.type === "p" && first.props.class === undefined;
  return isParagraph ? [first.props.children, rest] : [first, ...rest];
}

const splitCells = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|");

/** Whether a line stands below the head of a table, such as |---|:-:|. */
const isTableLine = (line) =>
  line.length <= TABLE_LIMIT && line.includes("|") && splitCells(line).every((cell) => TABLE_MARK.test(cell.trim()));

function parseTable(lines, start, out) {
  const parseCells = (line) => splitCells(line).map((cell) => parseInline(cell.trim()));
  const head = parseCells(lines[start]);
  const rows = [];
  let at = start + 2;
  for (; at < lines.length && lines[at].includes("|"); at++) rows.push(parseCells(lines[at]));
  out.push(html`<div class="scroll" tabindex="0" role="group" aria-label="Table">
    <table>
      <thead><tr>${head.map((cell) => html`<th>${cell}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td dir="auto">${cell}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`);
  return at;
}

function parseParagraph(lines, start, out) {
  const paragraph = [lines[start]];
  let at = start + 1;
  for (; at < lines.length && lines[at].trim() && !opensBlock(lines[at]); at++) paragraph.push(lines[at]);
  out.push(html`<p dir="auto">${parseInline(paragraph.join("\n"))}</p>`);
  return at;
}

export class Markdown extends PureComponent {
  render({ text }) {
    return html`<div class="markdown">${parseBlocks(text.split("\n"))}</div>`;
  }
}

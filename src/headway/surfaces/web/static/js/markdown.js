// A model's text as elements. It is never treated as HTML, so there is nothing to sanitise; every pattern is bounded, so no
// text takes long to look through.
import { html, Kept } from "./lib.js";

const INLINE =
  /(`{1,3})([^`\n]{1,2000})\1|\*\*([^*\n]{1,2000})\*\*|__([^_\n]{1,2000})__|(?<![\w*])\*([^*\s][^*\n]{0,2000})\*(?![\w*])|(?<![\w])_([^_\s][^_\n]{0,2000})_(?![\w])|~~([^~\n]{1,2000})~~|\[([^[\]\n]{1,500})\]\(([^)\s]{1,2000})\)|(https?:\/\/[^\s<>"'`)\]]{1,2000}[^\s<>"'`)\].,;:!?])/g;
const SAFE = /^(https?:\/\/|mailto:|\/(?![/\\])|#)/i; // browsers read both slashes as the beginning of another host
const DEEPEST = 4;

function inline(text, depth = 0) {
  if (depth > DEEPEST) return text;
  const out = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) out.push(text.slice(at, found.index));
    const [whole, , code, strong, strong2, em, em2, struck, label, target, address] = found;
    const within = (words) => inline(words, depth + 1);
    if (code) out.push(html`<code>${code}</code>`);
    else if (strong ?? strong2) out.push(html`<strong>${within(strong ?? strong2)}</strong>`);
    else if (em ?? em2) out.push(html`<em>${within(em ?? em2)}</em>`);
    else if (struck) out.push(html`<s>${within(struck)}</s>`);
    else if (label) out.push(SAFE.test(target) ? anchor(target, label) : whole);
    else out.push(anchor(address, address));
    at = found.index + whole.length;
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

const anchor = (to, label) => html`<a href=${to} target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const ITEM = /^(\s{0,12})([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}>\s?(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const TABLE_LINE = /^\s*\|?(\s*:?-{1,200}:?\s*\|){1,50}\s*(:?-{1,200}:?)?\s*$/;

const opensBlock = (line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line) || RULE.test(line);

/** Lines to elements. Each reader takes what is its own and says where to go on. */
function blocks(lines, depth = 0) {
  const out = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    if (!line.trim()) at++;
    else if (FENCE.test(line)) at = fence(lines, at, out);
    else if (HEADING.test(line)) {
      const [, marks, text] = HEADING.exec(line);
      out.push(
        html`<p class="h h${marks.length}" role="heading" aria-level=${Math.min(6, marks.length + 1)} dir="auto">${inline(text)}</p>`,
      );
      at++;
    } else if (RULE.test(line)) {
      out.push(html`<hr />`);
      at++;
    } else if (QUOTE.test(line) && depth < DEEPEST) at = quote(lines, at, out, depth);
    else if (ITEM.test(line) && depth < DEEPEST) at = list(lines, at, out, depth);
    else if (line.includes("|") && TABLE_LINE.test(lines[at + 1] ?? "")) at = table(lines, at, out);
    else at = paragraph(lines, at, out);
  }
  return out;
}

function fence(lines, start, out) {
  const mark = FENCE.exec(lines[start])[1];
  let at = start + 1;
  const code = [];
  for (; at < lines.length && !lines[at].trim().startsWith(mark); at++) code.push(lines[at]);
  out.push(html`<pre tabindex="0" aria-label="Code"><code>${code.join("\n")}</code></pre>`);
  return at + 1;
}

function quote(lines, start, out, depth) {
  let at = start;
  const inner = [];
  for (; at < lines.length && QUOTE.test(lines[at]); at++) inner.push(QUOTE.exec(lines[at])[1]);
  out.push(html`<blockquote>${blocks(inner, depth + 1)}</blockquote>`);
  return at;
}

function list(lines, start, out, depth) {
  const [, indent, mark] = ITEM.exec(lines[start]);
  const ordered = /\d/.test(mark);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length > indent.length + 1 || /\d/.test(found[2]) !== ordered || found[1].length < indent.length) break;
    const inner = [found[3]];
    for (at++; at < lines.length && belongs(lines, at, indent.length); at++)
      inner.push(lines[at].slice(Math.min(indent.length + 2, lines[at].search(/\S|$/))));
    items.push(html`<li dir="auto">${tight(blocks(inner, depth + 1))}</li>`);
  }
  out.push(ordered ? html`<ol start=${Number.parseInt(mark, 10)}>${items}</ol>` : html`<ul>${items}</ul>`);
  return at;
}

/** Whether a line goes on with the item above it: it is indented further, or continues its sentence. */
function belongs(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return /^\s{2,}\S/.test(lines[at + 1] ?? "") && lines[at + 1].search(/\S/) > indent + 1;
  return line.search(/\S/) > indent + 1 || !(opensBlock(line) || !lines[at - 1].trim());
}

/** An item of one paragraph stands without it. */
const tight = (inner) =>
  inner[0]?.type === "p" && inner[0].props.class === undefined ? [inner[0].props.children, inner.slice(1)] : inner;

function table(lines, start, out) {
  const cells = (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split("|")
      .map((cell) => inline(cell.trim()));
  const head = cells(lines[start]);
  const rows = [];
  let at = start + 2;
  for (; at < lines.length && lines[at].includes("|"); at++) rows.push(cells(lines[at]));
  out.push(
    html`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${head.map((cell) => html`<th>${cell}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td dir="auto">${cell}</td>`)}</tr>`)}</tbody></table></div>`,
  );
  return at;
}

function paragraph(lines, start, out) {
  const words = [lines[start]];
  let at = start + 1;
  for (; at < lines.length && lines[at].trim() && !opensBlock(lines[at]); at++) words.push(lines[at]);
  out.push(html`<p dir="auto">${inline(words.join("\n"))}</p>`);
  return at;
}

export class Markdown extends Kept {
  render({ text }) {
    return html`<div class="md">${blocks(text.split("\n"))}</div>`;
  }
}

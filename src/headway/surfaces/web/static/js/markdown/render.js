// Turns the parser's tokens into elements. Only the elements named here can come out of a text.
import { html } from "../core/lib.js";
import { CodeBlock } from "./code_block.js";
import { Formula } from "./formula.js";

const DEPTH_LIMIT = 120; // elements in each other; what is deeper loses its formatting
const FORMULAS_LIMIT = 300; // per message; the source of others is shown
const CODE_LIMIT = 30_000; // characters of code per message that get colours
const TASK = /^\[([ xX])\]\s/;
const OWN_IMAGE = /^\/v1\/turns\/[\w-]{1,64}\/attachments\/\d{1,3}$/; // other addresses of this server may be streams
const ALIGNMENT = /text-align:(left|center|right)/;
const TOP_LEVEL = 2; // the conversation's title has level 1
const LOWEST_LEVEL = 6;

/** Shared by the parts of a message. `id`: the prefix of its names in the page. */
export const createContext = (id) => ({ id, headings: [], formulas: 0, code: 0, isOpen: false });

const findAlignment = (token) => ALIGNMENT.exec(token.attrGet("style") ?? "")?.[1];
const isEmpty = (children) => children.every((child) => typeof child === "string" && !child.trim());
const getDirection = (token) => (token.level === 0 ? { dir: "auto" } : {}); // what is inside has the direction of the whole

const renderLink = (to, label, title) =>
  html`<a href=${to} ...${title ? { title } : {}} target="_blank" rel="noopener noreferrer nofollow">${label}</a>`;

/** Levels without gaps, whatever the text uses. */
function getHeadingLevel(token, { headings }) {
  const written = Number(token.tag[1]);
  while (headings.length && headings.at(-1) >= written) headings.pop();
  headings.push(written);
  return Math.min(TOP_LEVEL + headings.length - 1, LOWEST_LEVEL);
}

function renderHeading(token, children, context) {
  const level = getHeadingLevel(token, context);
  return html`<p class="h ${token.tag}" role="heading" aria-level=${level} ...${getDirection(token)}>${children}</p>`;
}

function renderCell(token, children) {
  const align = findAlignment(token);
  const isHead = token.tag === "th" && !isEmpty(children); // an empty one heads nothing
  return isHead
    ? html`<th scope="col" dir="auto" class=${align}>${children}</th>`
    : html`<td dir="auto" class=${align}>${children}</td>`;
}

const renderTable = (_token, children) => html`<div class="scroll" tabindex="0" role="group" aria-label="Table">
  <table>${children}</table>
</div>`;

const renderBox = (isDone) => html`<input type="checkbox" disabled checked=${isDone} aria-label=${isDone ? "Done" : "Not done"} />`;

function renderItem(_token, children, _context, { isTask }) {
  return html`<li class=${isTask ? "task" : null}>${children}</li>`;
}

/** Show the element with an id, without changing the address. */
function jump(event) {
  event.preventDefault();
  const target = document.getElementById(event.currentTarget.hash.slice(1));
  target?.scrollIntoView({ block: "nearest" });
  target?.focus();
}

const getNoteId = ({ id }, { meta }) => `${id}-note-${meta.id + 1}`;
const getMarkId = ({ id }, { meta }) => `${id}-mark-${meta.id + 1}-${meta.subId ?? 0}`;

const renderNoteMark = (token, context) => html`<sup><a
  id=${getMarkId(context, token)}
  href="#${getNoteId(context, token)}"
  aria-label="Note ${token.meta.id + 1}"
  onClick=${jump}
>${token.meta.id + 1}</a></sup>`;

const renderNoteReturn = (token, context) => html` <a
  href="#${getMarkId(context, token)}"
  aria-label="Back to the text"
  onClick=${jump}
>↩</a>`;

const CONTAINERS = {
  paragraph: (token, children) => (token.hidden ? children : html`<p ...${getDirection(token)}>${children}</p>`),
  heading: renderHeading,
  bullet_list: (token, children) => html`<ul ...${getDirection(token)}>${children}</ul>`,
  ordered_list: (token, children) => html`<ol ...${getDirection(token)} start=${token.attrGet("start") ?? 1}>${children}</ol>`,
  list_item: renderItem,
  blockquote: (token, children) => html`<blockquote ...${getDirection(token)}>${children}</blockquote>`,
  table: renderTable,
  thead: (_token, children) => html`<thead>${children}</thead>`,
  tbody: (_token, children) => html`<tbody>${children}</tbody>`,
  tr: (_token, children) => html`<tr>${children}</tr>`,
  th: renderCell,
  td: renderCell,
  strong: (_token, children) => html`<strong>${children}</strong>`,
  em: (_token, children) => html`<em>${children}</em>`,
  s: (_token, children) => html`<s>${children}</s>`,
  link: (token, children) =>
    renderLink(token.attrGet("href"), isEmpty(children) ? token.attrGet("href") : children, token.attrGet("title")),
  footnote_block: (_token, children) => html`<ol class="notes" aria-label="Notes">${children}</ol>`,
  footnote: (token, children, context) => html`<li id=${getNoteId(context, token)} tabindex="-1" dir="auto">${children}</li>`,
};

/** An image of this server. The page loads nothing from others: their images are links. */
function renderImage(token, isInLink) {
  const source = token.attrGet("src");
  const alt = token.content;
  if (OWN_IMAGE.test(source)) return html`<img src=${source} alt=${alt || "Image"} loading="lazy" />`;
  if (isInLink) return alt || source;
  return renderLink(source, alt ? `${alt} (${source})` : source, token.attrGet("title"));
}

function renderFormula(token, context) {
  context.formulas += 1;
  if (context.formulas > FORMULAS_LIMIT) return html`<code dir="ltr">${token.content}</code>`;
  return html`<${Formula} text=${token.content} isDisplay=${token.markup === "$$" || token.markup === "\\["} />`;
}

function renderCode(token, context) {
  context.code += token.content.length;
  const isPlain = context.isOpen || context.code > CODE_LIMIT;
  return html`<${CodeBlock} code=${token.content.replace(/\n$/, "")} info=${token.info} isPlain=${isPlain} />`;
}

const LEAVES = {
  text: (token) => token.content,
  softbreak: () => "\n",
  hardbreak: () => html`<br />`,
  hr: () => html`<hr />`,
  code_inline: (token) => html`<code dir="ltr">${token.content}</code>`,
  code_block: renderCode,
  fence: renderCode,
  math_inline: renderFormula,
  math_block: renderFormula,
  image: (token, _context, stack) =>
    renderImage(
      token,
      stack.some(({ token: open }) => open?.type === "link_open"),
    ),
  too_deep: (token) => html`<p class="plain">${token.content}</p>`,
  footnote_ref: renderNoteMark,
  footnote_anchor: renderNoteReturn,
};

/** The elements of a line. An item that begins with [ ] or [x] becomes a task. */
function renderInline(token, context, stack, depth) {
  const [first] = token.children;
  const item = stack.at(-2);
  const task = item?.token?.type === "list_item_open" && item.children.length === 0 && first && TASK.exec(first.content);
  if (!task) return build(token.children, context, depth);
  item.isTask = true;
  first.content = first.content.slice(task[0].length);
  return [renderBox(task[1] !== " "), " ", ...build(token.children, context, depth)];
}

/** Build the tree of elements, and return the outermost ones. */
function build(tokens, context, depth) {
  const root = { children: [] };
  const stack = [root];
  for (const token of tokens) {
    const { children } = stack.at(-1);
    const isTooDeep = depth + stack.length > DEPTH_LIMIT;
    if (token.nesting === 1) stack.push({ token, children: isTooDeep ? children : [], isTooDeep });
    else if (token.nesting === -1) {
      const frame = stack.pop();
      const render = CONTAINERS[frame.token.type.slice(0, -"_open".length)];
      if (!frame.isTooDeep) stack.at(-1).children.push(render(frame.token, frame.children, context, frame));
    } else if (token.type === "inline") {
      for (const child of renderInline(token, context, stack, depth + stack.length)) children.push(child);
    } else children.push((LEAVES[token.type] ?? LEAVES.text)(token, context, stack));
  }
  return root.children;
}

/** The elements of the blocks, one for each. */
export const renderTokens = (tokens, context) => build(tokens, context, 0);

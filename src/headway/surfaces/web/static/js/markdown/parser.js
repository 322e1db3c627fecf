// Turns Markdown into tokens, in linear time. HTML in it stays text.
import { footnotes, MarkdownIt } from "../../vendor/markdown-it.js";
import { math } from "./math_rules.js";

const SAFE_TARGET = /^(?:https?:\/\/|mailto:|\/(?![/\\]))/i; // browsers read // and /\ as the start of another host
const NESTING_LIMIT = 40; // lists and quotes in each other
const FOOTNOTES_LIMIT = 200; // more of them would take quadratic time
const NUMBER = /^\d{1,9}[.)]$/;
const BREAK = /^<br ?\/?>/i;

/** Shows what is nested too deeply as plain text, where the parser would leave it out. */
function parseTooDeep(state, startLine, endLine, isSilent) {
  if (state.level < NESTING_LIMIT) return false;
  if (isSilent) return true;
  const token = state.push("too_deep", "", 0);
  token.content = state.getLines(startLine, endLine, 0, false);
  token.map = [startLine, endLine];
  state.line = endLine;
  return true;
}

/** A number with a full stop and nothing after it, such as "42.", is an answer and not an empty list. */
function parseNumber(state, startLine, endLine, isSilent) {
  const line = state.src.slice(state.bMarks[startLine] + state.tShift[startLine], state.eMarks[startLine]).trim();
  const isAlone = startLine + 1 >= endLine || state.isEmpty(startLine + 1);
  if (isSilent || state.level > 0 || !isAlone || !NUMBER.test(line)) return false;
  const map = [startLine, startLine + 1];
  state.push("paragraph_open", "p", 1).map = map;
  Object.assign(state.push("inline", "", 0), { content: line, map, children: [] });
  state.push("paragraph_close", "p", -1);
  state.line = startLine + 1;
  return true;
}

/** Models break lines in tables with <br>, because Markdown has no other way. */
function parseBreak(state, isSilent) {
  if (state.src[state.pos] !== "<") return false;
  const match = BREAK.exec(state.src.slice(state.pos, state.pos + 6));
  if (!match) return false;
  if (!isSilent) state.push("hardbreak", "br", 0);
  state.pos += match[0].length;
  return true;
}

function createParser() {
  const parser = new MarkdownIt({ linkify: true });
  parser.linkify.set({ fuzzyLink: false }); // main.py and notes.md are files, not hosts
  parser.validateLink = (target) => SAFE_TARGET.test(target);
  parser.normalizeLinkText = (target) => target; // shown as written: nothing in it is decoded
  parser.use(math);
  parser.block.ruler.before("table", "too_deep", parseTooDeep);
  parser.block.ruler.before("list", "number", parseNumber);
  parser.inline.ruler.before("autolink", "break", parseBreak);
  return parser;
}

const plainParser = createParser();
const fullParser = createParser().use(footnotes);
fullParser.disable("footnote_inline"); // ^[…] is rarely meant

const hasFewFootnotes = (text) => text.includes("[^") && text.split("[^", FOOTNOTES_LIMIT + 2).length <= FOOTNOTES_LIMIT + 1;

/** The tokens of a whole message. */
export const parse = (text) => (hasFewFootnotes(text) ? fullParser : plainParser).parse(text, {});

/** The tokens of a part, while the rest still arrives. A note at the foot of the message may be missing, so there are none. */
export const parsePart = (text) => plainParser.parse(text, {});

// Finds formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] as blocks of their own.

const INLINE_LIMIT = 1_000; // characters of a formula; each search for its end is this short
const BLOCK_LIMIT = 5_000;
const BLOCK_LINES = 100;
const PAIRS = { $: "$", $$: "$$", "\\(": "\\)", "\\[": "\\]" };
const MATH_SIGN = /[\\^_=<>{}]/;
const WORD = /\p{L}{2}/u;

const isSpace = (character) => character === undefined || /\s/.test(character);
const isWordCharacter = (character) => character !== undefined && /[\p{L}\p{N}$]/u.test(character);

/** Whether a text between two dollar signs begins with an amount of money, as in "$5 a month or 50$ a year". */
const isMoney = (content) => /^\d/.test(content) && WORD.test(content) && !MATH_SIGN.test(content);

const readOpening = (text, at) => {
  const two = text.slice(at, at + 2);
  if (two in PAIRS) return two;
  return text[at] === "$" ? "$" : null;
};

/** The content of the formula that begins at `at`, or null. */
function readFormula(source, at, opening) {
  const text = source.slice(at, at + INLINE_LIMIT);
  let end = text.indexOf(PAIRS[opening]);
  while (end > 0 && text[end - 1] === "\\") end = text.indexOf(PAIRS[opening], end + 1); // \$ is a dollar sign in a formula
  if (end <= 0 || (opening === "$" && (isSpace(text[end - 1]) || isWordCharacter(source[at + end + 1])))) return null;
  return text.slice(0, end);
}

function parseInlineMath(state, isSilent) {
  const { src, pos } = state;
  const opening = readOpening(src, pos);
  if (!opening) return false;
  const start = pos + opening.length;
  if (opening === "$" && (isSpace(src[start]) || isWordCharacter(src[pos - 1]))) return false;
  const content = readFormula(src, start, opening);
  if (!content?.trim() || (opening === "$" && isMoney(content))) return false;
  if (!isSilent) {
    const token = state.push("math_inline", "", 0);
    token.content = content;
    token.markup = opening;
  }
  state.pos = start + content.length + opening.length;
  return true;
}

/** A formula that begins and ends with its line. */
function parseBlockMath(state, startLine, endLine, isSilent) {
  const readLine = (line) => state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
  const first = readLine(startLine);
  const opening = first.slice(0, 2);
  if ((opening !== "$$" && opening !== "\\[") || state.sCount[startLine] - state.blkIndent >= 4) return false;
  const closing = PAIRS[opening];
  const lines = [];
  let size = 0;
  for (let line = startLine; line < endLine && lines.length < BLOCK_LINES && size < BLOCK_LIMIT; line++) {
    if (line > startLine && state.sCount[line] < state.blkIndent) return false;
    const text = line === startLine ? first.slice(2) : readLine(line);
    const end = text.indexOf(closing);
    if (end >= 0) {
      if (text.slice(end + 2).trim()) return false;
      lines.push(text.slice(0, end));
      return isSilent || pushBlockMath(state, startLine, line + 1, lines.join("\n"), opening);
    }
    lines.push(text);
    size += text.length;
  }
  return false;
}

function pushBlockMath(state, startLine, nextLine, content, opening) {
  if (!content.trim()) return false;
  const token = state.push("math_block", "", 0);
  Object.assign(token, { content, markup: opening, map: [startLine, nextLine], block: true });
  state.line = nextLine;
  return true;
}

/** A plugin of the parser. */
export function math(parser) {
  parser.inline.ruler.before("escape", "math", parseInlineMath);
  parser.block.ruler.before("blockquote", "math", parseBlockMath, { alt: ["paragraph", "reference", "blockquote", "list"] });
}

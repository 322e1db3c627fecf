// Text of models where people decide by it: characters that are invisible, or that change the order of others, are shown by number.
import { html } from "./lib.js";

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800\u{13441}\u{13442}\u{16fe4}\u{1d159}]|(?! )\p{Zs}/gu; // the last five are blank
const JOINERS = new Set(["\u200c", "\u200d", "\ufe0f"]);
const JOINED = /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f|\p{Script=Arabic})$/u; // words and emoji that need joiners
const NAMES = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };
const MARKS_LIMIT = 500;

const formatHidden = (character) => NAMES[character] ?? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** The positions of hidden characters. Line breaks and tabs count as hidden in a text of one line only. */
function* findHidden(text, isBlock) {
  for (const { 0: character, index } of text.matchAll(HIDDEN)) {
    if (isBlock && (character === "\n" || character === "\t")) continue;
    if (JOINERS.has(character) && JOINED.test(text.slice(Math.max(0, index - 2), index))) continue;
    yield [index, character];
  }
}

/** Render text literally. The first hidden characters are marked; in a text full of them, the others are only spelled out. */
export function VisibleText({ text, isBlock }) {
  const parts = [];
  let at = 0;
  for (const [index, character] of findHidden(text, isBlock)) {
    parts.push(text.slice(at, index));
    const name = formatHidden(character);
    parts.push(parts.length < MARKS_LIMIT ? html`<mark class="hidden-character">${name}</mark>` : `⟨${name}⟩`);
    at = index + character.length;
  }
  return [...parts, text.slice(at)];
}

/** The same as one string, where there is no room for marks. */
export function spellOut(text, isBlock = false) {
  let out = "";
  let at = 0;
  for (const [index, character] of findHidden(text, isBlock)) {
    out += `${text.slice(at, index)}⟨${formatHidden(character)}⟩`;
    at = index + character.length;
  }
  return out + text.slice(at);
}

/** JSON for editing, in which every hidden character is an escape. */
export const formatEditable = (value) =>
  JSON.stringify(value, null, 2).replace(HIDDEN, (character) =>
    character === "\n"
      ? character
      : Array.from({ length: character.length }, (_, n) => `\\u${character.charCodeAt(n).toString(16).padStart(4, "0")}`).join(""),
  );

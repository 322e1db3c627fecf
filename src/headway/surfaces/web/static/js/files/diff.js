// The changes between two versions: side by side where there is room, otherwise one below the other.
import { get } from "../core/api.js";
import { html, useEffect, useState } from "../core/lib.js";
import { Empty } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { Skeleton } from "./words.js";

const WIDE = matchMedia("(min-width: 1100px)");
const OBSTACLES = {
  binary: "At least one of these versions is not text, so its lines cannot be compared.",
  not_kept: "The content of at least one of these versions was not kept.",
  too_large: "These versions are too large to be compared here. Download them.",
};
const MARKS = { same: " ", added: "+", deleted: "−" };

function useWide() {
  const [isWide, setIsWide] = useState(WIDE.matches);
  useEffect(() => {
    const onChange = () => setIsWide(WIDE.matches);
    WIDE.addEventListener("change", onChange);
    return () => WIDE.removeEventListener("change", onChange);
  }, []);
  return isWide;
}

/** The lines of a hunk with their numbers. */
function* numberLines({ old_start: oldStart, new_start: newStart, lines }) {
  let oldNumber = oldStart;
  let newNumber = newStart;
  for (const line of lines) {
    yield { ...line, old: line.kind === "added" ? null : oldNumber++, new: line.kind === "deleted" ? null : newNumber++ };
  }
}

/** Lines side by side: the deleted ones beside the ones that took their place. */
function pairLines(lines) {
  const rows = [];
  let deleted = [];
  let added = [];
  const flush = () => {
    for (let n = 0; n < Math.max(deleted.length, added.length); n++) rows.push([deleted[n] ?? null, added[n] ?? null]);
    deleted = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "deleted") deleted.push(line);
    else if (line.kind === "added") added.push(line);
    else {
      flush();
      rows.push([line, line]);
    }
  }
  flush();
  return rows;
}

const Text = ({ line }) => html`${line.kind !== "same" && html`<span class="sr-only">${line.kind}: </span>`}<${VisibleText}
    text=${line.text}
    isBlock
  />${!line.has_newline && html`<span class="faint"> (no newline at the end)</span>`}`;

const Side = ({ line, number }) =>
  line
    ? html`<td class="diff-number num">${number}</td><td class="diff-text ${line.kind}"><${Text} line=${line} /></td>`
    : html`<td class="diff-number"></td><td class="diff-text nothing"></td>`;

const PairRow = ({ pair: [before, after] }) => html`<tr>
  <${Side} line=${before} number=${before?.old} /><${Side} line=${after} number=${after?.new} />
</tr>`;

const LineRow = ({ line }) => html`<tr>
  <td class="diff-number num">${line.old}</td>
  <td class="diff-number num">${line.new}</td>
  <td class="diff-text ${line.kind}">
    <span class="diff-mark" aria-hidden="true">${MARKS[line.kind]}</span><${Text} line=${line} />
  </td>
</tr>`;

function Hunk({ hunk, isWide }) {
  const lines = [...numberLines(hunk)];
  const place = `@@ −${hunk.old_start},${hunk.old_lines} +${hunk.new_start},${hunk.new_lines} @@`;
  return html`<tbody>
    <tr class="diff-place"><th colspan=${isWide ? 4 : 3} scope="rowgroup">${place}</th></tr>
    ${
      isWide
        ? pairLines(lines).map((pair, n) => html`<${PairRow} key=${n} pair=${pair} />`)
        : lines.map((line, n) => html`<${LineRow} key=${n} line=${line} />`)
    }
  </tbody>`;
}

function Table({ diff, from, to }) {
  const isWide = useWide();
  const caption = `Changes from ${from ? `version ${from}` : "no file"} to version ${to}`;
  return html`<div class="diff-scroll" tabindex="0" role="group" aria-label=${caption}>
    <table class="diff ${isWide ? "wide" : "unified"}">
      <caption class="sr-only">${caption}</caption>
      <colgroup>
        <col class="diff-number-column" />
        <col class=${isWide ? null : "diff-number-column"} />
        <col class=${isWide ? "diff-number-column" : null} />
        ${isWide && html`<col />`}
      </colgroup>
      ${diff.hunks.map((hunk, n) => html`<${Hunk} key=${n} hunk=${hunk} isWide=${isWide} />`)}
    </table>
  </div>`;
}

function Compared({ diff, from, to }) {
  if (diff.is_equal) return html`<${Empty}>The content of both versions is the same.<//>`;
  if (diff.obstacle) return html`<${Empty}>${OBSTACLES[diff.obstacle]}<//>`;
  return html`<p class="file-note" role="status">
      <span class="diff-added num">+${diff.added.toLocaleString()}</span>${" "}
      <span class="diff-deleted num">−${diff.deleted.toLocaleString()}</span><span class="faint"> lines</span>
    </p>
    <${Table} diff=${diff} from=${from} to=${to} />
    ${
      diff.is_cut &&
      html`<p class="file-note faint">There are more changes than can be shown. Download both versions to compare all.</p>`
    }`;
}

export function Diff({ id, from, to }) {
  const [diff, setDiff] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    get(`/v1/files/${id}/diff`, { from, to }).then(
      (loaded) => isCurrent && setDiff(loaded),
      (error) => isCurrent && setProblem(error.message),
    );
    return () => (isCurrent = false);
  }, []);
  if (problem) return html`<${Empty}><span class="problem" role="alert" dir="auto">${problem}</span><//>`;
  if (!diff) return html`<${Skeleton} label="Comparing…" />`;
  return html`<${Compared} diff=${diff} from=${from} to=${to} />`;
}

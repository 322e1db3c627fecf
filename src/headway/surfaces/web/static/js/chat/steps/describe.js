// A step in one line: what was done, with what result, and how long it took.

import { pluralize } from "../../core/ui.js";
import { spellOut } from "../../core/visible_text.js";
import { describePlanCalls, isPlanCall } from "./plan_sentences.js";

const LINE_LENGTH = 72;

function stringify(value) {
  if (typeof value === "string") return value;
  return Array.isArray(value) && value.every((part) => typeof part === "string") ? value.join(" ") : JSON.stringify(value);
}

/** The beginning of a value as one line. */
export function abbreviate(value, length = LINE_LENGTH) {
  const parts = value !== null && typeof value === "object" ? Object.values(value) : [value ?? ""];
  const line = spellOut(
    parts
      .map(stringify)
      .join(", ")
      .slice(0, 2 * length)
      .replace(/\s+/g, " ")
      .trim(),
  );
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** A call in a few words: what it was given. The ledger's tools take ids of todos; the titles are in their results. */
export function summarizeCall({ arguments: given, result, request }) {
  if (request?.kind === "question")
    return abbreviate(request.answer ? `${request.question} → ${request.answer}` : request.question);
  return abbreviate(typeof result?.title === "string" ? result.title : given);
}

/** The result of a call in a few words. */
export function summarizeResult({ result, state }) {
  if (result === undefined || result === "") return "";
  if (state === "failed") return abbreviate(result?.error ?? result);
  return typeof result?.title === "string" ? "" : abbreviate(result);
}

/** How the step goes or went. One failed call is not hidden by others that succeeded. */
export function getStepState({ run, calls }) {
  if (run) return run.status;
  const states = calls.map(({ state }) => state);
  return ["running", "failed", "canceled", "skipped"].find((state) => states.includes(state)) ?? "done";
}

export const hasFailed = (step) => ["failed", "dead"].includes(getStepState(step));

const countTools = (calls) => {
  const counts = new Map();
  for (const { tool } of calls) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts].map(([tool, count]) => (count > 1 ? `${tool} ×${count}` : tool)).join(", ");
};

/** The first line of a remark, without the marks of Markdown. */
const toPlain = (text) =>
  spellOut(
    text
      .trim()
      .split("\n", 1)[0]
      .replace(/[*`_#]/g, "")
      .trim(),
  );

/** Beside a remark: the tools, and the result if there is only one. */
const describeWork = (work, tools) => [tools, work.length === 1 && summarizeResult(work[0])].filter(Boolean).join(" → ");

/** {tool, text, result}: `tool` is there if the step is one call. */
export function describeStep({ remark, calls }) {
  const work = calls.filter((call) => !isPlanCall(call));
  const plan = calls.filter(isPlanCall);
  const sentences = plan.length ? describePlanCalls(plan).map((sentence) => spellOut(sentence)) : [];
  const failed = work.find(({ state }) => state === "failed");
  const tools = spellOut(countTools(work));
  if (remark) return { text: toPlain(remark.text), result: failed ? summarizeResult(failed) : describeWork(work, tools) };
  if (!work.length) return { text: sentences.join(" · ") };
  if (work.length === 1 && !sentences.length) {
    return { tool: spellOut(work[0].tool), text: summarizeCall(work[0]), result: summarizeResult(work[0]) };
  }
  const made = work.length === 1 ? tools : `${pluralize(work.length, "call")}: ${tools}`;
  return { text: [made, ...sentences].join(" · "), result: failed ? summarizeResult(failed) : "" };
}

/** The seconds between the first and the last event of some calls; undefined if they are not known. */
export function measure(calls, since = undefined) {
  const begin = Math.min(...[since, ...calls.map(({ at }) => at)].filter((at) => at !== undefined));
  const end = Math.max(...calls.map(({ endedAt }) => endedAt).filter((at) => at !== undefined));
  return Number.isFinite(begin) && Number.isFinite(end) ? Math.max(0, end - begin) : undefined;
}

/** A time span, from whole seconds on. */
export function formatSpan(seconds) {
  if (seconds === undefined || seconds < 1) return "";
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// Checks in words, and whether something that has checks is proven.
import { html } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";

// By the state of the proof: its icon, its label, and what it means.
const PROOFS = {
  unproven: ["unproven", "unproven", "It has checks, which run when it is completed."],
  proven: ["shield", "proven", "Its checks passed."],
  overridden: ["overridden", "overridden", "A person completed it without its checks."],
  broken: ["broken", "broken", "It was completed, but a check no longer passes."],
};
// By what a todo says of its completion.
const COMPLETIONS = {
  check: "Completed by its checks.",
  effect: "Completed by what was written.",
  agent: "Completed on the agent's word.",
  person: "Completed by a person.",
};
const AUTHORS = { agent: "an agent", person: "a person", admin: "an administrator", operator: "the operator" };
const HASH_LENGTH = 12;

/** The proof of something with checks; nothing if it has none. `compact`: the label is for screen readers only. */
export function ProofMark({ proof, isChecking, compact }) {
  if (!PROOFS[proof]) return null;
  const [icon, label, meaning] = PROOFS[proof];
  if (isChecking) {
    return html`<span class="proof status-current" title="Its checks are running." role="status">
      <${Icon} name="current" class="spin" /><span class=${compact ? "sr-only" : ""}>checking</span>
    </span>`;
  }
  return html`<span class="proof proof-${proof}" title="${label}: ${meaning}">
    <${Icon} name=${icon} /><span class=${compact ? "sr-only" : ""}>${label}</span>
  </span>`;
}

export const describeProof = (proof) => PROOFS[proof]?.[2] ?? "It has no checks.";

export const describeCompletion = (completedBy) => COMPLETIONS[completedBy];

const Code = ({ text }) =>
  html`<code dir="ltr"><${VisibleText} text=${typeof text === "string" ? text : JSON.stringify(text)} /></code>`;

const joinWords = (parts) => parts.map((part, n) => [n > 0 && (n === parts.length - 1 ? " and " : ", "), part]);

function describeFile({ path, exists = true, contains, sha256, schema, folder }) {
  const facts = [
    contains !== undefined && html`contains <${Code} text=${contains} />`,
    sha256 && html`has the SHA-256 hash <${Code} text=${`${sha256.slice(0, HASH_LENGTH)}…`} />`,
    schema !== undefined && "fits a JSON Schema",
  ].filter(Boolean);
  return html`The file <${Code} text=${path} />${folder && html` in <${Code} text=${folder} />`} ${
    !exists ? "does not exist" : facts.length ? joinWords(facts) : "exists"
  }`;
}

// By the kind of check: what must hold, in words.
const DESCRIPTIONS = {
  command: ({ run, exit = 0, expect, folder }) =>
    html`The command <${Code} text=${run} />${
      folder && html` in <${Code} text=${folder} />`
    } ends with exit code ${exit}${expect !== undefined && html` and prints <${Code} text=${expect} />`}`,
  file: describeFile,
  http: ({ url, status = 200, json }) =>
    html`<${Code} text=${url} /> answers with status ${status}${
      json &&
      html` and ${joinWords(
        Object.entries(json).map(([name, value]) => html`<${Code} text=${name} /> = <${Code} text=${value} />`),
      )}`
    }`,
  outcome: () => "The outcome fits a JSON Schema",
  tool: ({ name, arguments: given, expect }) =>
    html`The tool <${Code} text=${name} />${
      given && html` with <${Code} text=${given} />`
    } ${expect === undefined ? "succeeds" : html`returns <${Code} text=${expect} />`}`,
  judge: ({ rubric }) => html`A model agrees: <span dir="auto"><${VisibleText} text=${rubric} /></span>`,
};

/** A check in words: its name, if it has one, and what must hold. A tool's check has the tool's name. */
export function CheckWords({ check }) {
  const name = check.kind !== "tool" && check.name;
  return html`<span class="check-words">
    ${name && html`<strong dir="auto"><${VisibleText} text=${name} /></strong>: `}${DESCRIPTIONS[check.kind]?.(check)}${
      check.kind === "judge" && html` <span class="opinion">opinion</span>`
    }
  </span>`;
}

/** The same as plain text, for labels. */
export const nameCheck = (check) =>
  spellOut(String((check.kind !== "tool" && check.name) || check.run || check.path || check.url || check.name || check.kind));

/** `onRemove`: called with the place of a check; without it, the list cannot be changed. */
export const Checks = ({ checks, onRemove, isBusy }) => html`<ul class="checks">
  ${checks.map(
    (check, place) => html`<li key=${JSON.stringify(check)}>
      <${Icon} name="tool" />
      <span class="grow"><${CheckWords} check=${check} /> <span class="faint">by ${AUTHORS[check.by] ?? check.by}</span></span>
      ${
        onRemove &&
        html`<button
          type="button"
          class="btn ghost icon-only tiny"
          aria-label="Remove the check ${nameCheck(check)}"
          title="Remove"
          disabled=${isBusy}
          onClick=${() => onRemove(place)}
        ><${Icon} name="close" /></button>`
      }
    </li>`,
  )}
</ul>`;

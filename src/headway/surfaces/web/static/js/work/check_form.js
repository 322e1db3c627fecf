// The form that adds a check: its kind, then the fields of that kind. Anything without a field here can be written as JSON.
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Select } from "../core/ui.js";

// By kind: [name, label, placeholder, type]. The first field is required.
const FIELDS = {
  command: [
    ["run", "Command", "pytest -q"],
    ["exit", "Exit code", "0", "number"],
    ["expect", "Its output contains", "optional"],
  ],
  file: [
    ["path", "Path in the workspace", "report.md"],
    ["contains", "It contains", "optional: without it, the file must exist"],
    ["sha256", "Its SHA-256 hash", "optional: 64 hexadecimal digits"],
  ],
  http: [
    ["url", "Address", "of an allowed host"],
    ["status", "Status", "200", "number"],
    ["json", "Values in the answer, as JSON", '{"status": "ok"}', "json"],
  ],
  outcome: [["schema", "JSON Schema of the outcome", '{"type": "number", "maximum": 400}', "json"]],
  tool: [
    ["name", "Tool", "calculate"],
    ["arguments", "Arguments, as JSON", '{"expression": "6*7"}', "json"],
    ["expect", "Its result contains", "optional"],
  ],
  judge: [["rubric", "What the answer must fulfil", "The report names each supplier and its price."]],
};
const KINDS = [
  ["command", "Command"],
  ["file", "File"],
  ["http", "HTTP request"],
  ["outcome", "Outcome"],
  ["tool", "Tool"],
  ["judge", "Opinion of a model"],
  ["json", "As JSON"],
];
const HINTS = {
  command: "It runs in the sandbox. The todo is done if the command ends with this exit code.",
  judge: "A last resort: a model judges the outcome, and the receipt marks it as an opinion.",
  json: "Any check with all its fields, such as timeout_s or schema.",
};
const WHOLE_CHECK = [["check", "Check, as JSON", '{"kind": "command", "run": "make test", "timeout_s": 300}', "json"]];
const NAME = ["name", "Name of the check", "optional"];

/** The fields that the form shows for a kind. A tool's check is known by the tool's name. */
const listFields = (kind) => {
  if (kind === "json") return WHOLE_CHECK;
  return FIELDS[kind].some(([name]) => name === "name") ? FIELDS[kind] : [...FIELDS[kind], NAME];
};

function readValue([name, label, , type], text) {
  if (type === "number") return Number(text);
  if (type !== "json") return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SyntaxError(`${label}: this is not valid JSON (${name}): ${error.message}`);
  }
}

/** The check that the form describes. Raises SyntaxError if a field is not valid JSON. */
function readCheck(kind, form) {
  const check = { kind };
  for (const field of listFields(kind)) {
    const text = form.elements[field[0]].value.trim();
    if (text) check[field[0]] = readValue(field, text);
  }
  return kind === "json" ? check.check : check;
}

const Field = ({ field: [name, label, placeholder, type], isRequired }) => html`<label class="field">
  ${label}
  ${
    type === "json"
      ? html`<textarea
          name=${name}
          class="json"
          rows="3"
          dir="ltr"
          spellcheck="false"
          placeholder=${placeholder}
          required=${isRequired}
        />`
      : html`<input
          name=${name}
          type=${type ?? "text"}
          min=${type && 0}
          dir=${type ? null : "auto"}
          autocomplete="off"
          placeholder=${placeholder}
          required=${isRequired}
        />`
  }
</label>`;

/** `onAdd`: stores a check; it raises an error with a message for the user if the server refuses it. */
export function CheckForm({ onAdd, onClose }) {
  const form = useRef();
  const [kind, setKind] = useState("command");
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    form.current.scrollIntoView({ block: "nearest" });
    form.current.querySelector("select").focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setProblem("");
    setIsBusy(true);
    try {
      await onAdd(readCheck(kind, form.current));
      onClose();
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // it closes the form, and not the dialog around it
    event.stopPropagation();
    onClose();
  };
  return html`<form ref=${form} class="check-form" aria-label="Add a check" onSubmit=${submit} onKeyDown=${onKeyDown}>
    <${Select} label="Kind of check" value=${kind} options=${KINDS} onChoose=${setKind} />
    ${HINTS[kind] && html`<p class="hint">${HINTS[kind]}</p>`}
    <div class="check-fields" key=${kind}>
      ${listFields(kind).map((field, n) => html`<${Field} key=${field[0]} field=${field} isRequired=${n === 0} />`)}
    </div>
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    <div class="actions">
      <button class="btn primary small" disabled=${isBusy}>Add the check</button>
      <button type="button" class="btn ghost small" onClick=${onClose}>Cancel</button>
    </div>
  </form>`;
}

// The fields of a todo that say how urgent it is and what it belongs to: as marks on a card, and as fields that change them.
import { attempt } from "../core/dialogs.js";
import { html, useRef } from "../core/lib.js";
import { capitalize, Icon, now, Select } from "../core/ui.js";
import { isEnded } from "./statuses.js";
import { changeTodo } from "./todo_changes.js";

export const PRIORITIES = ["urgent", "high", "normal", "low"];
export const LABEL_LENGTH = 50;
const USUAL = "normal";
const DAY_S = 86_400;

export const isOverdue = ({ due, status }) => due != null && due < now.value && !isEnded(status);

/** A day if the time is the end of one, in UTC; otherwise the local time. */
function formatDue(due) {
  const date = new Date(due * 1000);
  const day = { day: "numeric", month: "short", ...(date.getUTCFullYear() !== new Date().getUTCFullYear() && { year: "numeric" }) };
  if (due % DAY_S === DAY_S - 1) return date.toLocaleDateString(undefined, { ...day, timeZone: "UTC" });
  return date.toLocaleString(undefined, { ...day, hour: "2-digit", minute: "2-digit" });
}

/** Nothing for a todo that uses none of the fields. */
export function FieldMarks({ todo }) {
  const { priority = USUAL, due = null, labels = [] } = todo;
  const isLate = isOverdue(todo);
  return html`${priority !== USUAL && html`<span class="priority ${priority}">${priority}</span>`}
    ${
      due !== null &&
      html`<span class="due ${isLate ? "late" : ""}">
        <${Icon} name="clock" /><span class="words">${isLate ? "overdue " : "due "}</span>${formatDue(due)}
      </span>`
    }
    ${labels.map((label) => html`<span key=${label} class="label truncate" dir="auto">${label}</span>`)}`;
}

function Due({ todo, change }) {
  const day = todo.due == null ? "" : new Date(todo.due * 1000).toISOString().slice(0, 10);
  return html`<label class="meta-field">
    <span class=${isOverdue(todo) ? "due late" : "faint"}>${isOverdue(todo) ? "Overdue" : "Due"}</span>
    <input
      type="date"
      aria-label="Due"
      value=${day}
      title=${todo.due == null ? "No date" : formatDue(todo.due)}
      onChange=${(event) => change({ due: event.currentTarget.value || null })}
    />
  </label>`;
}

function Labels({ labels, change }) {
  const field = useRef();
  const add = (event) => {
    event.preventDefault();
    const label = field.current.value.trim();
    field.current.value = "";
    if (label && !labels.includes(label)) change({ labels: [...labels, label] });
  };
  return html`<span class="meta-field">
    ${labels.map(
      (label) => html`<span key=${label} class="label" dir="auto">
        ${label}
        <button
          class="btn ghost icon-only tiny"
          aria-label="Remove the label ${label}"
          title="Remove"
          onClick=${() => change({ labels: labels.filter((other) => other !== label) })}
        ><${Icon} name="close" /></button>
      </span>`,
    )}
    <form onSubmit=${add}>
      <input ref=${field} aria-label="Add a label" placeholder="Add a label" maxlength=${LABEL_LENGTH} autocomplete="off" />
    </form>
  </span>`;
}

/** The fields of an open sheet. */
export function FieldEditors({ todo }) {
  const change = (fields) => attempt(() => changeTodo(todo.id, fields));
  return html`<div class="todo-meta" role="group" aria-label="Urgency and labels">
    <${Select}
      label="Priority"
      value=${todo.priority ?? USUAL}
      options=${PRIORITIES.map((name) => [name, name === USUAL ? "Normal priority" : capitalize(name)])}
      onChoose=${(priority) => change({ priority })}
    />
    <${Due} todo=${todo} change=${change} />
    <${Labels} labels=${todo.labels ?? []} change=${change} />
  </div>`;
}

// Completing a todo, its checks, and completing it without them.
import { patch } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { useFocusBack } from "../core/focus.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { CheckForm } from "../work/check_form.js";
import { Checks } from "../work/proof.js";
import { Output } from "../work/receipts.js";
import { isEnded } from "../work/statuses.js";
import { changeTodo, verifyTodo } from "../work/todo_changes.js";
import { refusal } from "./address.js";

const REASON_LENGTH = 1_000;
const OUTCOME_LENGTH = 20_000;
const JUDGED_KINDS = ["outcome", "judge"]; // they look at the outcome, which a person may enter

/** Complete a todo without its checks. The reason is kept for ever. */
function OverrideForm({ id, onClose }) {
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    const override = field.current.value.trim();
    if (override) attempt(() => changeTodo(id, { status: "completed", override }));
  };
  return html`<form class="override" onSubmit=${submit}>
    <label class="field">Why do the checks not count? The reason is kept with the todo.<input
      ref=${field}
      required
      pattern=".*\\S.*"
      maxlength=${REASON_LENGTH}
      dir="auto"
      autocomplete="off"
    /></label>
    <div class="actions">
      <button class="btn danger small">Complete anyway</button>
      <button type="button" class="btn ghost small" onClick=${onClose}>Back</button>
    </div>
  </form>`;
}

/** The checks that failed when a person tried to complete the todo. */
export function Failures({ id, failures }) {
  const [isOverriding, setIsOverriding] = useState(false);
  const button = useFocusBack(isOverriding);
  return html`<div class="failures" role="alert">
    <p><${StatusIcon} status="failed" decorative /><strong>Not completed: ${
      failures.length > 1 ? `${failures.length} checks failed` : "a check failed"
    }.</strong></p>
    ${failures.map(
      ({ check, detail }, n) => html`<div key=${n}>
        <p><code dir="auto"><${VisibleText} text=${check} /></code></p>
        <${Output} text=${detail} name="Output of ${check}" />
      </div>`,
    )}
    ${
      isOverriding
        ? html`<${OverrideForm} id=${id} onClose=${() => setIsOverriding(false)} />`
        : html`<button ref=${button} class="btn small" onClick=${() => setIsOverriding(true)}>Complete anyway…</button>`
    }
  </div>`;
}

export function Actions({ todo, isChecking }) {
  const field = useRef();
  const outcome = useRef("");
  const complete = () => {
    refusal.value = null;
    outcome.current = field.current?.value.trim() ?? "";
    attempt(() => changeTodo(todo.id, { status: "completed", ...(outcome.current && { outcome: outcome.current }) }));
  };
  const verify = () => attempt(() => verifyTodo(todo.id));
  const isOpen = !isEnded(todo.status);
  const hasChecks = todo.checks.length > 0;
  if (isChecking) {
    return html`<p class="checking" role="status">
      <${StatusIcon} status="running" decorative />
      ${hasChecks ? "The checks are running. You can close this; they continue." : "Completing"}
    </p>`;
  }
  return html`<div class="actions">
    ${
      isOpen &&
      todo.checks.some(({ kind }) => JUDGED_KINDS.includes(kind)) &&
      html`<input
        ref=${field}
        class="outcome"
        aria-label="Outcome"
        placeholder="Outcome, which a check looks at"
        maxlength=${OUTCOME_LENGTH}
        dir="auto"
        defaultValue=${outcome.current || todo.outcome}
      />`
    }
    ${isOpen && html`<button class="btn primary small" onClick=${complete}><${Icon} name="check" />Complete</button>`}
    ${
      hasChecks &&
      html`<button class="btn small" onClick=${verify}>
        <${Icon} name="replan" />${todo.status === "completed" ? "Verify again" : "Run the checks"}
      </button>`
    }
  </div>`;
}

export function TodoChecks({ todo, isChecking }) {
  const [isAdding, setIsAdding] = useState(false);
  const button = useFocusBack(isAdding);
  const save = (checks) => patch(`/v1/todos/${todo.id}`, { checks });
  const add = (check) => save([...todo.checks, check]);
  const remove = (place) => attempt(() => save(todo.checks.toSpliced(place, 1)));
  return html`<section aria-label="Checks">
    <h3>Checks</h3>
    ${
      todo.checks.length
        ? html`<${Checks} checks=${todo.checks} onRemove=${remove} isBusy=${isChecking} />`
        : html`<p class="hint">None. With checks, the todo is done only when they pass.</p>`
    }
    ${
      isAdding
        ? html`<${CheckForm} onAdd=${add} onClose=${() => setIsAdding(false)} />`
        : html`<button ref=${button} class="btn ghost small" onClick=${() => setIsAdding(true)}>
            <${Icon} name="plus" />Add a check
          </button>`
    }
  </section>`;
}

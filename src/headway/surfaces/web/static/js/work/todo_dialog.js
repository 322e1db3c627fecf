// One todo: what it is, its checks, whether it is proven, and what its checks found so far.
import { get, patch } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { useFocusBack } from "../core/focus.js";
import { html, signal, useEffect, useRef, useState } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";
import { Ago, Icon, Pill, StatusIcon } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { CheckForm } from "./check_form.js";
import { Checks, describeProof, ProofMark } from "./proof.js";
import { Output, Receipts } from "./receipts.js";
import { changeTodo, checkedIds, setDialogEvents, shownTodo, showTodo, verifyTodo } from "./todo_changes.js";

const REASON_LENGTH = 1_000;
const OUTCOME_LENGTH = 20_000;
const JUDGED_KINDS = ["outcome", "judge"]; // they look at the outcome, which a person may enter

const loaded = signal(null); // {todo, receipts, isGone}

async function fetchTodo() {
  const id = shownTodo.value?.id;
  if (!id) return null;
  const [{ todo }, { receipts }] = await Promise.all([get(`/v1/todos/${id}`), get(`/v1/todos/${id}/receipts`)]);
  return { todo, receipts };
}

function replaceTodo(fetched) {
  if (fetched && fetched.todo.id === shownTodo.value?.id) loaded.value = fetched;
}

function applyChange({ change, todo }) {
  if (loaded.value?.todo.id !== todo.id) return;
  // Long texts that did not change are not in the event.
  loaded.value = { ...loaded.value, todo: { ...loaded.value.todo, ...todo }, isGone: change === "deleted" };
}

const { load, onChange } = createLiveList(fetchTodo, replaceTodo, applyChange);
const reload = coalesce(load);

setDialogEvents({
  todo_changed: onChange,
  checks_ran: ({ todo_id }) => todo_id === shownTodo.value?.id && reload(),
});

const Fact = ({ name, children }) => children && html`<dt>${name}</dt><dd dir="auto">${children}</dd>`;

const About = ({ todo }) => html`<dl class="todo-facts">
  <${Fact} name="Description">${todo.description}<//>
  <${Fact} name="Done when">${todo.completion_criteria}<//>
  <${Fact} name="Outcome">${todo.outcome}<//>
  <${Fact} name="Completed">${todo.completed_at > 0 && html`<${Ago} at=${todo.completed_at} />`}<//>
</dl>`;

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

/** What failed when a person tried to complete the todo. */
function Failures({ id, failures }) {
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

function Actions({ todo, isChecking }) {
  const field = useRef();
  const outcome = useRef("");
  const complete = () => {
    shownTodo.value = { id: todo.id, failures: null };
    outcome.current = field.current?.value.trim() ?? "";
    attempt(() => changeTodo(todo.id, { status: "completed", ...(outcome.current && { outcome: outcome.current }) }));
  };
  const verify = () => attempt(() => verifyTodo(todo.id));
  const isOpen = todo.status === "pending" || todo.status === "in_progress";
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

function TodoChecks({ todo, isChecking }) {
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

function Content({ todo, receipts, isGone, failures }) {
  const isChecking = checkedIds.value.has(todo.id);
  if (isGone) return html`<p class="muted">This todo was deleted.</p>`;
  const hasFailed = failures && todo.status !== "completed" && !isChecking;
  return html`<div class="todo-meta">
      <${Pill} status=${todo.status} /><${ProofMark} proof=${todo.proof} isChecking=${isChecking} />
      ${todo.proof !== "none" && html`<span class="faint small">${describeProof(todo.proof)}</span>`}
    </div>
    <${About} todo=${todo} />
    ${hasFailed && html`<${Failures} key=${failures} id=${todo.id} failures=${failures} />`}
    <${Actions} todo=${todo} isChecking=${isChecking} />
    <${TodoChecks} key=${todo.id} todo=${todo} isChecking=${isChecking} />
    ${receipts.length > 0 && html`<section aria-label="Receipts"><h3>Receipts</h3><${Receipts} receipts=${receipts} /></section>`}`;
}

/** The todo that the address names: `?todo=12`. */
function findLinkedTodo() {
  const id = Number(new URLSearchParams(location.search).get("todo"));
  return Number.isSafeInteger(id) && id > 0 ? id : null;
}

/** Remove the todo from the address, so that a reload does not open it again. */
function unlinkTodo() {
  const address = new URL(location.href);
  if (!address.searchParams.has("todo")) return;
  address.searchParams.delete("todo");
  history.replaceState(history.state, "", address);
}

export function TodoDialog() {
  const dialog = useRef();
  const shown = shownTodo.value;
  useEffect(() => {
    if (!shown) return;
    if (loaded.value?.todo.id !== shown.id) loaded.value = null;
    if (!dialog.current.open) dialog.current.showModal();
    attempt(load);
  }, [shown]);
  useEffect(() => {
    const linked = findLinkedTodo();
    if (linked) showTodo(linked);
    return () => (shownTodo.value = null); // the page is left
  }, []);
  const close = () => dialog.current.close();
  const closeOutside = (event) => event.target === dialog.current && close();
  const onClose = () => {
    shownTodo.value = null;
    unlinkTodo();
  };
  const view = shown && loaded.value;
  return html`<dialog
    ref=${dialog}
    class="todo-dialog"
    aria-labelledby="todo-title"
    onClose=${onClose}
    onClick=${closeOutside}
  >
    <header>
      <h2 id="todo-title" class="grow" dir="auto">${view ? `#${view.todo.id} ${view.todo.subject}` : "Todo"}</h2>
      <button class="btn ghost icon-only small" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>
    </header>
    ${view && html`<div class="todo-body"><${Content} ...${view} failures=${shown.failures} /></div>`}
  </dialog>`;
}

// One todo beside the page that is open: everything about it, edited in place. On a phone it covers the page.
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useRef } from "../core/lib.js";
import { useItemTitle } from "../core/title.js";
import { Ago, Icon, loadStyles, Select, StatusIcon } from "../core/ui.js";
import { CopyButton } from "../markdown/copy_button.js";
import { describeCompletion, describeProof, ProofMark } from "../work/proof.js";
import { Receipts } from "../work/receipts.js";
import { listChoices } from "../work/statuses.js";
import { askToDelete, changeTodo, checkedIds } from "../work/todo_changes.js";
import { FieldEditors } from "../work/todo_fields.js";
import { Why } from "../work/why.js";
import { closeTodo, refusal, shownId } from "./address.js";
import { Comments } from "./comments.js";
import { Dependencies } from "./dependencies.js";
import { Subject, TextField } from "./fields.js";
import { Actions, Failures, TodoChecks } from "./proving.js";
import { load, view } from "./state.js";

await loadStyles("todo.css");

const NARROW = matchMedia("(max-width: 860px)");
const DEFAULT_AGENT = "index";

const Fact = ({ name, children }) => children && html`<div><dt>${name}</dt><dd dir="auto">${children}</dd></div>`;

const Facts = ({ todo }) => html`<dl class="todo-facts">
  <${Fact} name="In">${
    todo.conversation_id
      ? html`<a class="link" href="/c/${todo.conversation_id}">conversation ${todo.conversation_id}</a>`
      : "the tenant-wide list"
  }<//>
  <${Fact} name="Agent">${todo.agent_id !== DEFAULT_AGENT && todo.agent_id}<//>
  <${Fact} name="Created"><${Ago} at=${todo.created_at} /><//>
  <${Fact} name="Started">${todo.started_at > 0 && html`<${Ago} at=${todo.started_at} />`}<//>
  <${Fact} name=${todo.status === "canceled" ? "Canceled" : "Completed"}>${
    todo.completed_at > 0 && html`<${Ago} at=${todo.completed_at} />`
  }<//>
</dl>`;

function State({ todo, isChecking }) {
  const change = (status) => attempt(() => changeTodo(todo.id, { status }));
  const isCompletionShown = todo.completed_by && todo.proof !== "proven"; // the proof says it already
  return html`<div class="todo-meta">
    <span class="todo-status">
      <${StatusIcon} status=${todo.status} decorative />
      <${Select} label="Status" value=${todo.status} options=${listChoices(todo.status)} onChoose=${change} />
    </span>
    <${ProofMark} proof=${todo.proof} isChecking=${isChecking} />
    ${todo.proof !== "none" && html`<span class="faint small">${describeProof(todo.proof)}</span>`}
    ${isCompletionShown && html`<span class="faint small">${describeCompletion(todo.completed_by)}</span>`}
  </div>`;
}

function Content({ todo, receipts, neighbours }) {
  const isChecking = checkedIds.value.has(todo.id);
  const refused = refusal.value?.id === todo.id && todo.status !== "completed" && !isChecking && refusal.value;
  return html`<${State} todo=${todo} isChecking=${isChecking} />
    ${refused && html`<${Failures} key=${refused.failures} id=${todo.id} failures=${refused.failures} />`}
    <${Actions} todo=${todo} isChecking=${isChecking} />
    <${FieldEditors} todo=${todo} />
    <${TextField} todo=${todo} name="description" label="Description" />
    <${TextField} todo=${todo} name="completion_criteria" label="Done when" />
    <${TextField} todo=${todo} name="outcome" label="Outcome" clears />
    <${TextField} todo=${todo} name="agent_type" label="Kind of agent" limit="200" isShort clears />
    <${Facts} todo=${todo} />
    <${TodoChecks} todo=${todo} isChecking=${isChecking} />
    ${receipts.length > 0 && html`<section aria-label="Receipts"><h3>Receipts</h3><${Receipts} receipts=${receipts} /></section>`}
    <${Dependencies} todo=${todo} neighbours=${neighbours} />
    <${Comments} id=${todo.id} />
    <${Why} kind="todo" id=${todo.id} of=${todo.subject} label="History" />`;
}

const Skeleton = () => html`<div class="skeletons" aria-busy="true">
  <i class="skeleton w70"></i><i class="skeleton w88"></i><i class="skeleton w56"></i>
</div>`;

function Header({ id, known }) {
  const todo = known?.todo;
  return html`<header>
    <p class="todo-tools">
      <span class="num faint">#${id}</span>
      <span class="grow"></span>
      <${CopyButton} text=${`${location.origin}/todos/${id}`} label="Copy the link" />
      ${
        todo &&
        !todo.turn_id &&
        !known.isGone &&
        html`<button
          class="btn ghost icon-only small"
          aria-label="Delete the todo"
          title="Delete"
          onClick=${() => askToDelete(todo, closeTodo)}
        ><${Icon} name="trash" /></button>`
      }
      <button class="btn ghost icon-only small" aria-label="Close" title="Close (Esc)" onClick=${closeTodo}>
        <${Icon} name="close" />
      </button>
    </p>
    <div class="todo-heading">
      ${
        todo && !known.isGone
          ? html`<${Subject} key=${id} todo=${todo} />`
          : html`<h2 id="todo-title">${todo?.subject ?? "Todo"}</h2>`
      }
    </div>
  </header>`;
}

/** The focus goes to the sheet when it opens, and back to what opened it. */
function useSheet(dialog, id) {
  useEffect(() => {
    if (!id) return undefined;
    if (NARROW.matches) dialog.current.showModal();
    else dialog.current.show();
    dialog.current.focus({ preventScroll: true });
    dialog.current.querySelector(".todo-body").scrollTop = 0;
    return () => {
      dialog.current?.close();
      document.querySelector(`[data-opens="${id}"]`)?.focus({ preventScroll: true });
    };
  }, [id]);
  useEffect(() => {
    if (id) attempt(load);
  }, [id]);
  useEffect(() => {
    const onKeyDown = (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || !id || document.querySelector("dialog:modal, :popover-open")) return;
      event.preventDefault();
      closeTodo();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [id]);
}

export function TodoSheet() {
  const dialog = useRef();
  const id = shownId.value;
  const known = view.value;
  useSheet(dialog, id);
  useItemTitle(known?.todo ? `#${id} ${known.todo.subject}` : "");
  const onCancel = (event) => {
    event.preventDefault();
    closeTodo();
  };
  return html`<dialog ref=${dialog} class="todo-sheet" tabindex="-1" aria-labelledby="todo-title" onCancel=${onCancel}>
    ${id && html`<${Header} id=${id} known=${known} />`}
    <div class="todo-body">
      ${id && !known && html`<${Skeleton} />`}
      ${known?.isMissing && html`<p class="muted">There is no todo #${id}. It was deleted, or it belongs to another tenant.</p>`}
      ${known?.isGone && html`<p class="muted">This todo was deleted.</p>`}
      ${known?.todo && !known.isGone && html`<${Content} key=${id} ...${known} />`}
    </div>
  </dialog>`;
}

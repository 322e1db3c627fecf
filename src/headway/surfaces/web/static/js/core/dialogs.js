// A dialog that asks for confirmation, and short messages that disappear after a while.
import { ApiError } from "./api.js";
import { html, signal, useEffect, useRef } from "./lib.js";
import { Icon } from "./ui.js";

const question = signal(null); // {title, text, confirm, cancel, run, danger}
const toasts = signal([]);
const TOAST_MS = 8_000;
let lastId = 0;

export const ask = (options) => (question.value = options);

/** `action`: a button of the message, as {label, run}. */
export function showToast(text, kind = "info", action = null) {
  const toast = { id: ++lastId, text, kind, action };
  toasts.value = [...toasts.value.slice(-2), toast];
  setTimeout(() => dismiss(toast.id), TOAST_MS);
}
const dismiss = (id) => (toasts.value = toasts.value.filter((toast) => toast.id !== id));

/** Run an action and return its result. If the server refuses it, show why and return undefined. */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401) showToast(error.message, "bad"); // an ended session shows the sign-in form instead
    return undefined;
  }
}

/** A component that is loaded when it is needed first, and renders nothing until then. `isNeeded` says when. */
export function createLazy(load, isNeeded = () => true) {
  const component = signal(null);
  let loading = null;
  return (props) => {
    if (isNeeded() && !component.value && !loading) {
      loading = load()
        .then(
          (loaded) => (component.value = loaded),
          () => showToast("This part of the page could not be loaded. Try again.", "bad"),
        )
        .finally(() => (loading = null));
    }
    return component.value && html`<${component.value} ...${props} />`;
  };
}

export function ConfirmDialog() {
  const dialog = useRef();
  const shown = useRef(null);
  const current = question.value;
  useEffect(() => {
    if (!current) return;
    shown.current = current;
    if (!dialog.current.open) dialog.current.showModal();
  }, [current]);
  const tone = current?.danger === false ? "primary" : "danger";
  return html`<dialog
    ref=${dialog}
    class="question"
    aria-labelledby="question-title"
    aria-describedby="question-text"
    onClose=${() => {
      if (!dialog.current.open && question.value === shown.current) question.value = null; // the next one may be asked by now
    }}
  >
    <h2 id="question-title">${current?.title}</h2>
    <p id="question-text" dir="auto">${current?.text}</p>
    <form method="dialog" class="actions">
      <button class="btn" autofocus>${current?.cancel ?? "Leave it as is"}</button>
      <button class="btn ${tone}" onClick=${() => attempt(current.run)}>${current?.confirm}</button>
    </form>
  </dialog>`;
}

function ToastAction({ id, action }) {
  const run = () => {
    dismiss(id);
    action.run();
  };
  return html`<button class="btn small" onClick=${run}>${action.label}</button>`;
}

export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">
  ${toasts.value.map(
    ({ id, text, kind, action }) => html`<div key=${id} class="toast ${kind}">
      <${Icon} name=${kind === "info" ? "done" : "warn"} />
      <span dir="auto">${text}</span>
      ${action && html`<${ToastAction} id=${id} action=${action} />`}
      <button class="btn ghost icon-only small" aria-label="Dismiss" onClick=${() => dismiss(id)}><${Icon} name="close" /></button>
    </div>`,
  )}
</div>`;

// A question that has to be answered first, and short messages that go away by themselves.
import { Refusal } from "./api.js";
import { html, signal, useEffect, useRef } from "./lib.js";
import { Icon } from "./ui.js";

const question = signal(null); // {title, text, yes, run, danger}
const messages = signal([]);
const SHOWN_MS = 8_000;
let number = 0;

export const ask = (wanted) => (question.value = wanted);

export function tell(text, kind = "info") {
  const one = { id: ++number, text, kind };
  messages.value = [...messages.value.slice(-2), one];
  setTimeout(() => dismiss(one.id), SHOWN_MS);
}
const dismiss = (id) => (messages.value = messages.value.filter((one) => one.id !== id));

/** Do it; if it is refused, say why. Gives what came of it, or undefined. */
export async function attempt(action) {
  try {
    return await action();
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    if (refusal.status !== 401) tell(refusal.message, "bad"); // a lost session has a view of its own
    return undefined;
  }
}

export function Question() {
  const dialog = useRef();
  const asked = question.value;
  useEffect(() => {
    if (asked && !dialog.current.open) dialog.current.showModal();
  }, [asked]);
  return html`<dialog ref=${dialog} class="question" onClose=${() => (question.value = null)} aria-labelledby="question-title" aria-describedby="question-text">
    <h2 id="question-title">${asked?.title}</h2>
    <p id="question-text" dir="auto">${asked?.text}</p>
    <form method="dialog" class="acts">
      <button class="btn" autofocus>Keep it as it is</button>
      <button class="btn ${asked?.danger === false ? "primary" : "danger"}" onClick=${() => attempt(asked.run)}>${asked?.yes}</button>
    </form>
  </dialog>`;
}

export const Messages = () => html`<div class="toasts" role="status" aria-live="polite">
  ${messages.value.map(
    (one) => html`<div key=${one.id} class="toast ${one.kind}">
      <${Icon} n=${one.kind === "info" ? "done" : "warn"} />
      <span dir="auto">${one.text}</span>
      <button class="btn ghost icon small" aria-label="Dismiss" onClick=${() => dismiss(one.id)}><${Icon} n="close" /></button>
    </div>`,
  )}
</div>`;

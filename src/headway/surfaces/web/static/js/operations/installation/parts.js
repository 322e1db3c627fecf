// Pieces that the tabs about the installation share: their style sheet, the dialog that shows a secret once, and dates.
import { html, signal, useEffect, useRef } from "../../core/lib.js";
import { loadStyles } from "../../core/ui.js";
import { CopyButton } from "../../markdown/copy_button.js";

await loadStyles("installation.css");

const revealed = signal(null); // {title, text, secret}

/** Show a secret that the server does not tell again. It is forgotten when the dialog closes. */
export const reveal = (what) => (revealed.value = what);

export function SecretDialog() {
  const dialog = useRef();
  const current = revealed.value;
  useEffect(() => {
    if (current && !dialog.current.open) dialog.current.showModal();
  }, [current]);
  useEffect(() => () => (revealed.value = null), []);
  return html`<dialog
    ref=${dialog}
    aria-labelledby="secret-title"
    aria-describedby="secret-text"
    onCancel=${(event) => event.preventDefault()}
    onClose=${() => (revealed.value = null)}
  >
    <h2 id="secret-title">${current?.title}</h2>
    <p id="secret-text" dir="auto">${current?.text} It is shown only now: Headway stores no more than its hash.</p>
    <div class="secret">
      <code tabindex="0" role="textbox" aria-readonly="true" aria-label="The token">${current?.secret}</code>
      ${current && html`<${CopyButton} text=${current.secret} label="Copy the token" />`}
    </div>
    <form method="dialog" class="actions"><button class="btn primary">I have stored it</button></form>
  </dialog>`;
}

/** A dialog with a form. `send` gets the fields by name, and the dialog closes unless it returns false. */
export function FormDialog({ dialog, title, text, confirm, send, children }) {
  const submit = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const button = form.querySelector("button.primary");
    button.disabled = true;
    const isDone = await send(Object.fromEntries(new FormData(form)));
    button.disabled = false;
    if (isDone === false) return;
    form.reset();
    dialog.current.close();
  };
  return html`<dialog ref=${dialog} aria-label=${title}>
    <h2>${title}</h2>
    ${text && html`<p dir="auto">${text}</p>`}
    <form class="fields" onSubmit=${submit}>
      ${children}
      <div class="actions">
        <button class="btn" type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        <button class="btn primary">${confirm}</button>
      </div>
    </form>
  </dialog>`;
}

export const formatDate = (at) => new Date(at * 1000).toLocaleDateString(undefined, { dateStyle: "medium" });

const UNITS = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

export function formatBytes(count) {
  const [size, unit] = UNITS.find(([limit]) => count >= limit) ?? [1, "bytes"];
  return `${(count / size).toLocaleString(undefined, { maximumFractionDigits: size === 1 ? 0 : 1 })} ${unit}`;
}

export const MoreButton = ({ onClick }) =>
  html`<div class="more"><button class="btn small" onClick=${onClick}>Show more</button></div>`;

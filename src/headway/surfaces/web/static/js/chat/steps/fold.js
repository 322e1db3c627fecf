// Lines that open. Which ones are open is kept beside the elements, so that it survives when the log is drawn again.
import { html, signal } from "../../core/lib.js";
import { Icon } from "../../core/ui.js";

const choices = new Map(); // by the key of what opens: a signal with true, false or undefined (not chosen)

const findChoice = (key) => {
  if (!choices.has(key)) choices.set(key, signal(undefined));
  return choices.get(key);
};

/** The choice of the user. A component that reads it renders again when it changes. */
export const isOpen = (key) => findChoice(key).value;
export const setOpen = (key, open) => (findChoice(key).value = open);

/** `line`: what is always shown. `children`: a function that renders the rest, called while it is open. */
export function Fold({ id, line, children }) {
  const open = isOpen(id) === true;
  return html`<details open=${open} onToggle=${(event) => setOpen(id, event.currentTarget.open)}>
    <summary>${line}<${Icon} name="chev" class="chev" /></summary>
    ${open && html`<div class="tool-details">${children()}</div>`}
  </details>`;
}

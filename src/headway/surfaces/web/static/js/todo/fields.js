// Texts of a todo that are edited where they are shown.
import { attempt } from "../core/dialogs.js";
import { useFocusBack } from "../core/focus.js";
import { html, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { changeTodo } from "../work/todo_changes.js";

/** The field with its buttons. Ctrl Enter saves, in a field of one line also Enter; Escape leaves the text as it was. */
export function Editor({ label, value, latest, isShort, limit, isRequired, onSave, onClose }) {
  const field = useRef();
  const [isBusy, setIsBusy] = useState(false);
  useLayoutEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(field.current.value.length, field.current.value.length);
  }, []);
  const save = async (event) => {
    event?.preventDefault();
    const text = field.current.value.trim();
    if (isRequired && !text) return field.current.focus();
    if (text === latest) return onClose();
    setIsBusy(true);
    await attempt(async () => {
      await onSave(text);
      onClose();
    });
    setIsBusy(false);
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    const isEnd = event.key === "Enter" && (isShort || event.ctrlKey || event.metaKey);
    if (event.key !== "Escape" && !isEnd) return;
    event.preventDefault();
    event.stopPropagation();
    if (isEnd) save();
    else onClose();
  };
  return html`<form class="edit-field" onSubmit=${save}>
    <textarea
      ref=${field}
      aria-label=${label}
      dir="auto"
      rows=${isShort ? 1 : 3}
      maxlength=${limit}
      defaultValue=${value}
      onKeyDown=${onKeyDown}
    />
    ${latest !== value && html`<p class="problem" role="status">It was changed meanwhile. Saving replaces that change.</p>`}
    <div class="actions">
      <button class="btn primary small" disabled=${isBusy}>Save</button>
      <button type="button" class="btn ghost small" onClick=${onClose}>Cancel</button>
    </div>
  </form>`;
}

/** `name`: the field of the API. `clears`: whether an empty text is stored as null. */
function useEditing({ id, name, clears }) {
  const [before, setBefore] = useState(null); // the text when editing began; null: not editing
  const button = useFocusBack(before !== null);
  const onSave = (text) => changeTodo(id, { [name]: clears && !text ? null : text });
  return { before, setBefore, button, onSave };
}

/** The subject: the heading of the sheet. */
export function Subject({ todo }) {
  const { before, setBefore, button, onSave } = useEditing({ id: todo.id, name: "subject" });
  if (before !== null) {
    return html`<div class="grow">
      <h2 id="todo-title" class="sr-only">#${todo.id} ${todo.subject}</h2>
      <${Editor}
        label="Subject"
        value=${before}
        latest=${todo.subject}
        isShort
        isRequired
        limit="1000"
        onSave=${onSave}
        onClose=${() => setBefore(null)}
      />
    </div>`;
  }
  return html`<h2 id="todo-title" class="grow" dir="auto">${todo.subject}</h2>
    <button
      ref=${button}
      class="btn ghost icon-only small"
      aria-label="Edit the subject"
      title="Edit the subject"
      onClick=${() => setBefore(todo.subject)}
    ><${Icon} name="edit" /></button>`;
}

/** One text with its name. Without a text, a button adds one. */
export function TextField({ todo, name, label, limit = 20_000, isShort, clears }) {
  const value = todo[name] ?? "";
  const { before, setBefore, button, onSave } = useEditing({ id: todo.id, name, clears });
  const edit = () => setBefore(value);
  if (before === null && !value) {
    return html`<button ref=${button} class="btn ghost small add-field" onClick=${edit}>
      <${Icon} name="plus" />${label}
    </button>`;
  }
  return html`<section class="text-field" aria-label=${label}>
    <h3>
      ${label}
      ${
        before === null &&
        html`<button
          ref=${button}
          class="btn ghost icon-only tiny"
          aria-label="Edit: ${label}"
          title="Edit"
          onClick=${edit}
        ><${Icon} name="edit" /></button>`
      }
    </h3>
    ${
      before === null
        ? html`<p class="long-text" dir="auto">${value}</p>`
        : html`<${Editor}
            label=${label}
            value=${before}
            latest=${value}
            isShort=${isShort}
            limit=${limit}
            onSave=${onSave}
            onClose=${() => setBefore(null)}
          />`
    }
  </section>`;
}

// The todos that a todo waits for, and the ones that wait for it.
import { attempt } from "../core/dialogs.js";
import { html, useRef } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { changeTodo } from "../work/todo_changes.js";
import { formatAddress } from "./address.js";

function Neighbour({ todo, onRemove }) {
  return html`<li>
    <${StatusIcon} status=${todo.status} />
    <a class="link truncate grow" href=${formatAddress(todo.id)} dir="auto" title=${todo.subject}>
      <span class="num faint">#${todo.id}</span> ${todo.subject}
    </a>
    ${
      onRemove &&
      html`<button
        class="btn ghost icon-only tiny"
        aria-label="Do not wait for #${todo.id}"
        title="Do not wait for it"
        onClick=${onRemove}
      ><${Icon} name="close" /></button>`
    }
  </li>`;
}

/** A number, as people write it: 12 or #12. */
const parseNumber = (text) => Number(/^\s*#?(\d{1,15})\s*$/.exec(text)?.[1] ?? 0);

function AddDependency({ todo }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const id = parseNumber(field.current.value);
    if (!id) return field.current.focus();
    attempt(async () => {
      await changeTodo(todo.id, { depends_on: [...new Set([...todo.depends_on, id])] });
      if (field.current) field.current.value = "";
    });
  };
  return html`<form class="add-dependency" onSubmit=${submit}>
    <${Icon} name="plus" />
    <input
      ref=${field}
      aria-label="Wait for a todo, by its number"
      placeholder="Wait for #…"
      inputmode="numeric"
      pattern="\\s*#?\\d{1,15}\\s*"
      title="The number of a todo, such as #12"
      autocomplete="off"
    />
  </form>`;
}

export function Dependencies({ todo, neighbours }) {
  const { waits_for, needed_by, has_more } = neighbours;
  const removeOne = (id) => attempt(() => changeTodo(todo.id, { depends_on: todo.depends_on.filter((other) => other !== id) }));
  return html`<section aria-label="Dependencies">
    <h3>Waits for</h3>
    ${
      waits_for.length > 0 &&
      html`<ul class="neighbours">${waits_for.map(
        (one) => html`<${Neighbour} key=${one.id} todo=${one} onRemove=${() => removeOne(one.id)} />`,
      )}</ul>`
    }
    <${AddDependency} todo=${todo} />
    ${
      needed_by.length > 0 &&
      html`<h3>Needed by</h3>
        <ul class="neighbours">${needed_by.map((one) => html`<${Neighbour} key=${one.id} todo=${one} />`)}</ul>
        ${has_more && html`<p class="hint">More todos wait for it.</p>`}`
    }
  </section>`;
}

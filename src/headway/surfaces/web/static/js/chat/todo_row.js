// One item of the todo panel, and what people do with it.
import { get } from "../core/api.js";
import { attempt, showToast } from "../core/dialogs.js";
import { html, PureComponent, useEffect, useRef } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { showTodo } from "../todo/address.js";
import { ProofMark } from "../work/proof.js";
import { changeTodo } from "../work/todo_changes.js";

const SUBJECT_LIMIT = 1_000;

/** Move a pending todo one place up or down. Moving it down moves the next one up. */
async function moveTodo(turnId, id, isDown) {
  const pending = (await get("/v1/todos", { turn_id: turnId, status: "pending", limit: 500 })).todos;
  const at = pending.findIndex((todo) => todo.id === id);
  const [moved, target] = isDown ? [pending[at + 1], pending[at]] : [pending[at], pending[at - 1]];
  if (at >= 0 && moved && target) await changeTodo(moved.id, { position: target.position });
}

const restore = (id) => attempt(() => changeTodo(id, { status: "pending" }));

async function cancelTodo({ id, description }) {
  await changeTodo(id, { status: "canceled" });
  showToast(`Canceled “${description}”.`, "info", { label: "Undo", run: () => restore(id) });
}

// A function and not a component: long lists have many of them.
const renderButton = ({ action, todo, shortcut, icon, onClick, isRare, opens }) => html`<button
  class="btn ghost icon-only tiny ${isRare ? "rare" : ""}"
  aria-label="${action}: ${todo}"
  title=${shortcut ? `${action} (${shortcut})` : action}
  data-opens=${opens}
  onClick=${onClick}
><${Icon} name=${icon} /></button>`;

/** A field with the text of a todo. Enter and leaving it save, Escape leaves the text as it was. */
function EditField({ text, onEnd }) {
  const field = useRef();
  const isDone = useRef(false);
  useEffect(() => field.current.select(), []);
  const end = (value) => {
    if (isDone.current) return;
    isDone.current = true;
    onEnd(value);
  };
  const onKeyDown = (event) => {
    event.stopPropagation();
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    end(event.key === "Enter" ? field.current.value.trim() : "");
  };
  return html`<input
    ref=${field}
    class="rename grow"
    aria-label="Text of the todo"
    dir="auto"
    maxlength=${SUBJECT_LIMIT}
    defaultValue=${text}
    onKeyDown=${onKeyDown}
    onBlur=${(event) => end(event.currentTarget.value.trim())}
  />`;
}

export class TodoRow extends PureComponent {
  shouldComponentUpdate(next, state) {
    return state !== this.state || super.shouldComponentUpdate(next);
  }

  /** The list may have a shortened text, so the whole one is loaded first. */
  edit = () => attempt(async () => this.setState({ text: (await get(`/v1/todos/${this.props.item.id}`)).todo.subject }));

  save = (subject) => {
    const { text } = this.state;
    this.setState({ text: undefined });
    if (subject && subject !== text) attempt(() => changeTodo(this.props.item.id, { subject }));
  };

  renderActions({ item, turnId }) {
    const todo = item.description;
    const move = (isDown) => attempt(() => moveTodo(turnId, item.id, isDown));
    const details = renderButton({ action: "Details", todo, icon: "menu", opens: item.id, onClick: () => showTodo(item.id) });
    if (item.status === "canceled")
      return [renderButton({ action: "Restore", todo, icon: "replan", onClick: () => restore(item.id) }), details];
    if (item.status === "done") return details;
    const finish = () => attempt(() => changeTodo(item.id, { status: "completed" }));
    return [
      renderButton({ action: "Edit", todo, icon: "edit", onClick: this.edit, isRare: true }),
      renderButton({ action: "Move up", shortcut: "Alt ↑", todo, icon: "up", onClick: () => move(false), isRare: true }),
      renderButton({ action: "Move down", shortcut: "Alt ↓", todo, icon: "down", onClick: () => move(true), isRare: true }),
      renderButton({ action: "Cancel", todo, icon: "close", onClick: () => attempt(() => cancelTodo(item)), isRare: true }),
      renderButton({ action: "Finish", todo, icon: "check", onClick: finish }),
      details,
    ];
  }

  render({ item, turnId, proof, isChecking, isRunning }, { text }) {
    const onKeyDown = (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      attempt(() => moveTodo(turnId, item.id, event.key === "ArrowDown"));
    };
    const status = item.status === "current" && !isRunning ? "paused" : item.status;
    return html`<li class="row-${item.status}" data-id=${item.id} onKeyDown=${onKeyDown}>
      <${StatusIcon} status=${status} />
      ${
        text === undefined
          ? html`<span class="grow" dir="auto">${item.description}</span>
              <span class="row-actions">${this.renderActions(this.props)}</span>
              <${ProofMark} proof=${proof} isChecking=${isChecking} compact />`
          : html`<${EditField} text=${text} onEnd=${this.save} />`
      }
    </li>`;
  }
}

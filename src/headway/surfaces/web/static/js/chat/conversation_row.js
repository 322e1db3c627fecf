// One conversation of the list: its marks, and renaming and deleting it.
import { patch, post, remove } from "../core/api.js";
import { attempt, showToast } from "../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { navigate, path } from "../core/router.js";
import { session } from "../core/session.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";

const TITLE_LIMIT = 1_000;

/** Whether this session may change something. */
export const canChange = () => session.value?.scopes.includes("write") !== false;

const restore = (id) => attempt(() => post(`/v1/conversations/${id}/restore`));

/** Delete a conversation, and offer to undo that. */
async function deleteConversation({ id, title }) {
  await remove(`/v1/conversations/${id}`);
  if (path.value === `/c/${id}`) navigate("/");
  showToast(`Deleted “${title || `Conversation ${id}`}”.`, "info", { label: "Undo", run: () => restore(id) });
}

/** For the page of a conversation that was deleted, perhaps in another tab. */
export const DeletedNote = ({ id }) => html`<span class="pill status-failed" role="status">Deleted</span>
  <button class="btn small" onClick=${() => restore(id)}>Restore</button>`;

/** A field with the title. Enter and leaving it save, Escape leaves the title as it was. */
export function RenameField({ row, onEnd }) {
  const field = useRef();
  const isDone = useRef(false);
  useEffect(() => field.current.select(), []);
  const end = (saves) => {
    if (isDone.current) return;
    isDone.current = true;
    const title = field.current.value.trim();
    onEnd();
    if (saves && title && title !== row.title) attempt(() => patch(`/v1/conversations/${row.id}`, { title }));
  };
  const onKeyDown = (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    end(event.key === "Enter");
  };
  return html`<input
    ref=${field}
    class="rename"
    aria-label="Title"
    dir="auto"
    maxlength=${TITLE_LIMIT}
    defaultValue=${row.title}
    onKeyDown=${onKeyDown}
    onBlur=${() => end(true)}
  />`;
}

/** How many requests of its agents wait for a person, or else whether a turn runs. */
function StateMark({ id, state }) {
  const count = openRequests.value.filter(({ conversation_id }) => conversation_id === id).length;
  if (count) return html`<span class="count waiting">${count}<span class="sr-only"> waiting for you</span></span>`;
  if (state === "idle") return null;
  return html`<span class="state-mark" title=${state}>
    <${StatusIcon} status=${state} decorative /><span class="sr-only">, ${state}</span>
  </span>`;
}

export function ConversationRow({ row, isCurrent, onChoose }) {
  const [isEditing, setIsEditing] = useState(false);
  const link = useRef();
  const endEditing = () => {
    setIsEditing(false);
    requestAnimationFrame(() => link.current?.focus());
  };
  if (isEditing) return html`<li class="conversation-row"><${RenameField} row=${row} onEnd=${endEditing} /></li>`;
  const title = row.title || `Conversation ${row.id}`;
  const onKeyDown = (event) => {
    if (event.key !== "F2" || !canChange()) return;
    event.preventDefault();
    setIsEditing(true);
  };
  return html`<li class="conversation-row">
    <a
      ref=${link}
      class="nav-item"
      href="/c/${row.id}"
      aria-current=${isCurrent ? "true" : null}
      onClick=${onChoose}
      onKeyDown=${onKeyDown}
      title=${title}
    >
      <span class="grow">
        <span class="truncate" dir="auto">${title}</span>
        ${row.excerpt && html`<small class="truncate" dir="auto">${row.excerpt}</small>`}
      </span>
      <${StateMark} id=${row.id} state=${row.state} />
    </a>
    ${
      canChange() &&
      html`<span class="conversation-actions">
        <button
          class="btn ghost icon-only tiny"
          aria-label="Rename: ${title}"
          title="Rename (F2)"
          onClick=${() => setIsEditing(true)}
        ><${Icon} name="edit" /></button>
        <button
          class="btn ghost icon-only tiny"
          aria-label="Delete: ${title}"
          title="Delete"
          onClick=${() => attempt(() => deleteConversation(row))}
        ><${Icon} name="trash" /></button>
      </span>`
    }
  </li>`;
}

// One entry of the memory: its text, where it comes from, and a form to edit it in place.

import { conversations, formatTitle } from "../chat/conversations.js";
import { patch, remove } from "../core/api.js";
import { ask } from "../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Ago } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";

const TEXT_LENGTH = 10_000;
const KIND_LENGTH = 200;
const SHORT_LENGTH = 600;
const SHORT_LINES = 8;
const NAME_LENGTH = 60;

function ConversationLink({ id }) {
  const known = conversations.value.find((conversation) => conversation.id === id) ?? { id };
  return html`<a class="link" href="/c/${id}" dir="auto">${formatTitle(known)}</a>`;
}

/** Who wrote the entry, where, and who edited it, as far as that is known. */
function Origin({ entry }) {
  const { agent_id, person, conversation_id, goal_id } = entry.origin;
  const isElsewhere = conversation_id && conversation_id !== entry.conversation_id;
  return html`
    ${agent_id && html` · by ${spellOut(agent_id)}`}
    ${isElsewhere ? html` in <${ConversationLink} id=${conversation_id} />` : null}
    ${goal_id ? html` · <a class="link" href="/goals/${goal_id}">goal ${goal_id}</a>` : null}
    ${person && html` · ${entry.revision ? "edited by" : "by"} ${spellOut(person)}`}
  `;
}

const Facts = ({ entry }) => html`<div class="sub">
  <span class="num">#${entry.id}</span> · ${spellOut(entry.kind)} ·${" "}
  ${entry.conversation_id ? html`<${ConversationLink} id=${entry.conversation_id} />` : "tenant-wide"}
  <${Origin} entry=${entry} /> · <${Ago} at=${entry.updated_at} />
</div>`;

/** The text, literally. Of a long one, the beginning. */
function EntryText({ text, name }) {
  const [isOpen, setIsOpen] = useState(false);
  const lines = text.split("\n");
  const isLong = text.length > SHORT_LENGTH || lines.length > SHORT_LINES;
  const beginning = lines.slice(0, SHORT_LINES).join("\n").slice(0, SHORT_LENGTH);
  return html`<div class="memory-text" dir="auto">
      <${VisibleText} text=${isLong && !isOpen ? `${beginning}…` : text} isBlock />
    </div>
    ${
      isLong &&
      html`<button
        type="button"
        class="btn ghost small"
        aria-expanded=${String(isOpen)}
        aria-label="${isOpen ? "Show less of" : "Show all of"} ${name}"
        onClick=${() => setIsOpen(!isOpen)}
      >${isOpen ? "Show less" : "Show all"}</button>`
    }`;
}

/** The form keeps the revision that it began with: if the entry is edited elsewhere meanwhile, saving is refused. */
function EditForm({ entry, onSaved, onClose }) {
  const text = useRef();
  const kind = useRef();
  const begun = useRef(entry);
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => text.current.focus(), []);
  const save = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setIsBusy(true);
    try {
      const fields = { text: text.current.value, kind: kind.current.value, revision: begun.current.revision };
      onSaved((await patch(`/v1/memory/${entry.id}`, fields)).entry);
      onClose();
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") onClose();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
  };
  return html`<form class="grow memory-form" aria-label="Edit entry ${entry.id}" onSubmit=${save} onKeyDown=${onKeyDown}>
    <label class="field">Text<textarea
      ref=${text}
      dir="auto"
      rows="4"
      required
      maxlength=${TEXT_LENGTH}
      defaultValue=${begun.current.text}
    ></textarea></label>
    <label class="field">Kind<input
      ref=${kind}
      dir="auto"
      required
      maxlength=${KIND_LENGTH}
      autocomplete="off"
      defaultValue=${begun.current.kind}
    /></label>
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    <div class="actions">
      <button class="btn primary small" disabled=${isBusy} title="Save (Ctrl Enter)">Save</button>
      <button type="button" class="btn ghost small" onClick=${onClose} title="Cancel (Esc)">Cancel</button>
    </div>
  </form>`;
}

/** `onSaved`: called with the entry as the server stored it. The event that follows a deletion removes the row. */
export function MemoryEntry({ entry, onSaved }) {
  const row = useRef();
  const [isEditing, setIsEditing] = useState(false);
  const wasEditing = useRef(false);
  useEffect(() => {
    if (wasEditing.current && !isEditing) row.current.querySelector("[data-edit]")?.focus();
    wasEditing.current = isEditing;
  }, [isEditing]);
  const name = `entry ${entry.id}: ${spellOut(entry.text.slice(0, NAME_LENGTH))}`;
  const deleteEntry = async () => {
    const neighbour = row.current.nextElementSibling ?? row.current.previousElementSibling;
    await remove(`/v1/memory/${entry.id}`);
    neighbour?.querySelector("[data-edit]")?.focus();
  };
  const askToDelete = () =>
    ask({
      title: "Delete this entry?",
      text: `#${entry.id}: ${spellOut(entry.text.slice(0, SHORT_LENGTH), true)}`,
      confirm: "Delete it",
      run: deleteEntry,
    });
  if (isEditing) {
    return html`<li ref=${row}><${EditForm} entry=${entry} onSaved=${onSaved} onClose=${() => setIsEditing(false)} /></li>`;
  }
  return html`<li ref=${row}>
    <div class="grow">
      <${EntryText} text=${entry.text} name=${name} />
      <${Facts} entry=${entry} />
    </div>
    <div class="actions">
      <button class="btn small" data-edit aria-label="Edit ${name}" onClick=${() => setIsEditing(true)}>Edit</button>
      <button class="btn small danger" aria-label="Delete ${name}" onClick=${askToDelete}>Delete</button>
    </div>
  </li>`;
}

// The button beside the board's title that names the saved view on screen, and the list that it opens.
import { canChange } from "../chat/conversation_row.js";
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { applyFilters, formatBoard, isFiltered } from "./filters.js";
import { activeView, deleteView, formatView, isEdited, renameView, saveView, summarize, updateView, views } from "./saved_views.js";

const NAME_LENGTH = 200;
const MARGIN = 16; // between the list and the edge of the window
const GAP = 6;

/** A field with the name. Enter and leaving it save, Escape leaves the name as it was. */
function RenameField({ view, onEnd }) {
  const field = useRef();
  const isDone = useRef(false);
  useEffect(() => field.current.select(), []);
  const end = (saves) => {
    if (isDone.current) return;
    isDone.current = true;
    const name = field.current.value.trim();
    onEnd();
    if (saves && name && name !== view.name) attempt(() => renameView(view, name));
  };
  const onKeyDown = (event) => {
    event.stopPropagation();
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    end(event.key === "Enter");
  };
  return html`<input
    ref=${field}
    class="rename"
    aria-label="Name of the view"
    dir="auto"
    maxlength=${NAME_LENGTH}
    defaultValue=${view.name}
    onKeyDown=${onKeyDown}
    onBlur=${() => end(true)}
  />`;
}

const Entry = ({ link, href, name, summary, isCurrent, onChoose, onKeyDown }) => html`<a
  ref=${link}
  href=${href}
  aria-current=${isCurrent ? "true" : null}
  title=${name}
  onClick=${onChoose}
  onKeyDown=${onKeyDown}
>
  ${isCurrent && html`<${Icon} name="check" />`}
  <span class="truncate" dir="auto">${name}</span>
  ${summary && html`<small class="truncate" dir="auto">${summary}</small>`}
</a>`;

function ViewRow({ view, close, focusFirst }) {
  const [isRenaming, setIsRenaming] = useState(false);
  const link = useRef();
  const endRenaming = () => {
    setIsRenaming(false);
    requestAnimationFrame(() => link.current?.focus());
  };
  if (isRenaming) return html`<li><${RenameField} view=${view} onEnd=${endRenaming} /></li>`;
  const onKeyDown = (event) => {
    if (event.key !== "F2" || !canChange()) return;
    event.preventDefault();
    setIsRenaming(true);
  };
  const onDelete = () =>
    attempt(async () => {
      await deleteView(view);
      focusFirst();
    });
  return html`<li>
    <${Entry}
      link=${link}
      href=${formatBoard(formatView(view), view.id)}
      name=${view.name}
      summary=${summarize(view)}
      isCurrent=${activeView.value?.id === view.id}
      onChoose=${close}
      onKeyDown=${onKeyDown}
    />
    ${
      canChange() &&
      html`<button
        class="btn ghost icon-only tiny"
        aria-label="Rename: ${view.name}"
        title="Rename (F2)"
        onClick=${() => setIsRenaming(true)}
      ><${Icon} name="edit" /></button>
      <button class="btn ghost icon-only tiny" aria-label="Delete: ${view.name}" title="Delete" onClick=${onDelete}>
        <${Icon} name="trash" />
      </button>`
    }
  </li>`;
}

function NewView({ close }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const name = field.current.value.trim();
    if (!name) return field.current.focus();
    attempt(async () => {
      await saveView(name);
      close();
    });
  };
  return html`<form onSubmit=${submit}>
    <input
      ref=${field}
      aria-label="Name of the new view"
      placeholder="Name of a new view"
      dir="auto"
      maxlength=${NAME_LENGTH}
      autocomplete="off"
    />
    <button class="btn">Save</button>
  </form>`;
}

/** The ways to save: other filters of the view on screen, or a new view. */
function Saving({ close }) {
  const view = activeView.value;
  const update = () =>
    attempt(async () => {
      await updateView(view);
      close();
    });
  const reset = () => {
    applyFilters(formatView(view), { view: view.id });
    close();
  };
  if (view && !isEdited.value) return html`<p class="hint">Everybody in this tenant sees and can change these views.</p>`;
  if (!view && !isFiltered.value) return html`<p class="hint">Filter or search the board, then save that here under a name.</p>`;
  return html`${
    view &&
    html`<div class="actions">
        <button class="btn primary" onClick=${update}><span class="truncate" dir="auto">Update “${view.name}”</span></button>
        <button class="btn" onClick=${reset}>Reset</button>
      </div>`
  }
    ${isFiltered.value && html`<${NewView} close=${close} />`}`;
}

/** Put the list below the button. Set as properties: the content security policy forbids style attributes. */
function place(panel, button) {
  const { left, bottom } = button.getBoundingClientRect();
  const width = Math.min(360, innerWidth - 2 * MARGIN);
  panel.style.setProperty("left", `${Math.max(MARGIN, Math.min(left, innerWidth - width - MARGIN))}px`);
  panel.style.setProperty("top", `${bottom + GAP}px`);
}

/** Move the focus to the entry above or below. */
function moveFocus(panel, step) {
  const entries = [...panel.querySelectorAll("li > a")];
  const at = entries.indexOf(document.activeElement.closest("li")?.querySelector("a"));
  entries.at((at + step + entries.length) % entries.length)?.focus();
}

function useList() {
  const panel = useRef();
  const button = useRef();
  const [isOpen, setIsOpen] = useState(false);
  const close = () => {
    panel.current?.hidePopover();
    button.current?.focus(); // what had the focus may be gone
  };
  const focusFirst = () => panel.current?.querySelector("li > a")?.focus();
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !event.target.matches("input")) moveFocus(panel.current, step);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault(); // Escape would also close an open todo
  };
  const onBeforeToggle = ({ newState }) => newState === "open" && place(panel.current, button.current);
  const onToggle = ({ newState }) => {
    setIsOpen(newState === "open");
    if (newState === "open") (panel.current.querySelector("a[aria-current]") ?? panel.current.querySelector("a"))?.focus();
  };
  return { panel, button, isOpen, close, focusFirst, events: { onKeyDown, onBeforeToggle, onToggle } };
}

export function ViewsMenu() {
  const { panel, button, isOpen, close, focusFirst, events } = useList();
  const view = activeView.value;
  return html`<button ref=${button} class="btn views-button" popovertarget="views" aria-haspopup="dialog" aria-expanded=${isOpen}>
      <${Icon} name="filter" />
      ${view ? html`<span class="sr-only">View: </span><span class="truncate" dir="auto">${view.name}</span>` : "Views"}
      ${isEdited.value && html`<span class="edited">edited</span>`}
      <${Icon} name="chev" />
    </button>
    <div ref=${panel} class="views" id="views" popover="auto" role="dialog" aria-label="Saved views" ...${events}>
      ${views.value === null && html`<i class="skeleton"></i>`}
      ${
        views.value &&
        html`<ul>
          <li><${Entry} href=${formatBoard("")} name="All todos" isCurrent=${!view && !isFiltered.value} onChoose=${close} /></li>
          ${views.value.map((one) => html`<${ViewRow} key=${one.id} view=${one} close=${close} focusFirst=${focusFirst} />`)}
        </ul>`
      }
      ${views.value && canChange() && html`<footer><${Saving} close=${close} /></footer>`}
    </div>`;
}

// One column of the board. It scrolls on its own.
import { conversations, formatTitle } from "../chat/conversations.js";
import { post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useRef } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { shownId } from "../todo/address.js";
import { checkedIds } from "../work/todo_changes.js";
import { Card, SkeletonCard } from "./card.js";
import { columns, countRows, counts, loadMore, openIds } from "./columns.js";
import { filterText, getListId } from "./filters.js";
import { actions, dragged, dropPlace, focused, isLegalTarget, isOrdered, onDrop } from "./moving.js";
import { placeAt, VirtualList } from "./virtual_list.js";

export const ROW_HEIGHT = 92; // of a card and the gap below it, as in board.css
const SKELETONS = 4;

function AddTodo() {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const subject = field.current.value.trim();
    if (!subject) return;
    attempt(async () => {
      await post("/v1/todos", { subject, conversation_id: getListId() });
      field.current.value = "";
    });
  };
  return html`<form class="board-add" onSubmit=${submit}>
    <label>
      <${Icon} name="plus" />
      <input ref=${field} aria-label="Add a todo" placeholder="Add a todo" maxlength="1000" autocomplete="off" />
    </label>
  </form>`;
}

/** How many todos the column has: what the server counted, or what a search has found so far. */
function Count({ status }) {
  const { isKnown, list, next } = columns[status].value;
  if (!isKnown) return html`<i class="skeleton count-skeleton"></i>`;
  const counted = counts.value?.[status];
  const text = counted !== undefined ? counted.toLocaleString() : `${list.length}${next ? "+" : ""}`;
  return html`<span class="faint num">${text}</span>`;
}

/** The card that was moved with the keyboard, or that the focus moves to, gets it when it is rendered. */
function useMovedFocus(status, box) {
  const wanted = focused.value;
  const { list } = columns[status].value;
  const index = wanted?.moves ? list.findIndex(({ id }) => id === wanted.id) : -1;
  useEffect(() => {
    const { activeElement: active } = document;
    const isElsewhere = active !== document.body && !active.closest(".board [data-opens]"); // the user has gone on
    if (index < 0 || !box.current || isElsewhere) return;
    const { scrollTop, clientHeight } = box.current;
    const top = index * ROW_HEIGHT;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) box.current.scrollTop = top + ROW_HEIGHT - clientHeight;
    box.current.querySelector(`[data-opens="${wanted.id}"]`)?.focus({ preventScroll: true });
  });
}

function useDropTarget(status, box) {
  const onDragOver = (event) => {
    if (!dragged.value || !isLegalTarget(status)) return; // the browser shows that it cannot be dropped here
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
    const top = box.current.getBoundingClientRect().top - box.current.scrollTop;
    const index = Math.max(0, Math.min(Math.round((event.clientY - top) / ROW_HEIGHT), columns[status].value.list.length));
    const place = isOrdered(status) ? { status, index } : { status };
    if (dropPlace.value?.status !== status || dropPlace.value.index !== place.index) dropPlace.value = place;
  };
  const onDragLeave = (event) => {
    if (!event.currentTarget.contains(event.relatedTarget) && dropPlace.value?.status === status) dropPlace.value = null;
  };
  const drop = (event) => {
    event.preventDefault();
    onDrop(status);
  };
  return { onDragOver, onDragLeave, onDrop: drop };
}

const DropLine = ({ index }) => html`<div class="drop-line" ref=${placeAt(index * ROW_HEIGHT - 6)}></div>`;

function Cards({ status, title, box }) {
  const { list, next } = columns[status].value;
  const total = countRows(status);
  const titles = new Map(conversations.value.map((conversation) => [conversation.id, conversation.title]));
  const place = dropPlace.value?.status === status ? dropPlace.value : null;
  const find = (id) => (id === undefined ? -1 : list.findIndex((todo) => todo.id === id));
  const focusedAt = find(focused.value?.id);
  const renderRow = (index, top) => {
    const todo = list[index];
    if (!todo) return html`<${SkeletonCard} key=${`row ${index}`} top=${top} />`;
    return html`<${Card}
      key=${todo.id}
      todo=${todo}
      index=${index}
      total=${total}
      top=${top}
      conversation=${formatTitle({ id: todo.conversation_id, title: titles.get(todo.conversation_id) })}
      isChecking=${checkedIds.value.has(todo.id)}
      isOpen=${shownId.value === todo.id}
      canFocus=${focusedAt < 0 ? index === 0 : index === focusedAt}
      waitsFor=${todo.depends_on.filter((id) => openIds.value.has(id)).join(",")}
      actions=${actions}
    />`;
  };
  return html`<${VirtualList}
    list=${box}
    label=${title}
    count=${total}
    loaded=${list.length}
    rowHeight=${ROW_HEIGHT}
    pinned=${[focusedAt, find(dragged.value?.id)]}
    renderRow=${renderRow}
    onRange=${(last) => next && last >= list.length && attempt(() => loadMore(status, last))}
  >
    ${place?.index !== undefined && html`<${DropLine} index=${place.index} />`}
    ${!list.length && !next && html`<p class="hint nothing">Nothing here.</p>`}
  <//>`;
}

const Skeletons = () => html`<div class="column-list" aria-busy="true"><ul>
  ${Array.from({ length: SKELETONS }, (_, n) => html`<${SkeletonCard} key=${n} top=${n * ROW_HEIGHT} />`)}
</ul></div>`;

export function Column({ status, title }) {
  const box = useRef();
  const { isKnown } = columns[status].value;
  useMovedFocus(status, box);
  const target = useDropTarget(status, box);
  const isTarget = dropPlace.value?.status === status && !isOrdered(status);
  const isIllegal = dragged.value && dragged.value.status !== status && !isLegalTarget(status);
  return html`<section
    class="column ${isTarget ? "target" : ""} ${isIllegal ? "illegal" : ""}"
    aria-label=${title}
    ...${target}
  >
    <h2><${StatusIcon} status=${status} decorative />${title} <${Count} status=${status} /></h2>
    ${status === "pending" && html`<${AddTodo} />`}
    ${isKnown ? html`<${Cards} key=${filterText.value} status=${status} title=${title} box=${box} />` : html`<${Skeletons} />`}
  </section>`;
}

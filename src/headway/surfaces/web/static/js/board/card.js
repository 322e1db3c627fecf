// One card of the board.
import { html, PureComponent } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { ProofMark } from "../work/proof.js";
import { listChoices } from "../work/statuses.js";
import { FieldMarks } from "../work/todo_fields.js";
import { placeAt } from "./virtual_list.js";

const DEFAULT_AGENT = "index";
const SHOWN_DEPENDENCIES = 1;

const StatusMenu = ({ todo, onChoose }) => html`<label class="status-menu">
  <${Icon} name="menu" />
  <select
    aria-label="Status of ${todo.subject}"
    title="Change the status (Alt ← →)"
    tabindex="-1"
    value=${todo.status}
    onChange=${(event) => onChoose(event.currentTarget.value)}
  >
    ${listChoices(todo.status).map(([status, label]) => html`<option key=${status} value=${status}>${label}</option>`)}
  </select>
</label>`;

/** The open todos that a card waits for. */
function Waits({ ids }) {
  const shown = ids.slice(0, SHOWN_DEPENDENCIES).map((id) => `#${id}`);
  const more = ids.length - shown.length;
  return html`<span class="waits" title=${`Waits for ${ids.map((id) => `#${id}`).join(", ")}`}>
    <${Icon} name="clock" /><span class="words">waits for </span>${shown.join(", ")}${more > 0 && ` +${more}`}
  </span>`;
}

/** `waitsFor`: text, the ids of open dependencies; `actions`: the same object for all cards. */
export class Card extends PureComponent {
  render({ todo, index, total, top, conversation, isChecking, isOpen, canFocus, waitsFor, actions }) {
    const onKeyDown = (event) => actions.onKeyDown(event, todo, index);
    const onTitleKey = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      actions.open(todo);
    };
    return html`<li
      class="tile ${todo.status} ${isOpen ? "is-open" : ""}"
      data-id=${todo.id}
      ref=${placeAt(top)}
      aria-setsize=${total}
      aria-posinset=${index + 1}
      draggable="true"
      onKeyDown=${onKeyDown}
      onFocusIn=${() => actions.onFocus(todo)}
      onDragStart=${(event) => actions.onDragStart(event, todo)}
      onDragEnd=${actions.onDragEnd}
      onClick=${(event) => event.target === event.currentTarget && actions.open(todo)}
    >
      <div class="line">
        <${StatusIcon} status=${todo.status} decorative />
        <span
          class="clamp"
          role="button"
          tabindex=${canFocus ? 0 : -1}
          dir="auto"
          title=${todo.subject}
          data-opens=${todo.id}
          onClick=${() => actions.open(todo)}
          onKeyDown=${onTitleKey}
        >${todo.subject}</span>
        <${StatusMenu} todo=${todo} onChoose=${(status) => actions.changeStatus(todo, status)} />
      </div>
      <div class="sub">
        <span class="num">#${todo.id}</span>
        ${waitsFor && html`<${Waits} ids=${waitsFor.split(",")} />`}
        <${FieldMarks} todo=${todo} />
        <${ProofMark} proof=${todo.proof} isChecking=${isChecking} />
        ${
          todo.conversation_id
            ? html`<a class="truncate" href="/c/${todo.conversation_id}" dir="auto" tabindex="-1">${conversation}</a>`
            : html`<span class="truncate">tenant-wide</span>`
        }
        ${todo.agent_id !== DEFAULT_AGENT && html`<span class="truncate" dir="auto">${todo.agent_id}</span>`}
      </div>
    </li>`;
  }
}

export const SkeletonCard = ({ top }) => html`<li class="tile unknown" ref=${placeAt(top)} aria-hidden="true">
  <i class="skeleton"></i><i class="skeleton"></i>
</li>`;

// How a turn ended, unless it ended with an answer and a finished list, and how to go on from there.
import { post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, useState } from "../core/lib.js";
import { Icon, pluralize, StatusIcon } from "../core/ui.js";
import { Why } from "../work/why.js";
import { RetryButton } from "./retry_line.js";
import { NeedsLiveNote } from "./turn_actions.js";

const SHOWN_TODOS = 8;
const CONTINUE_REQUEST = "Continue with the open todos.";
const OUTCOMES = {
  filtered: "The model's content filter ended this answer. Ask in other words, or try another model.",
  limit: "The agent reached its limit before the list was done.",
  incomplete: "The agent stopped before the list was done.",
};

/**
 * Arrange what a message or a new turn says about the end of a turn: the runtime's closing words become the note at its end, the
 * part of a stopped answer comes before that note, and a turn that another one continues is not offered again.
 */
export function placeEnding(list, kind, data) {
  const isNote = (turnId) => (item) => item.key === `e${turnId}`;
  if (kind === "turn_started" && data.continues) {
    return list.map((item) => (isNote(data.continues)(item) ? { ...item, isContinued: true } : item));
  }
  if (kind !== "message" || !["closing", "stopped"].includes(data.kind)) return list;
  const message = list.find(({ key }) => key === `m${data.id}`);
  const others = list.filter((item) => item !== message);
  if (data.kind === "closing") {
    const note = { key: `e${data.turn_id}`, type: "end", turnId: data.turn_id, end: "incomplete", incomplete: [] };
    return [...others, { ...note, text: data.content }];
  }
  const at = others.findIndex(isNote(data.turn_id));
  return at < 0 ? list : others.toSpliced(at, 0, message);
}

function ContinueButton({ turnId, conversationId }) {
  const [isBusy, setIsBusy] = useState(false);
  const proceed = async () => {
    setIsBusy(true);
    const message = { content: CONTINUE_REQUEST, continues: turnId };
    await attempt(() => post(`/v1/conversations/${conversationId}/messages`, message));
    setIsBusy(false);
  };
  return html`<button class="btn small primary" disabled=${isBusy} onClick=${proceed}><${Icon} name="play" />Continue</button>`;
}

const OpenTodo = ({ title, status }) => html`<li>
  <${StatusIcon} status=${status === "in_progress" ? "paused" : status} decorative /><span dir="auto">${title}</span>
</li>`;

const OpenTodos = ({ todos }) => html`<p class="muted">${pluralize(todos.length, "todo is", "todos are")} still open:</p>
  <ul class="open-todos">
    ${todos.slice(0, SHOWN_TODOS).map((todo) => html`<${OpenTodo} key=${todo.id} ...${todo} />`)}
    ${todos.length > SHOWN_TODOS && html`<li class="muted">and ${todos.length - SHOWN_TODOS} more</li>`}
  </ul>`;

/** The rest of the plan, and the ways to go on with it. */
function Rest({ item, conversationId }) {
  const todos = item.incomplete ?? [];
  if (!todos.length || item.isContinued) return null;
  return html`<${OpenTodos} todos=${todos} />
    <div class="note-actions">
      <${ContinueButton} turnId=${item.turnId} conversationId=${conversationId} />
      <a class="btn small" href="/board?conversation=${conversationId}"><${Icon} name="board" />Open the board</a>
    </div>`;
}

const TurnWhy = ({ id }) => html`<${Why} kind="turn" id=${id} of="This turn" />`;

function FailureNote({ item }) {
  return html`<li class="turn-note bad">
    <${StatusIcon} status="failed" decorative />
    <div class="grow">
      <strong>The agent could not continue.</strong> <span dir="auto">${item.error}</span><${TurnWhy} id=${item.turnId} />
    </div>
    ${item.runId && html`<${RetryButton} runId=${item.runId}>Try again<//>`}
  </li>`;
}

export function TurnEnding({ item, conversationId }) {
  if (item.end === "failed") return html`<${FailureNote} item=${item} />`;
  if (item.end === "needs_live") return html`<${NeedsLiveNote} item=${item} />`;
  const isStopped = item.end === "canceled";
  // The closing words also list the todos: here they come from the event, so that their titles are plain text.
  const reason = item.text?.split("\n\n", 1)[0] ?? OUTCOMES[item.end] ?? OUTCOMES.incomplete;
  return html`<li class="turn-note ending ${isStopped ? "" : "warn"}">
    ${isStopped ? html`<${StatusIcon} status="canceled" decorative />` : html`<${Icon} name="warn" />`}
    <div class="grow">
      <p>${isStopped ? "Stopped. Work that was done is kept." : html`<span class="sr-only">Headway's note: </span>${reason}`}</p>
      <${Rest} item=${item} conversationId=${conversationId} />
      <${TurnWhy} id=${item.turnId} />
    </div>
  </li>`;
}

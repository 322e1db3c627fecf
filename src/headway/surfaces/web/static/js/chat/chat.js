// The chat: the conversation as it happens, with the todo panel above the input.

import { MessageFiles } from "../composer/attachments.js";
import { Composer } from "../composer/composer.js";
import { get } from "../core/api.js";
import { createLazy } from "../core/dialogs.js";
import { html, PureComponent, useMemo, useState } from "../core/lib.js";
import { Icon, StatusIcon } from "../core/ui.js";
import { useStream } from "../core/watch.js";
import { Markdown, StreamedMarkdown } from "../markdown/markdown.js";
import { RequestItem } from "../people/request_item.js";
import { shownId } from "../todo/address.js";
import { onTodoEvent } from "../work/todo_changes.js";
import { Why } from "../work/why.js";
import { ConversationTitle, Drawer, loadConversations, Sidebar } from "./conversations.js";
import { forkedTurn } from "./forks.js";
import { Log } from "./log.js";
import { RetryLine } from "./retry_line.js";
import { Changes } from "./steps/agent_step.js";
import { StepGroup } from "./steps/step_lines.js";
import { createTimeline } from "./timeline.js";
import { AnswerActions, Editable, ForkNote } from "./turn_actions.js";
import { TurnEnding } from "./turn_ending.js";
import { TurnUsage } from "./turn_usage.js";
import { ModelNote, Welcome } from "./welcome.js";
import { WrittenFiles } from "./written_files.js";

export const TITLE = "Chat";
export { Sidebar };

const TodoSheet = createLazy(
  async () => (await import("../todo/sheet.js")).TodoSheet,
  () => shownId.value,
);
const LoadedPanel = createLazy(async () => (await import("./todo_panel.js")).TodoPanel);
const ForkDialog = createLazy(
  async () => (await import("./fork_dialog.js")).ForkDialog,
  () => forkedTurn.value,
);

const refreshConversations = () => loadConversations().catch(() => {}); // the next event or snapshot loads them again

const TurnWhy = ({ id }) => html`<${Why} kind="turn" id=${id} of="This turn" />`;

function CompactionNote({ item }) {
  const [before, after] = [item.tokens_before, item.tokens_after].map((tokens) => tokens.toLocaleString());
  return html`<li class="turn-note">
    <${Icon} name="tool" />
    <span class="muted">Older messages were shortened to make room: from ${before} to ${after} tokens.</span>
  </li>`;
}

const RefusalNote = ({ item }) => html`<li class="turn-note warn">
  <${StatusIcon} status="paused" decorative />
  <div class="grow"><strong>Sent back to work.</strong> <span class="lines" dir="auto">${item.reason}</span></div>
</li>`;

const TurnChanges = ({ item }) => html`<li class="tool-line">
  <${Changes} changes=${item.changes} load=${async () => (await get(`/v1/turns/${item.turnId}`)).turn.changes} />
</li>`;

/** Whether the agent has read a message that was sent while it worked. */
const ReadMark = ({ isRead }) => html`<small class="read-mark">
  <${Icon} name=${isRead ? "check" : "clock"} />${isRead ? "Read by the agent" : "Not read yet"}
</small>`;

function UserMessage({ item, conversationId }) {
  const content = html`<span class="sr-only">You:</span>${item.text}${
    item.attachments.length > 0 && html`<${MessageFiles} turnId=${item.turnId} attachments=${item.attachments} />`
  }`;
  if (!item.isSteering) return html`<${Editable} item=${item} conversationId=${conversationId}>${content}<//>`;
  return html`<li class="msg user" dir="auto">${content}<${ReadMark} isRead=${item.isRead} /></li>`;
}

class TimelineItem extends PureComponent {
  render({ item, conversationId }) {
    if (item.request) return html`<${RequestItem} item=${item} />`;
    if (item.type === "steps") return html`<${StepGroup} group=${item} />`;
    if (item.type === "end") return html`<${TurnEnding} item=${item} conversationId=${conversationId} />`;
    if (item.type === "files") return html`<li><${WrittenFiles} ...${item} /></li>`;
    if (item.type === "usage") return html`<${TurnUsage} item=${item} />`;
    if (item.type === "changes") return html`<${TurnChanges} item=${item} />`;
    if (item.type === "compacted") return html`<${CompactionNote} item=${item} />`;
    if (item.type === "refusal") return html`<${RefusalNote} item=${item} />`;
    if (item.type === "fork") return html`<${ForkNote} item=${item} />`;
    if (item.type === "user") return html`<${UserMessage} item=${item} conversationId=${conversationId} />`;
    return html`<li class="msg ${item.type}">
      <span class="sr-only">Headway:</span><${Markdown} text=${item.text} />
      <${AnswerActions} item=${item} conversationId=${conversationId} />
    </li>`;
  }
}

const PauseNote = ({ id, reason }) => html`<li class="turn-note warn">
  <${StatusIcon} status="paused" decorative />
  <div class="grow"><strong>Paused.</strong> <span dir="auto">${reason}</span><${TurnWhy} id=${id} /></div>
  <a class="btn small" href="/operations">Open operations</a>
</li>`;

const WaitingNote = ({ count }) => html`<li class="thinking">
  <${StatusIcon} status="waiting" decorative /><span>Waits for you${count > 1 && `: ${count} requests`}</span>
</li>`;

/** The last line of the log while a turn runs. `waiting`: how many requests of its agents are open. */
function Activity({ timeline, waiting }) {
  const running = timeline.running.value;
  if (!running) return null;
  if (running.paused) return html`<${PauseNote} id=${running.id} reason=${running.paused} />`;
  if (running.delayed) return html`<${RetryLine} id=${running.id} runId=${running.runId} delayed=${running.delayed} />`;
  if (timeline.streamedText.value) {
    return html`<li class="msg assistant streaming" aria-busy="true">
      <span class="sr-only">Headway:</span><${StreamedMarkdown} text=${timeline.streamedText.value} />
    </li>`;
  }
  if (waiting) return html`<${WaitingNote} count=${waiting} />`;
  if (timeline.isCalling.value) return null; // the step in progress is marked
  return html`<li class="thinking">
    <span class="dots" aria-hidden="true"><i></i><i></i><i></i></span><span>${timeline.note.value || "Working"}</span>
  </li>`;
}

/** The todos of the turn, once it has some. */
const TodoPanel = ({ timeline }) => timeline.todos.value?.total > 0 && html`<${LoadedPanel} timeline=${timeline} />`;

/** The input and what belongs above it. */
const Dock = ({ children, note }) => html`<div class="dock"><div>${children}</div>${note}</div>`;

function Conversation({ id }) {
  const timeline = useMemo(() => createTimeline(id), [id]);
  const onTurnStarted = (data) => {
    timeline.on.turn_started(data);
    refreshConversations(); // a conversation gets its title with its first message
  };
  const onTodoChanged = (data) => {
    timeline.on.todo_changed(data);
    onTodoEvent.todo_changed(data);
  };
  useStream(`/v1/conversations/${id}/events`, () => ({
    exists: timeline.exists,
    load: async () => (await Promise.all([timeline.load(), loadConversations()]))[0],
    resumed: timeline.resumed,
    on: { ...timeline.on, ...onTodoEvent, todo_changed: onTodoChanged, turn_started: onTurnStarted, ping: refreshConversations },
  }));
  if (timeline.isMissing.value) {
    return html`<div class="log"><div class="welcome">
      <h1>Conversation not found</h1>
      <p class="muted">It may belong to another tenant. <a class="link" href="/">Start a new one</a>.</p>
    </div></div>`;
  }
  return html`<div class="log-frame"><${Log} timeline=${timeline} id=${id} Item=${TimelineItem} Activity=${Activity} /></div>
    <${Dock}><${TodoPanel} timeline=${timeline} /><${Composer} id=${id} running=${timeline.running.value} /><//>
    <${TodoSheet} /><${ForkDialog} />`;
}

function NewConversation() {
  const [suggestion, setSuggestion] = useState(null);
  useStream("/v1/events", () => ({ load: () => loadConversations(), on: { turn_started: refreshConversations } }));
  return html`<div class="log"><${Welcome} onSuggest=${(text) => setSuggestion({ text })} /></div>
    <${Dock} note=${html`<${ModelNote} />`}><${Composer} id=${null} suggestion=${suggestion} /><//>`;
}

export function Page({ id }) {
  return html`<main class="chat" id="main" tabindex="-1">
    <header class="chat-header">
      <${Drawer} id=${id} />
      <${ConversationTitle} id=${id} />
      <span class="grow"></span>
      ${id && html`<a class="btn ghost small" href="/board?conversation=${id}"><${Icon} name="board" />Todos</a>`}
    </header>
    ${id ? html`<${Conversation} id=${id} />` : html`<${NewConversation} />`}
  </main>`;
}

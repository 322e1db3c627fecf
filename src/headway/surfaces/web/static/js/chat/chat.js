// The chat: the conversation as it happens, with the todo panel above the input.

import { MessageFiles } from "../composer/attachments.js";
import { Composer } from "../composer/composer.js";
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, PureComponent, useEffect, useMemo, useRef, useState } from "../core/lib.js";
import { session } from "../core/session.js";
import { Icon, pluralize, StatusIcon } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { useStream } from "../core/watch.js";
import { Markdown, StreamedMarkdown } from "../markdown/markdown.js";
import { RequestItem, toItem } from "../people/request_item.js";
import { Changes } from "../work/changes.js";
import { onTodoEvent, TodoDialog } from "../work/todo_dialog.js";
import { Why } from "../work/why.js";
import { conversations, Drawer, getTitle, loadConversations, Sidebar } from "./conversations.js";
import { ForkDialog } from "./forks.js";
import { createTimeline } from "./timeline.js";
import { TodoPanel } from "./todo_panel.js";
import { AgentLine, ToolLine } from "./tool_line.js";
import { AnswerActions, Editable, ForkNote, NeedsLiveNote } from "./turn_actions.js";

export const TITLE = "Chat";
export { Sidebar };

const SUGGESTIONS = [
  "Calculate 12*7, then write the result to notes.txt, and then list the files",
  "Plan a small party: write the guest list, choose a menu, and buy the drinks",
  "What time is it in Tokyo?",
];

const OUTCOMES = {
  filtered: "The model's content filter ended this answer. Ask in other words, or try another model.",
  limit: "The agent reached its limit before the list was done.",
  incomplete: "The agent stopped before the list was done.",
};

const refreshConversations = () => loadConversations().catch(() => {}); // the next event or snapshot loads them again

const RetryButton = ({ runId, children }) => html`<button
  class="btn small"
  onClick=${() => attempt(() => post(`/v1/jobs/${runId}/retry`))}
><${Icon} name="replan" />${children}</button>`;

const TurnWhy = ({ id }) => html`<${Why} kind="turn" id=${id} of="This turn" />`;

/** How a turn ended, unless it ended with an answer and a finished list. */
function TurnEnd({ item }) {
  if (item.end === "canceled") {
    return html`<li class="turn-note">
      <${StatusIcon} status="canceled" decorative /><div class="grow">
        Stopped. Work that was done is kept.<${TurnWhy} id=${item.turnId} />
      </div>
    </li>`;
  }
  if (item.end === "failed") {
    return html`<li class="turn-note bad">
      <${StatusIcon} status="failed" decorative />
      <div class="grow">
        <strong>The agent could not continue.</strong> <span dir="auto">${item.error}</span><${TurnWhy} id=${item.turnId} />
      </div>
      ${item.runId && html`<${RetryButton} runId=${item.runId}>Try again<//>`}
    </li>`;
  }
  if (item.end === "needs_live") return html`<${NeedsLiveNote} item=${item} />`;
  const open = item.incomplete.length;
  return html`<li class="turn-note warn">
    <${Icon} name="warn" />
    <div class="grow">${OUTCOMES[item.end] ?? OUTCOMES.incomplete} ${
      open > 0 && html`<span class="muted">${pluralize(open, "todo is", "todos are")} still open.</span>`
    }<${TurnWhy} id=${item.turnId} /></div>
    ${open > 0 && html`<a class="btn small" href="/board">Open the board</a>`}
  </li>`;
}

function CompactionNote({ item }) {
  const [before, after] = [item.tokens_before, item.tokens_after].map((tokens) => tokens.toLocaleString());
  return html`<li class="turn-note">
    <${Icon} name="tool" />
    <span class="muted">Older messages were shortened to make room: from ${before} to ${after} tokens.</span>
  </li>`;
}

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
    if (item.type === "tool") return html`<${ToolLine} item=${item} />`;
    if (item.type === "agent") return html`<${AgentLine} run=${item.run} />`;
    if (item.type === "end") return html`<${TurnEnd} item=${item} />`;
    if (item.type === "changes") return html`<${TurnChanges} item=${item} />`;
    if (item.type === "compacted") return html`<${CompactionNote} item=${item} />`;
    if (item.type === "fork") return html`<${ForkNote} item=${item} />`;
    if (item.type === "user") return html`<${UserMessage} item=${item} conversationId=${conversationId} />`;
    return html`<li class="msg ${item.type}">
      <span class="sr-only">Headway:</span><${Markdown} text=${item.text} />
      <${AnswerActions} item=${item} conversationId=${conversationId} />
    </li>`;
  }
}

function DelayNote({ id, runId, delayed }) {
  const time = new Date(delayed.until * 1000).toLocaleTimeString();
  return html`<li class="turn-note warn">
    <${StatusIcon} status="paused" decorative />
    <div class="grow">
      <strong>Waiting to retry until ${time}.</strong> <span dir="auto">${delayed.reason}</span><${TurnWhy} id=${id} />
    </div>
    ${runId && html`<${RetryButton} runId=${runId}>Retry now<//>`}
  </li>`;
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
  if (running.delayed) return html`<${DelayNote} id=${running.id} runId=${running.runId} delayed=${running.delayed} />`;
  if (timeline.streamedText.value) {
    return html`<li class="msg assistant streaming" aria-busy="true">
      <span class="sr-only">Headway:</span><${StreamedMarkdown} text=${timeline.streamedText.value} />
    </li>`;
  }
  if (waiting) return html`<${WaitingNote} count=${waiting} />`;
  return html`<li class="thinking">
    <span class="dots" aria-hidden="true"><i></i><i></i><i></i></span><span>${timeline.note.value || "Working"}</span>
  </li>`;
}

const NEAR_END_PX = 80;

/** The items, and after them open requests whose events are further back than the items go. */
function listItems(timeline, conversationId) {
  const items = timeline.items.value;
  if (!items.length) return items; // not loaded yet
  const known = new Set(items.map(({ key }) => key));
  const missing = openRequests.value.filter(({ key, conversation_id }) => conversation_id === conversationId && !known.has(key));
  return missing.length ? [...items, ...missing.map(toItem)] : items;
}

function Log({ timeline, id }) {
  const box = useRef();
  const list = useRef();
  const [isAway, setIsAway] = useState(false);
  const isFollowing = useRef(true);
  const scrollDown = () => {
    if (isFollowing.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(() => {
    // Stay at the end also when the panel opens or an item grows.
    const observer = new ResizeObserver(scrollDown);
    observer.observe(box.current);
    observer.observe(list.current);
    return () => observer.disconnect();
  }, []);
  const onScroll = ({ currentTarget: log }) => {
    isFollowing.current = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PX;
    setIsAway(!isFollowing.current);
  };
  const scrollToEnd = () => {
    isFollowing.current = true;
    scrollDown();
  };
  const loadEarlier = () => attempt(timeline.loadEarlier);
  const items = listItems(timeline, id);
  const waiting = items.filter(({ request }) => request?.isOpen && request.turn_id === timeline.running.value?.id).length;
  return html`<div class="log" ref=${box} tabindex="0" role="log" aria-label="Conversation" onScroll=${onScroll}>
      <ol ref=${list}>
        ${
          timeline.hasEarlier.value &&
          html`<li class="center"><button class="btn small" onClick=${loadEarlier}>Show earlier messages</button></li>`
        }
        ${items.map((item) => html`<${TimelineItem} key=${item.key} item=${item} conversationId=${id} />`)}
        <${Activity} timeline=${timeline} waiting=${waiting} />
      </ol>
    </div>
    ${
      isAway &&
      html`<button class="btn scroll-to-end" aria-label="Scroll to the end" onClick=${scrollToEnd}><${Icon} name="down" /></button>`
    }`;
}

const RehearsalNote = () => html`<p class="model-note">
  The rehearsal model answers: it follows rules and is not an LLM. Set <code>HEADWAY_MODEL</code> to use one.
</p>`;

/** The input and what belongs above it. */
const Dock = ({ children }) => html`<div class="dock">
  <div>${children}</div>
  ${session.value?.model === "rehearsal" && html`<${RehearsalNote} />`}
</div>`;

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
    on: { ...timeline.on, ...onTodoEvent, todo_changed: onTodoChanged, turn_started: onTurnStarted, ping: refreshConversations },
  }));
  if (timeline.isMissing.value) {
    return html`<div class="log"><div class="welcome">
      <h1>Conversation not found</h1>
      <p class="muted">It may belong to another tenant. <a class="link" href="/">Start a new one</a>.</p>
    </div></div>`;
  }
  return html`<div class="log-frame"><${Log} timeline=${timeline} id=${id} /></div>
    <${Dock}><${TodoPanel} timeline=${timeline} /><${Composer} id=${id} running=${timeline.running.value} /><//>
    <${TodoDialog} /><${ForkDialog} />`;
}

function NewConversation() {
  const [suggestion, setSuggestion] = useState(null);
  useStream("/v1/events", () => ({ load: () => loadConversations(), on: { turn_started: refreshConversations } }));
  return html`<div class="log"><div class="welcome">
      <${Icon} name="mark" class="logo" />
      <h1>What should the agent do?</h1>
      <p class="muted">The agent makes a plan, works through it and answers. You can change the plan while it works.</p>
      <ul class="suggestions">
        ${SUGGESTIONS.map(
          (text) => html`<li key=${text}>
            <button class="suggestion" onClick=${() => setSuggestion({ text })}>${text}</button>
          </li>`,
        )}
      </ul>
    </div></div>
    <${Dock}><${Composer} id=${null} suggestion=${suggestion} /><//>`;
}

export function Page({ id }) {
  conversations.value; // subscribes to them: the title comes from there
  return html`<main class="chat" id="main" tabindex="-1">
    <header class="chat-header">
      <${Drawer} id=${id} />
      <h1 class="truncate" dir="auto">${getTitle(id)}</h1>
      <span class="grow"></span>
      ${id && html`<a class="btn ghost small" href="/board?conversation=${id}"><${Icon} name="board" />Todos</a>`}
    </header>
    ${id ? html`<${Conversation} id=${id} />` : html`<${NewConversation} />`}
  </main>`;
}

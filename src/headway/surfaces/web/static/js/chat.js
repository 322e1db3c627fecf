// The chat: what was said and done, live, with the todo panel above the input.
import { post } from "./api.js";
import { Composer } from "./composer.js";
import { conversations, Drawer, loadConversations, Side, titleOf } from "./conversations.js";
import { attempt } from "./dialogs.js";
import { html, Kept, useEffect, useMemo, useRef, useState } from "./lib.js";
import { Markdown } from "./markdown.js";
import { session } from "./session.js";
import { newTimeline } from "./timeline.js";
import { TodoPanel } from "./todo_panel.js";
import { AgentLine, ToolLine } from "./tool_line.js";
import { Icon, plural, Status } from "./ui.js";
import { useStream } from "./watch.js";

export const TITLE = "Chat";
export { Side };

const IDEAS = [
  "Calculate 12*7, then write the result to notes.txt, and then list the files",
  "Plan a small party: write the guest list, choose a menu, and buy the drinks",
  "What time is it in Tokyo?",
];

const OUTCOMES = {
  filtered: "The model's content filter ended this answer. Ask in other words, or try another model.",
  limit: "The agent reached its limit before the list was done.",
  incomplete: "The agent stopped before the list was done.",
};

function End({ item }) {
  if (item.end === "canceled")
    return html`<li class="end"><${Status} s="canceled" quiet /><span>Stopped. What was done stays done.</span></li>`;
  if (item.end === "failed") {
    return html`<li class="end bad"><${Status} s="failed" quiet />
      <div class="grow"><strong>The agent could not go on.</strong> <span dir="auto">${item.error}</span></div>
      ${item.runId && html`<button class="btn small" onClick=${() => attempt(() => post(`/v1/jobs/${item.runId}/retry`))}><${Icon} n="replan" />Try again</button>`}
    </li>`;
  }
  return html`<li class="end warn"><${Icon} n="warn" />
    <div class="grow">${OUTCOMES[item.end] ?? OUTCOMES.incomplete} ${item.incomplete.length > 0 && html`<span class="muted">${plural(item.incomplete.length, "todo is", "todos are")} still open.</span>`}</div>
    ${item.incomplete.length > 0 && html`<a class="btn small" href="/board">Open the board</a>`}
  </li>`;
}

class Entry extends Kept {
  render({ item }) {
    if (item.type === "tool") return html`<${ToolLine} item=${item} />`;
    if (item.type === "agent") return html`<${AgentLine} run=${item.run} />`;
    if (item.type === "end") return html`<${End} item=${item} />`;
    const mine = item.type === "user";
    return html`<li class="msg ${item.type}" dir=${mine ? "auto" : null}><span class="sr">${mine ? "You" : "Headway"}:</span>${mine ? item.text : html`<${Markdown} text=${item.text} />`}</li>`;
  }
}

const Delayed = ({ running: { runId, delayed } }) => html`<li class="end warn"><${Status} s="paused" quiet />
  <div class="grow"><strong>Waiting to retry until ${new Date(delayed.until * 1000).toLocaleTimeString()}.</strong> <span dir="auto">${delayed.reason}</span></div>
  ${runId && html`<button class="btn small" onClick=${() => attempt(() => post(`/v1/jobs/${runId}/retry`))}><${Icon} n="replan" />Ask again now</button>`}</li>`;

function Now({ timeline }) {
  const running = timeline.running.value;
  if (!running) return null;
  if (running.paused)
    return html`<li class="end warn"><${Status} s="paused" quiet /><div class="grow"><strong>Paused.</strong> <span dir="auto">${running.paused}</span></div><a class="btn small" href="/operations">Open operations</a></li>`;
  if (running.delayed) return html`<${Delayed} running=${running} />`;
  if (timeline.saying.value)
    return html`<li class="msg assistant saying" aria-busy="true"><span class="sr">Headway:</span><${Markdown} text=${timeline.saying.value} /></li>`;
  return html`<li class="thinking"><span class="dots" aria-hidden="true"><i></i><i></i><i></i></span><span>${timeline.note.value || "Working"}</span></li>`;
}

const NEAR_END = 80;

function Log({ timeline }) {
  const box = useRef();
  const list = useRef();
  const [away, setAway] = useState(false);
  const stick = useRef(true);
  const down = () => {
    if (stick.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(() => {
    // Also when the panel opens or a picture of text grows: who reads the end goes on reading the end.
    const watcher = new ResizeObserver(down);
    watcher.observe(box.current);
    watcher.observe(list.current);
    return () => watcher.disconnect();
  }, []);
  const onScroll = ({ currentTarget: at }) => {
    stick.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END;
    setAway(!stick.current);
  };
  const toEnd = () => {
    stick.current = true;
    down();
  };
  return html`<div class="log" ref=${box} tabindex="0" role="log" aria-label="Conversation" onScroll=${onScroll}>
      <ol ref=${list}>
        ${timeline.earlier.value && html`<li class="center"><button class="btn small" onClick=${() => attempt(timeline.loadEarlier)}>Show what came before</button></li>`}
        ${timeline.items.value.map((item) => html`<${Entry} key=${item.key} item=${item} />`)}
        <${Now} timeline=${timeline} />
      </ol>
    </div>
    ${away && html`<button class="btn to-end" aria-label="Scroll to the end" onClick=${toEnd}><${Icon} n="down" /></button>`}`;
}

/** Where people write, with what stands above it; and who it is that answers, where that is no LLM. */
function Dock({ children }) {
  return html`<div class="dock"><div>${children}</div>
    ${session.value?.model === "rehearsal" && html`<p class="fine">The rehearsal model answers: it follows rules and is not an LLM. Set <code>HEADWAY_MODEL</code> to use one.</p>`}</div>`;
}

function Conversation({ id }) {
  const timeline = useMemo(() => newTimeline(id), [id]);
  useStream(`/v1/conversations/${id}/events`, () => ({
    exists: timeline.exists,
    load: async () => (await Promise.all([timeline.load(), loadConversations()]))[0],
    on: { ...timeline.on, turn_started: startedAnd(timeline.on.turn_started), ping: () => loadConversations().catch(() => {}) },
  }));
  if (timeline.missing.value) {
    return html`<div class="log"><div class="hello"><h1>There is no such conversation</h1><p class="muted">It may belong to another tenant. <a class="link" href="/">Start a new one</a>.</p></div></div>`;
  }
  return html`<div class="log-frame"><${Log} timeline=${timeline} /></div>
    <${Dock}><${TodoPanel} timeline=${timeline} /><${Composer} id=${id} running=${timeline.running.value} /><//>`;
}

/** A conversation gets its title with its first message. */
const startedAnd = (then) => (data) => {
  then(data);
  loadConversations().catch(() => {});
};

function Fresh() {
  const [suggestion, setSuggestion] = useState(null);
  useStream("/v1/events", () => ({
    load: () => loadConversations(),
    on: { turn_started: () => loadConversations().catch(() => {}) },
  }));
  return html`<div class="log"><div class="hello">
      <${Icon} n="mark" c="logo" />
      <h1>What should be done?</h1>
      <p class="muted">The agent plans, works its list off and answers. You can change the list while it works.</p>
      <ul class="ideas">${IDEAS.map((text) => html`<li key=${text}><button class="idea" onClick=${() => setSuggestion({ text })}>${text}</button></li>`)}</ul>
    </div></div>
    <${Dock}><${Composer} id=${null} suggestion=${suggestion} /><//>`;
}

export function Page({ id }) {
  conversations.value; // the title below comes from there
  return html`<main class="chat" id="main" tabindex="-1">
    <header class="bar"><${Drawer} id=${id} /><h1 class="cut" dir="auto">${titleOf(id)}</h1><span class="grow"></span>
      ${id && html`<a class="btn ghost small" href="/board?conversation=${id}"><${Icon} n="board" />Todos</a>`}</header>
    ${id ? html`<${Conversation} id=${id} />` : html`<${Fresh} />`}
  </main>`;
}

// A conversation as it is shown, made of what the log says: the snapshot's entries first, then events as they come.
import { get } from "./api.js";
import { signal } from "./lib.js";

const PAGE = 200;
const FLASH_MS = 2_000;

/** Keep the old object where nothing changed, so that its row is not drawn again. */
function kept(old, fresh) {
  const known = new Map(old.map((one) => [one.id, one]));
  return fresh.map((one) => {
    const before = known.get(one.id);
    return before && before.status === one.status && before.description === one.description ? before : one;
  });
}

export function newTimeline(conversationId) {
  const items = signal([]); // {key, type, …}: user, assistant, tool, agent, end
  const saying = signal(""); // what the model says at this moment
  const note = signal(""); // what is going on besides
  const running = signal(null); // {id, runId, paused, delayed: {until, reason}}
  const turnId = signal(null); // whose list is shown
  const todos = signal(null);
  const flash = signal(null);
  const cap = signal(null);
  const earlier = signal(false); // whether there is more above
  const missing = signal(false);

  const runs = new Map(); // turn → the run that answers it
  let firstSeq = 0;
  let heard = ""; // of the answer that is being spoken
  let pieces = 0; // how many pieces of it that is; they are numbered
  let frame = 0;

  // Words come in bursts: they are drawn once a frame.
  const speak = (text) => {
    heard = text;
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      saying.value = heard;
    });
  };
  const hush = () => {
    pieces = 0;
    heard = saying.value = "";
  };

  const entries = {
    turn_started(list, { turn_id, run_id }) {
      runs.set(turn_id, run_id);
      return list;
    },
    message: (list, { id, role, content, created_at }) => put(list, { key: `m${id}`, type: role, text: content, at: created_at }),
    tool_call(list, call) {
      if (runs.has(call.turn_id) && runs.get(call.turn_id) !== call.run_id) return list; // a sub-agent's own business
      return put(list, {
        key: `${call.run_id}/${call.call_id}`,
        type: "tool",
        tool: call.tool,
        arguments: call.arguments,
        state: "running",
      });
    },
    tool_result(list, { run_id, call_id, result, is_error, state }) {
      const key = `${run_id}/${call_id}`;
      return list.map((one) =>
        one.key === key ? { ...one, result, state: is_error || state === "unknown" ? "failed" : "done" } : one,
      );
    },
    agent_changed: (list, { run }) => (run.parent_run_id ? put(list, { key: `a${run.id}`, type: "agent", run }) : list),
    todos_limit: (list) => list,
    turn_delayed: (list) => list,
    turn_paused: (list) => list,
    turn_resumed: (list, { turn_id }) => list.filter((one) => one.key !== `e${turn_id}`),
    turn_finished: (list, { turn_id, outcome, incomplete }) =>
      incomplete.length || outcome === "filtered" || outcome === "limit"
        ? put(list, { key: `e${turn_id}`, type: "end", end: outcome, incomplete })
        : list,
    turn_failed: (list, { turn_id, error, code }) =>
      put(list, { key: `e${turn_id}`, type: "end", end: "failed", error, code, runId: runs.get(turn_id) }),
    turn_canceled: (list, { turn_id }) => put(list, { key: `e${turn_id}`, type: "end", end: "canceled" }),
  };
  const shown = (list, kind, data) => entries[kind]?.(list, data) ?? list;
  const show = (kind, data) => (items.value = shown(items.value, kind, data));

  const over = (kind) => (data) => {
    show(kind, data);
    if (running.value?.id === data.turn_id) running.value = null;
    note.value = "";
    hush();
  };
  const delay = ({ turn_id, retry_at, reason }) => {
    if (running.value?.id === turn_id) running.value = { ...running.value, delayed: { until: retry_at, reason } };
  };
  /** The model was asked again, and answers. */
  const goOn = () => {
    if (running.value?.delayed) running.value = { ...running.value, delayed: undefined };
  };
  let timer;
  const flashed = (text) => {
    clearTimeout(timer);
    flash.value = text;
    timer = setTimeout(() => (flash.value = null), FLASH_MS);
  };

  const on = {
    turn_started(data) {
      show("turn_started", data);
      running.value = { id: data.turn_id, runId: data.run_id };
      turnId.value = data.turn_id;
      todos.value = cap.value = null;
      note.value = "";
      hush();
    },
    text_delta({ text, n, restart, turn_id }) {
      if (running.value?.id !== turn_id) return;
      note.value = "";
      if (!restart) goOn();
      if (restart || n === 1) hush();
      if (!text || n <= pieces) return; // known already
      speak(heard + (n > pieces + 1 ? " … " : "") + text);
      pieces = n;
    },
    message(data) {
      show("message", data);
      if (data.role === "assistant") hush();
    },
    tool_call(data) {
      if (data.run_id === running.value?.runId) goOn();
      show("tool_call", data);
    },
    refused({ reason }) {
      hush();
      goOn();
      note.value = `Not done yet: ${reason}`;
    },
    tool_result: (data) => show("tool_result", data),
    agent_changed: (data) => show("agent_changed", data),
    turn_delayed(data) {
      hush();
      delay(data);
    },
    turn_paused({ turn_id, reason }) {
      if (running.value?.id === turn_id) running.value = { ...running.value, paused: reason };
    },
    turn_resumed(data) {
      show("turn_resumed", data);
      running.value = { id: data.turn_id, runId: runs.get(data.turn_id) };
      turnId.value = data.turn_id;
    },
    turn_finished: over("turn_finished"),
    turn_failed: over("turn_failed"),
    turn_canceled: over("turn_canceled"),
    todos_updated: (state) => (todos.value = { ...state, items: kept(todos.value?.items ?? [], state.items) }),
    todos_assessed({ ok, reason }) {
      if (ok) note.value = reason ? `Accepted: ${reason}` : "Accepted"; // what is not accepted is refused, with the same reason
    },
    todos_resubmitting: ({ next }) => flashed(next),
    todos_limit: ({ message }) => (cap.value = message),
  };

  async function exists() {
    try {
      await get(`/v1/conversations/${conversationId}`);
      return true;
    } catch (refusal) {
      if (refusal.status !== 404) throw refusal;
      missing.value = true;
      return false;
    }
  }

  async function load() {
    const { timeline } = await get(`/v1/conversations/${conversationId}/timeline`, { limit: PAGE });
    take(timeline);
    return timeline.seq;
  }

  function take(timeline) {
    hush();
    runs.clear();
    if (timeline.saying) {
      pieces = timeline.saying.n;
      heard = saying.value = timeline.saying.text;
    }
    items.value = timeline.entries.reduce((list, { kind, data }) => shown(list, kind, data), []);
    cap.value =
      timeline.entries.findLast(({ kind, data }) => kind === "todos_limit" && data.turn_id === timeline.turn_id)?.data.message ??
      null;
    const { running: turn } = timeline;
    running.value = turn && {
      id: turn.id,
      runId: runs.get(turn.id),
      paused: turn.status === "paused" ? "Waiting: the pool has no money left." : undefined,
    };
    const delayed = timeline.entries.findLast(({ kind, data }) => kind === "turn_delayed" && data.turn_id === turn?.id);
    if (turn?.retry_at > 0) delay({ turn_id: turn.id, retry_at: turn.retry_at, reason: delayed?.data.reason ?? "" });
    turnId.value = timeline.turn_id;
    todos.value = timeline.todos;
    firstSeq = timeline.entries[0]?.seq ?? 0;
    earlier.value = timeline.entries.length === PAGE;
  }

  async function loadEarlier() {
    const { timeline } = await get(`/v1/conversations/${conversationId}/timeline`, { limit: PAGE, before: firstSeq });
    const above = timeline.entries.reduce((list, { kind, data }) => shown(list, kind, data), []);
    const known = new Set(items.value.map((one) => one.key));
    items.value = [...above.filter((one) => !known.has(one.key)), ...items.value];
    firstSeq = timeline.entries[0]?.seq ?? firstSeq;
    earlier.value = timeline.entries.length === PAGE;
  }

  return { items, saying, note, running, turnId, todos, flash, cap, earlier, missing, on, exists, load, loadEarlier };
}

/** The list with this item, in the place it already has. */
function put(list, item) {
  const at = list.findIndex((one) => one.key === item.key);
  if (at < 0) return [...list, item];
  return list.with(at, { ...list[at], ...item });
}

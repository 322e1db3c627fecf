// The state of a conversation, built from its log: the entries of the snapshot first, then events as they arrive.
import { get } from "../core/api.js";
import { computed, signal } from "../core/lib.js";
import { findDelay, startDelay } from "./retry_line.js";
import { createBlocks } from "./steps/blocks.js";
import { noteProgress } from "./steps/progress.js";
import { createReducer } from "./timeline_items.js";
import { createTurnProofs } from "./turn_proofs.js";

const PAGE_SIZE = 200;
const FLASH_MS = 2_000;
// Events that change the items and nothing else.
const PLAIN_KINDS = ["compacted", "messages_read", "approval_requested", "approval_decided", "question_asked", "question_answered"];

/** Keep the old object of each todo that did not change, so that its row does not render again. */
function reuseUnchanged(old, fresh) {
  const known = new Map(old.map((todo) => [todo.id, todo]));
  return fresh.map((todo) => {
    const before = known.get(todo.id);
    return before && before.status === todo.status && before.description === todo.description ? before : todo;
  });
}

export function createTimeline(conversationId) {
  const items = signal([]); // see timeline_items.js
  const streamedText = signal(""); // the part of the answer that has arrived
  const note = signal(""); // what the agent is doing meanwhile
  const running = signal(null); // {id, runId, paused, delayed: see retry_line.js}
  const turnId = signal(null); // the turn whose todos are shown
  const todos = signal(null);
  const flash = signal(null);
  const limitNotice = signal(null);
  const hasEarlier = signal(false);
  const isMissing = signal(false);
  const isLoaded = signal(false); // before that, nothing is known about the conversation

  let history = []; // what the items were built from: the entries of the snapshot, and the events since
  let firstSeq = 0;
  let received = ""; // the whole streamed text, before the next frame shows it
  let pieces = 0; // the number of the last piece of it
  let unplaced = null; // pieces that arrive while the text before them is fetched
  let clearances = 0; // how often the text was withdrawn or became a message
  let frame = 0;

  // Text arrives in bursts, so it is rendered once per frame.
  const setStreamedText = (text) => {
    received = text;
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      streamedText.value = received;
    });
  };
  const clearStreamedText = () => {
    clearances++;
    if (unplaced) unplaced = [];
    pieces = 0;
    received = streamedText.value = "";
  };

  const setPartialAnswer = (partial) => {
    clearStreamedText();
    if (!partial) return;
    pieces = partial.n;
    received = streamedText.value = partial.text;
  };

  const { proofs, setTurn, onChange: todo_changed } = createTurnProofs();
  const { runs, reset, reduce } = createReducer();
  const apply = (kind, data) => {
    history.push({ kind, data });
    items.value = reduce(items.value, kind, data);
  };
  const build = createBlocks();
  const blocks = computed(() => build(items.value, running.value?.id));
  const isCalling = computed(() => Boolean(blocks.value.at(-1)?.isRunning) && items.value.at(-1).state === "running");

  const onTurnEnd = (kind) => (data) => {
    apply(kind, data);
    if (running.value?.id === data.turn_id) running.value = null;
    note.value = "";
    clearStreamedText();
  };
  /** The model answers again after a delay. */
  const clearDelay = () => {
    if (running.value?.delayed) running.value = { ...running.value, delayed: undefined };
  };
  let flashTimer;
  const showFlash = (text) => {
    clearTimeout(flashTimer);
    flash.value = text;
    flashTimer = setTimeout(() => (flash.value = null), FLASH_MS);
  };

  const on = {
    turn_started(data) {
      apply("turn_started", data);
      running.value = { id: data.turn_id, runId: data.run_id };
      turnId.value = data.turn_id;
      setTurn(data.turn_id);
      todos.value = limitNotice.value = null;
      note.value = "";
      clearStreamedText();
    },
    text_delta(piece) {
      const { text, n, restart, turn_id } = piece;
      if (unplaced) return unplaced.push(piece);
      if (running.value?.id !== turn_id) return;
      note.value = "";
      if (!restart) clearDelay();
      if (restart || n === 1) clearStreamedText();
      if (!text || n <= pieces) return; // already shown
      setStreamedText(received + (n > pieces + 1 ? " … " : "") + text);
      pieces = n;
    },
    message(data) {
      apply("message", data);
      if (data.role !== "assistant") return;
      clearStreamedText();
      clearDelay();
    },
    tool_call(data) {
      if (data.run_id === running.value?.runId) {
        clearDelay();
        note.value = "";
      }
      apply("tool_call", data);
      noteProgress(data.run_id);
    },
    tool_result(data) {
      apply("tool_result", data);
      noteProgress(data.run_id);
    },
    agent_changed(data) {
      apply("agent_changed", data);
      noteProgress(data.run.id);
      noteProgress(data.run.parent_run_id);
    },
    refused(data) {
      apply("refused", data);
      clearStreamedText();
      clearDelay();
      note.value = `Not done yet: ${data.reason}`;
    },
    ...Object.fromEntries(PLAIN_KINDS.map((kind) => [kind, (data) => apply(kind, data)])),
    turn_delayed(data) {
      clearStreamedText();
      if (running.value?.id === data.turn_id) running.value = { ...running.value, delayed: startDelay(data) };
    },
    turn_paused({ turn_id, reason }) {
      if (running.value?.id === turn_id) running.value = { ...running.value, paused: reason };
    },
    turn_resumed(data) {
      apply("turn_resumed", data);
      running.value = { id: data.turn_id, runId: runs.get(data.turn_id) };
      turnId.value = data.turn_id;
    },
    turn_finished: onTurnEnd("turn_finished"),
    turn_failed: onTurnEnd("turn_failed"),
    turn_canceled: onTurnEnd("turn_canceled"),
    todo_changed,
    todos_updated: (state) => (todos.value = { ...state, items: reuseUnchanged(todos.value?.items ?? [], state.items) }),
    todos_assessed({ ok, reason }) {
      if (ok) note.value = reason ? `Accepted: ${reason}` : "Accepted"; // a rejection arrives as `refused`, with the same reason
    },
    todos_resubmitting: ({ next }) => showFlash(next),
    todos_limit: ({ message }) => (limitNotice.value = message),
  };

  async function exists() {
    try {
      await get(`/v1/conversations/${conversationId}`);
      return true;
    } catch (error) {
      if (error.status !== 404) throw error;
      isMissing.value = true;
      return false;
    }
  }

  const fetchPage = async (query) =>
    (await get(`/v1/conversations/${conversationId}/timeline`, { limit: PAGE_SIZE, ...query })).timeline;
  const rebuild = () => {
    reset();
    items.value = history.reduce((list, { kind, data }) => reduce(list, kind, data), []);
  };

  /** After an interruption: text that was withdrawn meanwhile goes, because such events are never repeated. */
  async function resumed() {
    let before;
    let partial;
    unplaced = [];
    try {
      do {
        before = clearances;
        partial = (await fetchPage({ limit: 1 })).saying;
      } while (clearances !== before); // an answer ended meanwhile, and the next one may have begun
    } finally {
      const later = unplaced;
      unplaced = null;
      if (partial !== undefined && clearances === before) setPartialAnswer(partial);
      later.forEach(on.text_delta);
    }
  }

  async function load() {
    const snapshot = await fetchPage();
    applySnapshot(snapshot);
    return snapshot.seq;
  }

  function applySnapshot(snapshot) {
    const { entries, running: turn } = snapshot;
    const findLast = (kind, turn_id) => entries.findLast((entry) => entry.kind === kind && entry.data.turn_id === turn_id)?.data;
    setPartialAnswer(snapshot.saying);
    history = [...entries];
    rebuild();
    limitNotice.value = findLast("todos_limit", snapshot.turn_id)?.message ?? null;
    const paused = turn?.status === "paused" ? "Waiting: the cost pool is spent." : undefined;
    running.value = turn && { id: turn.id, runId: runs.get(turn.id), paused, delayed: findDelay(entries, turn) };
    turnId.value = snapshot.turn_id;
    todos.value = snapshot.todos;
    setTurn(snapshot.turn_id, snapshot.todos?.total > 0);
    firstSeq = entries[0]?.seq ?? 0;
    hasEarlier.value = entries.length === PAGE_SIZE;
    isLoaded.value = true;
  }

  /** Items are built again from the beginning: a call and its result, or a turn and its end, may be on different pages. */
  async function loadEarlier() {
    const { entries } = await fetchPage({ before: firstSeq });
    history = [...entries, ...history];
    rebuild();
    firstSeq = entries[0]?.seq ?? firstSeq;
    hasEarlier.value = entries.length === PAGE_SIZE;
  }

  return {
    items,
    blocks,
    isCalling,
    streamedText,
    note,
    running,
    turnId,
    todos,
    proofs,
    flash,
    limitNotice,
    hasEarlier,
    isMissing,
    isLoaded,
    on,
    exists,
    load,
    resumed,
    loadEarlier,
  };
}

// The event stream of the page on screen: a snapshot first, then events in the order of their numbers, without gaps or
// duplicates across server restarts, sleep and lost networks.
import { signedOut } from "./api.js";
import { batch, signal } from "./lib.js";
import { loadSession } from "./session.js";

export const connection = signal("connecting"); // connecting | live | waiting | offline

const HIDDEN_MS = 5_000; // HTTP/1.1 allows six connections per origin, for all tabs together
const SILENT_MS = 40_000; // the server sends something every 15 s; a connection that is silent for longer is dead
const LONG_AWAY_MS = 10 * 60_000; // after that, a new snapshot costs less than replaying the events
const LONGEST_WAIT_MS = 15_000;

/** Events for live listeners only: they have no number and are never repeated. */
const UNNUMBERED = new Set(["text_delta"]);

/**
 * Follow a stream. Returns the function that stops it.
 *
 * `load` fetches the snapshot and may return the number of the last event that it covers. `on` has a handler for each kind of
 * event. `resumed` is called after an interruption. `exists` runs first, because an EventSource reports a missing stream and a
 * missing server in the same way.
 */
export function follow(url, { load, on, resumed = () => {}, exists = async () => true }) {
  let source = null;
  let last = null; // the number of the last event that was applied; null: no snapshot yet
  let waiting = null; // events that arrived while the snapshot was being fetched
  let life = 0; // numbers the connections, so that answers to an older one are ignored
  let tries = 0;
  let retry, hideTimer;
  let heardAt = Date.now();
  let hiddenAt = 0;

  const open = () => {
    clearTimeout(retry);
    source?.close();
    const mine = ++life;
    const fresh = last === null;
    waiting = fresh ? [] : null;
    heardAt = Date.now();
    source = new EventSource(fresh ? url : `${url}?after=${last}`);
    // It must not reconnect by itself: it would send the same `after` again and receive every event since then twice.
    source.onerror = () => mine === life && lost();
    // Events that it has not seen were deleted because of their age.
    source.addEventListener("log_pruned", () => mine === life && !fresh && startOver());
    source.addEventListener("ping", (event) => mine === life && beat(Number(event.lastEventId), mine, fresh));
    for (const kind of Object.keys(on).filter((name) => name !== "ping")) {
      source.addEventListener(kind, (event) => {
        if (mine !== life) return;
        heardAt = Date.now();
        const received = { kind, data: JSON.parse(event.data), seq: UNNUMBERED.has(kind) ? 0 : Number(event.lastEventId) };
        if (waiting) waiting.push(received);
        else batch(() => apply(received));
      });
    }
  };

  const begin = async () => {
    const mine = ++life;
    try {
      if ((await exists()) && mine === life) open();
    } catch {
      if (mine === life) lost();
    }
  };

  let confirmed = 0; // the connection whose first ping has arrived
  const beat = (seq, mine, fresh) => {
    heardAt = Date.now();
    if (confirmed !== mine) {
      confirmed = mine;
      if (fresh) return snapshot(mine, seq);
      if (seq < last) return startOver(); // the log was replaced by another one
      live();
      resumed();
    } else if (!waiting) last = Math.max(last, seq);
    on.ping?.();
  };

  const snapshot = async (mine, seq) => {
    try {
      const covered = (await load()) ?? seq;
      if (mine !== life) return;
      batch(() => {
        last = covered;
        const missed = waiting;
        waiting = null;
        missed.forEach(apply);
        live();
      });
    } catch {
      if (mine === life) lost();
    }
  };

  const apply = ({ kind, data, seq }) => {
    if (seq) {
      if (seq <= last) return;
      last = seq;
    }
    on[kind](data, seq);
  };

  const live = () => {
    tries = 0;
    connection.value = "live";
  };

  const startOver = () => {
    last = null;
    open();
  };

  const pause = (state) => {
    life++;
    source?.close();
    source = null;
    clearTimeout(retry);
    connection.value = state;
  };

  const lost = () => {
    pause(navigator.onLine ? "waiting" : "offline");
    if (document.hidden) return;
    const wait = Math.min(LONGEST_WAIT_MS, 400 * 2 ** tries++) * (0.5 + Math.random() / 2);
    retry = setTimeout(reconnect, wait);
  };

  // An EventSource does not report why it was refused. Loading the session does, and it also detects a new build of the page.
  const reconnect = async () => {
    const mine = ++life;
    try {
      await loadSession();
    } catch {
      if (mine === life && !signedOut.value) lost();
      return;
    }
    if (mine !== life) return;
    if (last === null) begin();
    else open();
  };

  const seen = () => {
    clearTimeout(hideTimer);
    if (document.hidden) {
      hiddenAt = Date.now();
      hideTimer = setTimeout(() => pause("waiting"), HIDDEN_MS);
    } else if (!source) {
      if (hiddenAt && Date.now() - hiddenAt > LONG_AWAY_MS) last = null;
      reconnect();
    }
  };
  const offline = () => pause("offline");
  const online = () => {
    tries = 0;
    reconnect();
  };
  const restore = (event) => event.persisted && reconnect();
  const leave = () => pause("waiting");
  const watchdog = setInterval(() => source && Date.now() - heardAt > SILENT_MS && lost(), 5_000);

  const listeners = [
    [document, "visibilitychange", seen],
    [window, "offline", offline],
    [window, "online", online],
    [window, "pagehide", leave],
    [window, "pageshow", restore],
  ];
  for (const [target, kind, handler] of listeners) target.addEventListener(kind, handler);
  connection.value = "connecting";
  begin();
  return () => {
    pause("connecting");
    clearInterval(watchdog);
    clearTimeout(hideTimer);
    for (const [target, kind, handler] of listeners) target.removeEventListener(kind, handler);
  };
}

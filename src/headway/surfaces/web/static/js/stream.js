// One event stream for the page that is shown: a snapshot first, then events by their numbers, across restarts, sleep and
// lost networks, with no gap and no duplicate.
import { locked } from "./api.js";
import { batch, signal } from "./lib.js";
import { look } from "./session.js";

export const link = signal("connecting"); // connecting | live | waiting | offline

const HIDDEN_MS = 5_000; // HTTP/1.1 allows six connections per origin, for all tabs together
const SILENT_MS = 40_000; // the server says something every 15 s; after this a connection is dead, whatever it seems
const LONG_AWAY_MS = 10 * 60_000; // then a fresh snapshot costs less than all that happened
const LONGEST_WAIT_MS = 15_000;

/** Told to live listeners only: they have no number and are never repeated. */
const WHISPERS = new Set(["text_delta"]);

/**
 * Follow a stream until the function that comes back is called.
 *
 * `load` fetches the snapshot and may give the number up to which it covers the log. `on` has a handler for each kind of event.
 * `resumed` hears that there was an interruption. `exists` is asked first: an EventSource cannot tell a stream that is not there
 * from a server that is not.
 */
export function follow(url, { load, on, resumed = () => {}, exists = async () => true }) {
  let source = null;
  let last = null; // the number of the last event that was applied; null: there is no snapshot yet
  let waiting = null; // events that arrived while the snapshot is on its way
  let life = 0; // which connection an answer belongs to
  let tries = 0;
  let retry, letGo;
  let heard = Date.now();
  let hiddenAt = 0;

  const open = () => {
    clearTimeout(retry);
    source?.close();
    const mine = ++life;
    const fresh = last === null;
    waiting = fresh ? [] : null;
    heard = Date.now();
    source = new EventSource(fresh ? url : `${url}?after=${last}`);
    // Never left to reconnect by itself: it would ask for the same `after` again, and hear everything since then twice.
    source.onerror = () => mine === life && lost();
    source.addEventListener("ping", (event) => mine === life && beat(Number(event.lastEventId), mine, fresh));
    for (const kind of Object.keys(on).filter((one) => one !== "ping")) {
      source.addEventListener(kind, (event) => {
        if (mine !== life) return;
        heard = Date.now();
        const told = { kind, data: JSON.parse(event.data), seq: WHISPERS.has(kind) ? 0 : Number(event.lastEventId) };
        if (waiting) waiting.push(told);
        else batch(() => apply(told));
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

  let begun = 0; // the connection whose first ping was heard
  const beat = (seq, mine, fresh) => {
    heard = Date.now();
    if (begun !== mine) {
      begun = mine;
      if (fresh) return snapshot(mine, seq);
      if (seq < last) return startOver(); // another log than the one we know
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
    link.value = "live";
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
    link.value = state;
  };

  const lost = () => {
    pause(navigator.onLine ? "waiting" : "offline");
    if (document.hidden) return;
    const wait = Math.min(LONGEST_WAIT_MS, 400 * 2 ** tries++) * (0.5 + Math.random() / 2);
    retry = setTimeout(reconnect, wait);
  };

  // An EventSource cannot tell why it was refused: asking who we are can, and notices a new version of the page on the way.
  const reconnect = async () => {
    const mine = ++life;
    try {
      await look();
    } catch {
      if (mine === life && !locked.value) lost();
      return;
    }
    if (mine !== life) return;
    if (last === null) begin();
    else open();
  };

  const seen = () => {
    clearTimeout(letGo);
    if (document.hidden) {
      hiddenAt = Date.now();
      letGo = setTimeout(() => pause("waiting"), HIDDEN_MS);
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
  const shown = (event) => event.persisted && reconnect();
  const leave = () => pause("waiting");
  const watchdog = setInterval(() => source && Date.now() - heard > SILENT_MS && lost(), 5_000);

  const ears = [
    [document, "visibilitychange", seen],
    [window, "offline", offline],
    [window, "online", online],
    [window, "pagehide", leave],
    [window, "pageshow", shown],
  ];
  for (const [target, kind, hear] of ears) target.addEventListener(kind, hear);
  link.value = "connecting";
  begin();
  return () => {
    pause("connecting");
    clearInterval(watchdog);
    clearTimeout(letGo);
    for (const [target, kind, hear] of ears) target.removeEventListener(kind, hear);
  };
}

// Fetching what the server has, while the event stream reports changes.
import { batch } from "./lib.js";

const DELAY_MS = 150;

/** Combine calls: a burst of events causes one fetch, shortly after the first. */
export function coalesce(load, delay = DELAY_MS) {
  let timer = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      load().catch(() => {}); // the next event or snapshot fetches it again
    }, delay);
  };
}

/**
 * A list that is fetched again while events arrive. Events that arrive during a fetch are applied to its result as well.
 * When two fetches overlap, only the later one counts.
 */
export function createLiveList(fetch, replace, apply) {
  let pending = null; // the events since the newest fetch began; null: no fetch is under way
  const load = async () => {
    const events = [];
    pending = events;
    try {
      const fetched = await fetch();
      if (events !== pending) return;
      batch(() => {
        replace(fetched);
        events.forEach(apply);
      });
    } finally {
      if (events === pending) pending = null;
    }
  };
  const onChange = (event) => {
    pending?.push(event);
    apply(event);
  };
  return { load, onChange };
}

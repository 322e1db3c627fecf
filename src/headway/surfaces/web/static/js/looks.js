// Looks at what the server has, beside the stream that tells what changes.
import { batch } from "./lib.js";

const WAIT_MS = 150;

/** Many events, one look: what arrives in a burst is fetched once, shortly after. */
export function soon(load) {
  let timer = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      load().catch(() => {}); // the next event, or the next snapshot, brings it
    }, WAIT_MS);
  };
}

/** A list that is fetched anew while events go on: what is told meanwhile counts for what was fetched as well, and of two looks
 * only the later one counts. */
export function listed(fetch, take, apply) {
  let meanwhile = null;
  const load = async () => {
    const told = [];
    meanwhile = told;
    try {
      const found = await fetch();
      if (told !== meanwhile) return;
      batch(() => {
        take(found);
        told.forEach(apply);
      });
    } finally {
      if (told === meanwhile) meanwhile = null;
    }
  };
  const changed = (data) => {
    meanwhile?.push(data);
    apply(data);
  };
  return { load, changed };
}

// Many events, one look: what arrives in a burst is fetched once, shortly after.
const WAIT_MS = 150;

export function soon(load) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      load().catch(() => {}); // the next event, or the next snapshot, brings it
    }, WAIT_MS);
  };
}

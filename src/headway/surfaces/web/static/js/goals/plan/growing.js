// Long lists are drawn in parts: first what fits on a screen, then the rest while the browser is idle.
import { useEffect, useState } from "../../core/lib.js";

const FIRST = 60;
const PART = 150;
const whenIdle = window.requestIdleCallback ?? ((run) => setTimeout(run, 16)); // Safari has none

/** How many of `count` items to draw now. It grows until it is all of them. */
export function useGrowing(count) {
  const [shown, setShown] = useState(FIRST);
  useEffect(() => {
    if (shown >= count) return undefined;
    let isWanted = true;
    whenIdle(() => isWanted && setShown(shown + PART));
    return () => (isWanted = false);
  }, [shown, count]);
  return Math.min(shown, count);
}

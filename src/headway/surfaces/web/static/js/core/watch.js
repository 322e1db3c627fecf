// Every page watches this in addition to its own data: the halt, dead letters, requests to people, and notices.
import { get } from "./api.js";
import { showToast } from "./dialogs.js";
import { preferences, signal, useEffect } from "./lib.js";
import { path } from "./router.js";
import { follow } from "./stream.js";
import { loadRequests, waitingHandlers } from "./waiting.js";

/** `isKnown` is false until the server has answered: neither halted nor running may be shown as a fact before. */
export const halt = signal({ isKnown: false, halted: false, why: "", since: 0, by: "" });
export const deadLetterCount = signal(null); // null: not known yet

const COUNT_LIMIT = 100;
// Pages that show requests to people, or count them beside the chat.
const SHOWS_REQUESTS = /^\/($|c\/|inbox)/;

export async function countDeadLetters() {
  deadLetterCount.value = (await get("/v1/jobs", { state: "dead", limit: COUNT_LIMIT })).jobs.length;
}

async function load() {
  const [fetched] = await Promise.all([get("/v1/halt"), countDeadLetters(), loadRequests()]);
  halt.value = { ...fetched.halt, isKnown: true };
  if (preferences.get("notifications") === "on") import("../people/notifications.js").catch(() => {}); // the next load tries again
}

const sharedHandlers = {
  halted: ({ why, since, by = "" }) => (halt.value = { isKnown: true, halted: true, why, since, by }),
  unhalted: () => (halt.value = { isKnown: true, halted: false, why: "", since: 0, by: "" }),
  job_dead: () => countDeadLetters(),
  operator_notice({ kind, text }) {
    const isRequest = kind === "approval" || kind === "question";
    if (!isRequest || !SHOWS_REQUESTS.test(path.value)) showToast(text, "warn");
  },
  ...waitingHandlers,
};

/** Handle more kinds of events on every page from now on. */
export const shareHandlers = (handlers) => Object.assign(sharedHandlers, handlers);

/** Follow the page's one stream while the component is mounted. Another `url` opens another stream. */
export function useStream(url, describePage) {
  useEffect(() => {
    const { load: loadPage, on: pageHandlers, exists, resumed = async () => {} } = describePage();
    const kinds = new Set([...Object.keys(sharedHandlers), ...Object.keys(pageHandlers)]);
    const handlers = [...kinds].map((kind) => [
      kind,
      (data, seq) => {
        sharedHandlers[kind]?.(data);
        pageHandlers[kind]?.(data, seq);
      },
    ]);
    return follow(url, {
      load: async () => (await Promise.all([loadPage(), load()]))[0],
      on: Object.fromEntries(handlers),
      resumed: () => Promise.all([load(), resumed()]).catch(() => {}), // retrying a dead letter emits no event
      exists,
    });
  }, [url]);
}

// What every page watches besides its own matter: the kill switch, dead letters, goals that wait for a decision, notices.
import { get } from "./api.js";
import { tell } from "./dialogs.js";
import { signal, useEffect } from "./lib.js";
import { follow } from "./stream.js";

export const halt = signal({ halted: false, why: "", since: 0 });
export const deadLetters = signal(0);

const COUNTED = 100;

export async function countDeadLetters() {
  deadLetters.value = (await get("/v1/jobs", { state: "dead", limit: COUNTED })).jobs.length;
}

async function load() {
  const [found] = await Promise.all([get("/v1/halt"), countDeadLetters()]);
  halt.value = found.halt;
}

const everywhere = {
  halted: ({ why, since }) => (halt.value = { halted: true, why, since }),
  unhalted: () => (halt.value = { halted: false, why: "", since: 0 }),
  job_dead: () => countDeadLetters(),
  operator_notice: ({ text }) => tell(text, "warn"),
};

/** The page's one stream, for as long as the component is shown. Another `url` is another stream. */
export function useStream(url, page) {
  useEffect(() => {
    const { load: own, on, exists } = page();
    const both = Object.fromEntries(
      [...new Set([...Object.keys(everywhere), ...Object.keys(on)])].map((kind) => [
        kind,
        (data, seq) => {
          everywhere[kind]?.(data);
          on[kind]?.(data, seq);
        },
      ]),
    );
    return follow(url, {
      load: async () => (await Promise.all([own(), load()]))[0],
      on: both,
      resumed: () => load().catch(() => {}), // a dead letter that was retried meanwhile tells nobody
      exists,
    });
  }, [url]);
}

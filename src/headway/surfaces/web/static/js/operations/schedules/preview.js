// The next times of a schedule that is being written.
import { get } from "../../core/api.js";
import { html, useEffect, useState } from "../../core/lib.js";
import { Until } from "../../core/ui.js";

const DELAY_MS = 250;
const FORMAT = {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
};

function formatTime(at, timeZone) {
  try {
    return new Date(at * 1000).toLocaleString(undefined, { ...FORMAT, timeZone });
  } catch {
    return new Date(at * 1000).toLocaleString(undefined, FORMAT); // a zone that this browser does not know
  }
}

/** `timing`: {cron, timezone} or {every_s}, as the server takes it. */
export function Preview({ timing }) {
  const [answer, setAnswer] = useState(null); // {times, timezone}, {error}, or null: not known yet
  const query = new URLSearchParams(timing).toString();
  useEffect(() => {
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const found = await get(`/v1/schedules/preview?${query}`).catch((error) => ({ error: error.message }));
      if (isCurrent) setAnswer(found);
    }, DELAY_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [query]);
  return html`<section class="preview" aria-label="Next times" aria-live="polite">
    ${!answer && html`<span class="skeleton" role="status" aria-label="Loading"></span>`}
    ${answer?.error && html`<p class="problem">${answer.error}</p>`}
    ${
      answer?.times &&
      html`<ol>
        ${answer.times.map(
          (at) => html`<li key=${at} class="num">
            ${formatTime(at, answer.timezone)}<span class="faint"><${Until} at=${at} /></span>
          </li>`,
        )}
      </ol>`
    }
  </section>`;
}

// Changes many dead letters, a hundred per request, and shows how far it is.
import { post } from "../../core/api.js";
import { showToast } from "../../core/dialogs.js";
import { html, signal } from "../../core/lib.js";
import { pluralize } from "../../core/ui.js";

const PER_REQUEST = 100;
const VERBS = { retry: "Retried", drop: "Dropped" };

/** The work under way: {action, total, done, refused: [{id, detail}], isStopped, isOver}; null before the first. */
export const progress = signal(null);

const update = (changes) => (progress.value = { ...progress.value, ...changes });

async function send(body) {
  const answer = await post("/v1/jobs/dead", { action: progress.value.action, ...body });
  const { done, refused } = progress.value;
  update({ done: done + answer.changed.length, refused: [...refused, ...answer.refused] });
  return answer;
}

async function sendIds(ids) {
  for (let at = 0; at < ids.length && !progress.value.isStopped; at += PER_REQUEST) {
    await send({ ids: ids.slice(at, at + PER_REQUEST) });
  }
}

async function sendAll(kind) {
  let cursor = null;
  do ({ next_cursor: cursor } = await send({ kind: kind || null, cursor }));
  while (cursor && !progress.value.isStopped);
}

/** Change the jobs with these ids, or all dead ones, or all of one kind. `total`: how many that are, as far as is known. */
export async function changeDeadJobs(action, { ids = null, kind = "", total }) {
  progress.value = { action, total, done: 0, refused: [], isStopped: false, isOver: false };
  try {
    await (ids ? sendIds(ids) : sendAll(kind));
  } finally {
    update({ isOver: true });
  }
  const { done, refused } = progress.value;
  const rest = refused.length ? `, ${refused.length} could not be changed` : "";
  showToast(`${VERBS[action]} ${pluralize(done, "dead letter")}${rest}.`, refused.length ? "warn" : "info");
}

export function BulkProgress() {
  const current = progress.value;
  if (!current || (current.isOver && !current.refused.length)) return null;
  const { action, total, done, refused, isOver } = current;
  const handled = done + refused.length;
  return html`<div class="bulk-progress" role="status">
    <p class="num">${VERBS[action]} ${done} of ${Math.max(total, handled)}</p>
    ${!isOver && html`<progress value=${handled} max=${Math.max(total, handled, 1)} aria-label="Progress"></progress>`}
    ${!isOver && html`<button class="btn small" onClick=${() => update({ isStopped: true })}>Stop</button>`}
    ${
      refused.length > 0 &&
      html`<details>
        <summary>${pluralize(refused.length, "dead letter")} could not be changed</summary>
        <ul class="sub">${refused.map(({ id, detail }) => html`<li key=${id} dir="auto">${detail}</li>`)}</ul>
      </details>`
    }
  </div>`;
}

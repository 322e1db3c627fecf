// The webhooks on the operator's page: where events are sent, and how that goes.
import { get, patch, post, remove } from "../core/api.js";
import { ask, attempt, showToast } from "../core/dialogs.js";
import { html, signal, useRef } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { Card, Empty, Icon, StatusIcon, Until } from "../core/ui.js";
import { Known } from "./parts.js";

const webhooks = signal(null);

export const load = async () => (webhooks.value = (await get("/v1/webhooks", { limit: 100 })).webhooks);

const reload = coalesce(load);
export const on = { webhook_changed: reload, job_dead: reload };

const ICONS = { active: "done", retrying: "delayed", paused: "paused", failed: "dead" };

const describeFilter = ({ kinds, conversation_id, goal_id }) =>
  [
    kinds.length ? kinds.join(", ") : "all events",
    conversation_id && `conversation ${conversation_id}`,
    goal_id && `goal ${goal_id}`,
  ]
    .filter(Boolean)
    .join(" · ");

/** Run a request about one webhook, and show what has become of it. */
const act = (request) =>
  attempt(async () => {
    const answer = await request();
    await load();
    return answer;
  });

function ReplayDialog({ dialog, path, after }) {
  const start = (event) => {
    event.preventDefault();
    const number = Number(event.currentTarget.after.value);
    act(async () => {
      await post(`${path}/replay`, { after: number });
      dialog.current.close();
      showToast(`Events after ${number} are delivered.`);
    });
  };
  return html`<dialog ref=${dialog} aria-label="Replay events">
    <h2>Replay events</h2>
    <p>Events after this number are delivered, again or for the first time. 0 delivers all that are stored.</p>
    <form class="fields" onSubmit=${start}>
      <label class="field">Number<input name="after" type="number" min="0" step="1" required defaultValue=${after} /></label>
      <div class="actions">
        <button class="btn" type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        <button class="btn primary">Replay</button>
      </div>
    </form>
  </dialog>`;
}

function Webhook({ webhook }) {
  const dialog = useRef();
  const { id, url, state, paused, error, failures, retry_at, after, description } = webhook;
  const { host } = new URL(url);
  const path = `/v1/webhooks/${id}`;
  const isStopped = paused || state === "failed";
  const toggle = () => act(() => patch(path, { paused: !isStopped }));
  const test = async () => {
    const delivery = (await act(() => post(`${path}/test`)))?.delivery;
    if (delivery) showToast(delivery.error ?? `${host} accepted the test.`, delivery.error ? "bad" : "info");
  };
  const askToDelete = () =>
    ask({
      title: `Delete the webhook to ${host}?`,
      text: "Events that were not delivered are not sent any more.",
      confirm: "Delete it",
      run: () => act(() => remove(path)),
    });
  const label = isStopped ? "Resume" : "Pause";
  return html`<li>
    <${StatusIcon} status=${ICONS[state]} decorative />
    <div class="grow">
      <div class="truncate" dir="auto">${url}</div>
      ${description && html`<div class="sub truncate" dir="auto">${description}</div>`}
      ${error && html`<div class="sub error" dir="auto">${error}</div>`}
      <div class="sub num">
        ${state} · ${describeFilter(webhook)} · delivered up to event ${after}
        ${retry_at > 0 && html` · attempt ${failures + 1} <${Until} at=${retry_at} />`}
      </div>
    </div>
    <div class="actions">
      <button class="btn small" aria-label="Test ${host}" onClick=${test}>Test</button>
      <button class="btn small" aria-label="Replay ${host}" onClick=${() => dialog.current.showModal()}>
        <${Icon} name="replan" />Replay
      </button>
      <button class="btn small" aria-label="${label} ${host}" onClick=${toggle}>${label}</button>
      <button class="btn small danger" aria-label="Delete ${host}" onClick=${askToDelete}>Delete</button>
    </div>
    <${ReplayDialog} dialog=${dialog} path=${path} after=${after} />
  </li>`;
}

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((webhook) => html`<${Webhook} key=${webhook.id} webhook=${webhook} />`)}</ul>`
    : html`<${Empty}>No webhooks. <code>headway webhook add</code> sends events to another system.<//>`;

export const Tab = () => html`<${Card} title="Webhooks" count=${webhooks.value?.length}>
  <${Known} value=${webhooks.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;

// Requests to people: one of them with its card, all open ones, and those decided last.

import { conversations, loadConversations } from "../chat/conversations.js";
import { get } from "../core/api.js";
import { html, signal, useMemo } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { Card, Empty, Main } from "../core/ui.js";
import { fetchRequests, isWaitingKnown, requests, toRequest } from "../core/waiting.js";
import { useStream } from "../core/watch.js";
import { NotificationSwitch } from "./notifications.js";
import { Origin, RequestItem, toItem } from "./request_item.js";

export const TITLE = "Inbox";

const DECIDED_COUNT = 30;

const decided = signal(null); // null: not loaded yet

async function loadDecided() {
  decided.value = (await fetchRequests({ state: "all", limit: 2 * DECIDED_COUNT }))
    .filter(({ isOpen }) => !isOpen)
    .toSorted((a, b) => b.decided_at - a.decided_at)
    .slice(0, DECIDED_COUNT);
}

/** One request, by its address. It is fetched, because it may have been decided long ago. */
function createSubject(id) {
  const fetched = signal(null);
  const isMissing = signal(false);
  const load = async () => {
    try {
      const { request } = await get(`/v1/inbox/${id}`);
      fetched.value = toRequest(request.kind, request);
    } catch (error) {
      if (error.status !== 404) throw error;
      isMissing.value = true;
    }
  };
  return { fetched, isMissing, load };
}

const List = ({ list }) => html`<ul class="requests">
  ${list.map(
    (request) => html`<${RequestItem}
      key=${request.key}
      item=${toItem(request)}
      origin=${html`<${Origin} request=${request} conversations=${conversations.value} />`}
    />`,
  )}
</ul>`;

function Subject({ subject }) {
  const { fetched, isMissing } = subject;
  if (isMissing.value) {
    return html`<p class="muted">There is no such request. It may belong to another tenant.</p>`;
  }
  if (!fetched.value) return null;
  const request = requests.value.find(({ key }) => key === fetched.value.key) ?? fetched.value;
  const title = request.isOpen ? "Waits for you" : "Decided";
  return html`<${Card} title=${title}><${List} list=${[request]} /><//>`;
}

/** The open requests. One that is decided here stays as a line, so that the focus stays with it. */
function Open({ except }) {
  const list = requests.value.filter(({ key }) => key !== except);
  const title = except ? "Other open requests" : "Open";
  if (!isWaitingKnown.value) return null;
  if (!list.length) return except ? null : html`<${Card} title=${title}><${Empty}>Nothing waits for you.<//><//>`;
  return html`<${Card} title=${title} count=${list.filter(({ isOpen }) => isOpen).length}><${List} list=${list} /><//>`;
}

function Decided() {
  const shown = new Set(requests.value.map(({ key }) => key));
  const list = decided.value?.filter(({ key }) => !shown.has(key)) ?? [];
  return list.length > 0 && html`<${Card} title="Decided last"><${List} list=${list} /><//>`;
}

export function Page({ id }) {
  const subject = useMemo(() => (id ? createSubject(id) : null), [id]);
  const reload = useMemo(() => coalesce(() => Promise.all([loadDecided(), subject?.load()])), [subject]);
  useStream("/v1/events", () => ({
    load: () => Promise.all([loadConversations(), loadDecided(), subject?.load()]).then(() => undefined),
    on: { approval_decided: reload, question_answered: reload, decision_made: reload },
  }));
  return html`<${Main}>
    <div class="title">
      <h1>${id ? `Request ${id}` : "Inbox"}</h1>
      ${id && html`<div class="actions"><a class="btn" href="/inbox">All requests</a></div>`}
    </div>
    ${subject && html`<${Subject} subject=${subject} />`}
    <${Open} except=${id && `request${id}`} />
    ${!id && html`<${Decided} /><${NotificationSwitch} />`}
  <//>`;
}

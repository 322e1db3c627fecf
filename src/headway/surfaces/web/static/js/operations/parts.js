// Pieces that several tabs of Operations share.
import { attempt } from "../core/dialogs.js";
import { html, useEffect } from "../core/lib.js";
import { navigate, path, search } from "../core/router.js";
import { Icon } from "../core/ui.js";

const WIDTHS = ["w70", "w88", "w56"];
const POLL_MS = 5_000;

/** The placeholder of content that the server has not sent yet. */
export const Skeletons = ({ count = 3 }) => html`<div class="skeletons in-card" role="status" aria-label="Loading">
  ${Array.from({ length: count }, (_, at) => html`<span key=${at} class="skeleton ${WIDTHS[at % 3]}"></span>`)}
</div>`;

/** Render a value once it is known. `value`: null until the server has answered. */
export const Known = ({ value, count, children }) => (value === null ? html`<${Skeletons} count=${count} />` : children(value));

export const ConversationLink = ({ id }) => (id ? html` · <a class="link" href="/c/${id}">conversation</a>` : null);
export const GoalLink = ({ id }) => (id > 0 ? html` · <a class="link" href="/goals/${id}">goal ${id}</a>` : null);

/** Fetch again every few seconds what changes without an event, while the page can be seen. */
export function usePolling(load) {
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) load().catch(() => {}); // the connection's own state says that the server is away
    }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
}

// Filters, in the address

/** The filters that the address names: the ones of `names` that have a value. */
export function getFilters(...names) {
  const parameters = new URLSearchParams(search.value);
  return Object.fromEntries(names.map((name) => [name, parameters.get(name)]).filter(([, value]) => value));
}

/** The address of this tab with other filters. An empty value removes one. */
export function buildAddress(changes) {
  const parameters = new URLSearchParams(search.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) parameters.set(name, value);
    else parameters.delete(name);
  }
  return parameters.size ? `${path.value}?${parameters}` : path.value;
}

export const setFilters = (changes) => navigate(buildAddress(changes), { replace: true });

/** Links to the next page of a list, and to its beginning. `cursor`: of the next page, or null. */
export function Pages({ cursor }) {
  const { cursor: current } = getFilters("cursor");
  if (!cursor && !current) return null;
  return html`<nav class="pages" aria-label="Pages">
    ${current && html`<a class="btn small" href=${buildAddress({ cursor: "" })}><${Icon} name="up" />Newest</a>`}
    ${cursor && html`<a class="btn small" href=${buildAddress({ cursor })}>Older<${Icon} name="chev" /></a>`}
  </nav>`;
}

// Jobs

export const JOB_STATES = ["queued", "running", "delayed", "completed", "canceled", "dead"];
export const JOB_KINDS = ["turn", "agent", "goal", "tool", "webhook", "notice"];

/** The purpose of a job, in a few words. */
export const describeJob = ({ kind, payload }) => payload.request ?? payload.task ?? payload.name ?? payload.text ?? kind;

/** Run an action, then fetch again. If the server refuses, show why. */
export const act = (run, reload) =>
  attempt(async () => {
    const answer = await run();
    await reload();
    return answer;
  });

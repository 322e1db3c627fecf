// Small pieces that every page is made of: icons, statuses, times, money.
import { html, signal } from "./lib.js";

const SPRITE = new URL("../../icons.svg", import.meta.url).pathname;

/** Add one of the site's style sheets to the document. The promise is kept when it applies. */
export function loadStyles(name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL(`../../${name}`, import.meta.url).pathname;
  document.head.append(link);
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => reject(new Error(`${name} could not be loaded`));
  });
}

export const Icon = ({ name, class: extra = "" }) =>
  html`<svg class="icon ${extra}" aria-hidden="true"><use href="${SPRITE}#${name}" /></svg>`;

// Every status has its own shape, so that colour is never the only difference.
const SHAPES = {
  active: "current",
  running: "current",
  in_progress: "current",
  "in-progress": "current",
  completed: "done",
  dead: "failed",
  abandoned: "failed",
  canceled: "skipped",
  waiting: "paused",
  delayed: "clock",
  queued: "pending",
};
const LABELS = { current: "in progress", in_progress: "in progress", "in-progress": "in progress" };

const getShape = (status) => SHAPES[status] ?? status;
export const getStatusLabel = (status) => LABELS[status] ?? status;
export const getStatusClass = (status) => `status-${getShape(status)}`;
export const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** `decorative`: text beside the icon names the status, so that screen readers skip the icon. */
export const StatusIcon = ({ status, decorative }) => html`<svg
  class="icon ${getStatusClass(status)} ${getShape(status) === "current" ? "spin" : ""}"
  role=${decorative ? null : "img"}
  aria-label=${decorative ? null : getStatusLabel(status)}
  aria-hidden=${decorative ? "true" : null}
><use href="${SPRITE}#${getShape(status)}" /></svg>`;

export const Pill = ({ status, label = capitalize(getStatusLabel(status)) }) => html`<span class="pill ${getStatusClass(status)}">
  <${StatusIcon} status=${status} decorative />${label}
</span>`;

export const now = signal(Date.now() / 1000);
setInterval(() => (now.value = Date.now() / 1000), 5_000);

export function formatDuration(seconds) {
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.round(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.round(s / 86400)}d`;
}

/** A relative time, with the exact one as its tooltip. */
const renderTime = (at, text) => html`<time
  class="num"
  dateTime=${new Date(at * 1000).toISOString()}
  title=${new Date(at * 1000).toLocaleString()}
>${text}</time>`;

// These read the clock themselves, so that nothing around them renders again as time passes.
export const Ago = ({ at }) => renderTime(at, now.value - at < 5 ? "just now" : `${formatDuration(now.value - at)} ago`);
export const Until = ({ at }) => renderTime(at, at <= now.value ? "now" : `in ${formatDuration(at - now.value)}`);

/** When a run whose model call failed retries it. Empty once that time has passed. */
export const RetryTime = ({ at }) => at > now.value && html` · retries its model <${Until} at=${at} />`;

export const formatMoney = (dollars) => `$${dollars.toFixed(dollars > 0 && dollars < 0.01 ? 4 : 2)}`;
export const pluralize = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

export function Ring({ value, total }) {
  const circumference = 2 * Math.PI * 6;
  const filled = (circumference * value) / total;
  return html`<svg class="ring" viewBox="0 0 16 16" aria-hidden="true">
    <circle class="track" cx="8" cy="8" r="6" />
    ${value > 0 && html`<circle class="value" cx="8" cy="8" r="6" stroke-dasharray="${filled} ${circumference}" />`}
  </svg>`;
}

/** A choice between a few options, shown side by side. */
export const Choice = ({ label, value, options, onChoose }) => html`<div class="segmented" role="group" aria-label=${label}>
  ${options.map(
    ([name, text]) => html`<button
      key=${name}
      type="button"
      aria-pressed=${String(value === name)}
      onClick=${() => onChoose(name)}
    >${text}</button>`,
  )}
</div>`;

/** The browser's own list of options, styled like the rest of the page. */
export function Select({ label, value, options, onChoose, title, compact }) {
  const onChange = (event) => onChoose(event.currentTarget.value);
  return html`<span class="select ${compact ? "compact" : ""}">
    <select aria-label=${label} value=${value} title=${title} onChange=${onChange}>
      ${options.map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}
    </select><${Icon} name="chev" />
  </span>`;
}

export const Card = ({ title, count, actions, children, id }) => html`<section class="card" id=${id} aria-label=${title}>
  <header>
    <h2>${title}</h2>
    ${count !== undefined && html`<span class="count num">${count}</span>`}
    <span class="grow"></span>
    ${actions}
  </header>
  ${children}
</section>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** The frame of every page except the chat. */
export const Main = ({ children }) => html`<main class="main" id="main" tabindex="-1"><div class="page">${children}</div></main>`;

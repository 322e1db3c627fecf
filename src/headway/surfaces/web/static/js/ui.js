// Small pieces that every page is made of: icons, statuses, times, money.
import { html, signal } from "./lib.js";

const SPRITE = new URL("../icons.svg", import.meta.url).pathname;

export const Icon = ({ n, c = "" }) => html`<svg class="i ${c}" aria-hidden="true"><use href="${SPRITE}#${n}" /></svg>`;

// Every status has a shape of its own, never only a colour.
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
const WORDS = { current: "in progress", in_progress: "in progress", "in-progress": "in progress" };

const shape = (status) => SHAPES[status] ?? status;
export const word = (status) => WORDS[status] ?? status;
export const tone = (status) => `st-${shape(status)}`;
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** `quiet`: the word stands beside it. */
export const Status = ({ s, quiet }) => html`<svg
  class="i ${tone(s)} ${shape(s) === "current" ? "spin" : ""}"
  role=${quiet ? null : "img"}
  aria-label=${quiet ? null : word(s)}
  aria-hidden=${quiet ? "true" : null}
><use href="${SPRITE}#${shape(s)}" /></svg>`;

export const Pill = ({ s }) => html`<span class="pill ${tone(s)}"><${Status} s=${s} quiet />${capital(word(s))}</span>`;

export const now = signal(Date.now() / 1000);
setInterval(() => (now.value = Date.now() / 1000), 5_000);

export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.round(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.round(s / 86400)}d`;
}

/** How long ago; the exact time on demand. Reads the clock itself, so that nothing around it is drawn again. */
export const Ago = ({ t }) =>
  html`<time class="num" dateTime=${new Date(t * 1000).toISOString()} title=${new Date(t * 1000).toLocaleString()}>${now.value - t < 5 ? "just now" : `${span(now.value - t)} ago`}</time>`;
export const Until = ({ t }) =>
  html`<time class="num" dateTime=${new Date(t * 1000).toISOString()} title=${new Date(t * 1000).toLocaleString()}>${t <= now.value ? "now" : `in ${span(t - now.value)}`}</time>`;

/** Of a run whose model failed and is asked again later; a run that went on does not say so. */
export const Delay = ({ t }) => t > now.value && html` · asks its model again <${Until} t=${t} />`;

export const money = (dollars) => (dollars > 0 && dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`);
export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

export function Ring({ value, total }) {
  const around = 2 * Math.PI * 6;
  return html`<svg class="ring" viewBox="0 0 16 16" aria-hidden="true">
    <circle class="track" cx="8" cy="8" r="6" />
    ${value > 0 && html`<circle class="value" cx="8" cy="8" r="6" stroke-dasharray="${(around * value) / total} ${around}" />`}
  </svg>`;
}

/** One of a few, side by side. */
export const Choice = ({ label, value, options, onChoose }) => html`<div class="seg" role="group" aria-label=${label}>
  ${options.map(([name, text]) => html`<button key=${name} type="button" aria-pressed=${String(value === name)} onClick=${() => onChoose(name)}>${text}</button>`)}
</div>`;

/** A list to choose from that looks like the rest of the page. */
export const Select = ({
  label,
  value,
  options,
  onChoose,
  title,
  quiet,
}) => html`<span class="select ${quiet ? "quiet-select" : ""}">
  <select aria-label=${label} value=${value} title=${title} onChange=${(event) => onChoose(event.currentTarget.value)}>${options.map(([name, text]) => html`<option key=${name} value=${name}>${text}</option>`)}</select><${Icon} n="chev" />
</span>`;

export const Card = ({ title, count, actions, children, id }) => html`<section class="card" id=${id} aria-label=${title}>
  <header><h2>${title}</h2>${count !== undefined && html`<span class="count num">${count}</span>`}<span class="grow"></span>${actions}</header>
  ${children}
</section>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// Pieces that several tabs of Operations share.
import { html } from "../core/lib.js";

const WIDTHS = ["w70", "w88", "w56"];

/** What stands for content that the server has not sent yet. */
export const Skeletons = ({ count = 3 }) => html`<div class="skeletons in-card" role="status" aria-label="Loading">
  ${Array.from({ length: count }, (_, at) => html`<span key=${at} class="skeleton ${WIDTHS[at % 3]}"></span>`)}
</div>`;

/** Render a value once it is known. `value`: null until the server has answered. */
export const Known = ({ value, count, children }) => (value === null ? html`<${Skeletons} count=${count} />` : children(value));

export const ConversationLink = ({ id }) => (id ? html` · <a class="link" href="/c/${id}">conversation</a>` : null);
export const GoalLink = ({ id }) => (id > 0 ? html` · <a class="link" href="/goals/${id}">goal ${id}</a>` : null);

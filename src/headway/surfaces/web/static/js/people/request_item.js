// A request to a person: a card while it is open, a line like other tool calls once it is decided.

import { formatTitle } from "../chat/conversations.js";
import { CallDetails } from "../chat/tool_line.js";
import { createLazy } from "../core/dialogs.js";
import { html, useRef } from "../core/lib.js";

// Loaded with the first request that is open: most conversations have none.
const Card = createLazy(async () => (await import("./request_card.js")).RequestCard);

/** Where a request comes from. */
export function Origin({ request, conversations = [] }) {
  if (request.goal_id) return html`<a class="link" href="/goals/${request.goal_id}">goal ${request.goal_id}</a>`;
  if (!request.conversation_id) return null;
  const known = conversations.find(({ id }) => id === request.conversation_id) ?? { id: request.conversation_id };
  return html`<a class="link" href="/c/${request.conversation_id}" dir="auto">${formatTitle(known)}</a>`;
}

/** `item`: an entry of a timeline with a request, or one made by `toItem`. The element stays when the card becomes a line. */
export function RequestItem({ item, origin }) {
  const element = useRef();
  const { request } = item;
  const settle = () => element.current.focus({ preventScroll: true });
  return html`<li ref=${element} class=${request.isOpen ? "request" : "tool-line"} tabindex="-1">
    ${
      request.isOpen
        ? html`<${Card} request=${request} settle=${settle} origin=${origin} />`
        : html`<${CallDetails} item=${item} origin=${origin && html`<p class="faint small">It worked in ${origin}.</p>`} />`
    }
  </li>`;
}

const CALLS = {
  approval: ({ tool, arguments: args }) => ({ tool, arguments: args }),
  question: ({ question, choices }) => ({ tool: "ask_person", arguments: { question, choices } }),
  decision: ({ goal_id, answer }) => ({ tool: "decision", arguments: { goal: goal_id, answer } }),
};

/** An entry for a request whose call is not loaded. */
export const toItem = (request) => ({
  key: request.key,
  type: "tool",
  ...CALLS[request.kind](request),
  state: "done",
  request,
});

// The list of conversations beside the chat.
import { get } from "./api.js";
import { html, signal, useRef } from "./lib.js";
import { Icon } from "./ui.js";

export const conversations = signal([]);
const more = signal(false);
const PAGE = 50;

export async function loadConversations() {
  const found = (await get("/v1/conversations", { limit: PAGE })).conversations;
  more.value = found.length === PAGE;
  const older = conversations.value.filter((one) => one.id < (found.at(-1)?.id ?? 0));
  conversations.value = [...found, ...older];
}

async function loadOlder() {
  const found = (await get("/v1/conversations", { limit: PAGE, before: conversations.value.at(-1).id })).conversations;
  more.value = found.length === PAGE;
  conversations.value = [...conversations.value, ...found];
}

export const titleOf = (id) =>
  conversations.value.find((one) => one.id === id)?.title || (id ? `Conversation ${id}` : "New conversation");

const List = ({ id, onChoose }) => html`<ul class="talks">
  ${conversations.value.map((one) => html`<li key=${one.id}><a class="nav cut" href="/c/${one.id}" aria-current=${one.id === id ? "true" : null} onClick=${onChoose} dir="auto" title=${one.title}>${one.title || `Conversation ${one.id}`}</a></li>`)}
  ${more.value && html`<li><button class="btn ghost small" onClick=${loadOlder}>Show older</button></li>`}
</ul>`;

/** Beside the navigation where there is room. */
export const Side = ({ id }) => html`<section class="talks-side" aria-label="Conversations">
  <header><h2>Conversations</h2><a class="btn ghost icon small" href="/" aria-label="New conversation" title="New conversation"><${Icon} n="plus" /></a></header>
  <${List} id=${id} />
</section>`;

/** In a drawer where there is not. */
export function Drawer({ id }) {
  const dialog = useRef();
  const close = () => dialog.current.close();
  return html`<button class="btn ghost icon narrow-only" aria-label="Conversations" onClick=${() => dialog.current.showModal()}><${Icon} n="menu" /></button>
    <dialog ref=${dialog} class="drawer" aria-label="Conversations" onClick=${(event) => event.target === dialog.current && close()}>
      <header><h2>Conversations</h2><button class="btn ghost icon small" aria-label="Close" onClick=${close}><${Icon} n="close" /></button></header>
      <a class="btn wide" href="/" onClick=${close}><${Icon} n="plus" />New conversation</a>
      <${List} id=${id} onChoose=${close} />
    </dialog>`;
}

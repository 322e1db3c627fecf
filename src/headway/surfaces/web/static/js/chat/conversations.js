// The list of conversations beside the chat.
import { get } from "../core/api.js";
import { html, signal, useRef } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";

export const conversations = signal([]);
const hasMore = signal(false);
const PAGE_SIZE = 50;

const fetchPage = async (query) => (await get("/v1/conversations", { limit: PAGE_SIZE, ...query })).conversations;

export async function loadConversations() {
  const newest = await fetchPage();
  hasMore.value = newest.length === PAGE_SIZE;
  const older = conversations.value.filter(({ id }) => id < (newest.at(-1)?.id ?? 0));
  conversations.value = [...newest, ...older];
}

async function loadOlder() {
  const older = await fetchPage({ before: conversations.value.at(-1).id });
  hasMore.value = older.length === PAGE_SIZE;
  conversations.value = [...conversations.value, ...older];
}

export const formatTitle = ({ id, title }) => title || `Conversation ${id}`;

export const getTitle = (id) =>
  id ? formatTitle(conversations.value.find((conversation) => conversation.id === id) ?? { id }) : "New conversation";

/** How many requests of a conversation's agents wait for a person. */
function WaitingCount({ id }) {
  const count = openRequests.value.filter(({ conversation_id }) => conversation_id === id).length;
  return count > 0 && html`<span class="count waiting">${count}<span class="sr-only"> waiting for you</span></span>`;
}

const ConversationList = ({ id, onChoose }) => html`<ul class="conversation-list">
  ${conversations.value.map(
    (conversation) => html`<li key=${conversation.id}>
      <a
        class="nav-item"
        href="/c/${conversation.id}"
        aria-current=${conversation.id === id ? "true" : null}
        onClick=${onChoose}
        title=${conversation.title}
      ><span class="truncate" dir="auto">${formatTitle(conversation)}</span><${WaitingCount} id=${conversation.id} /></a>
    </li>`,
  )}
  ${hasMore.value && html`<li><button class="btn ghost small" onClick=${loadOlder}>Show older</button></li>`}
</ul>`;

/** The list on wide screens, below the navigation. */
export const Sidebar = ({ id }) => html`<section class="conversations" aria-label="Conversations">
  <header>
    <h2>Conversations</h2>
    <a class="btn ghost icon-only small" href="/" aria-label="New conversation" title="New conversation"><${Icon} name="plus" /></a>
  </header>
  <${ConversationList} id=${id} />
</section>`;

/** The list on narrow screens, in a drawer. */
export function Drawer({ id }) {
  const dialog = useRef();
  const open = () => dialog.current.showModal();
  const close = () => dialog.current.close();
  const closeOutside = (event) => event.target === dialog.current && close();
  return html`<button class="btn ghost icon-only narrow-only" aria-label="Conversations" onClick=${open}>
      <${Icon} name="menu" />
    </button>
    <dialog ref=${dialog} class="drawer" aria-label="Conversations" onClick=${closeOutside}>
      <header>
        <h2>Conversations</h2>
        <button class="btn ghost icon-only small" aria-label="Close" onClick=${close}><${Icon} name="close" /></button>
      </header>
      <a class="btn wide" href="/" onClick=${close}><${Icon} name="plus" />New conversation</a>
      <${ConversationList} id=${id} onChoose=${close} />
    </dialog>`;
}

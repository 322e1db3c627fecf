// The log of a conversation: its blocks, what is happening now, and the way back to the end.
import { attempt } from "../core/dialogs.js";
import { html, PureComponent, useEffect, useRef } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { toItem } from "../people/request_item.js";
import { useFollowing } from "./following.js";

const CHUNK_SIZE = 40; // blocks that are compared and laid out together: an event changes only the last of these chunks

class Chunk extends PureComponent {
  shouldComponentUpdate({ blocks }) {
    return blocks.length !== this.props.blocks.length || blocks.some((block, n) => block !== this.props.blocks[n]);
  }

  render({ blocks, conversationId, Item }) {
    return html`<ol class=${blocks.length === CHUNK_SIZE ? "full" : ""}>
      ${blocks.map((block) => html`<${Item} key=${block.key} item=${block} conversationId=${conversationId} />`)}
    </ol>`;
  }
}

function* splitIntoChunks(blocks) {
  for (let start = 0; start < blocks.length; start += CHUNK_SIZE) yield blocks.slice(start, start + CHUNK_SIZE);
}

/** The open requests of a conversation whose events are further back than the blocks go. */
function listMissingRequests(timeline, conversationId) {
  const known = new Set(timeline.items.value.map(({ key }) => key));
  return openRequests.value.filter(({ key, conversation_id }) => conversation_id === conversationId && !known.has(key)).map(toItem);
}

/** Go to a message that was sent from here: while the input has the focus, a new one comes from there. */
function useOwnMessages(timeline, jump) {
  const last = timeline.items.value.findLast(({ type }) => type === "user")?.key;
  const before = useRef(last);
  useEffect(() => {
    if (last !== before.current && document.activeElement?.closest(".composer")) jump();
    before.current = last;
  }, [last]);
}

const Skeleton = () => html`<div class="log" aria-busy="true">
  <div class="loading-lines log-skeleton" role="status">
    <span class="sr-only">Loading the conversation…</span><i></i><i></i><i></i><i></i>
  </div>
</div>`;

function LoadedLog({ timeline, id, Item, Activity }) {
  const { box, list, isFollowing, jump } = useFollowing();
  useOwnMessages(timeline, jump);
  const goBack = () => {
    jump();
    box.current.focus({ preventScroll: true }); // the button disappears
  };
  const running = timeline.running.value;
  const blocks = [...timeline.blocks.value, ...listMissingRequests(timeline, id)];
  const waiting = blocks.filter(({ request }) => request?.isOpen && request.turn_id === running?.id).length;
  return html`<div class="log" ref=${box} tabindex="0" role="log" aria-label="Conversation">
      <div class="log-list" ref=${list}>
        ${
          timeline.hasEarlier.value &&
          html`<button class="btn small center" onClick=${() => attempt(timeline.loadEarlier)}>Show earlier messages</button>`
        }
        ${[...splitIntoChunks(blocks)].map(
          (chunk, n) => html`<${Chunk} key=${n} blocks=${chunk} conversationId=${id} Item=${Item} />`,
        )}
        <ol><${Activity} timeline=${timeline} waiting=${waiting} /></ol>
      </div>
    </div>
    ${
      !isFollowing && html`<button class="btn small scroll-to-end" onClick=${goBack}><${Icon} name="down" />Jump to latest</button>`
    }`;
}

/** `Item` renders a block, `Activity` the line below the last one. Until the server has answered, nothing is known to show. */
export const Log = (properties) =>
  properties.timeline.isLoaded.value ? html`<${LoadedLog} ...${properties} />` : html`<${Skeleton} />`;

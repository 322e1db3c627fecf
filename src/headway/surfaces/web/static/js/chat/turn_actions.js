// The actions of people on a message or a call of a past step: send or write it again, or fork the turn there.

import { get } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { useFocusBack } from "../core/focus.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { CopyButton } from "../markdown/copy_button.js";
import { getTitle } from "./conversations.js";
import { continueLive, forkAtMessage, forkedTurn, LiveChoice, useLiveChoice } from "./forks.js";

/** `hint`: what will happen, for the tooltip. */
const renderAction = (label, hint, icon, onClick, extra) => html`<button
  class="btn ghost icon-only tiny"
  aria-label=${label}
  title="${label}: ${hint}"
  onClick=${onClick}
  ...${extra}
><${Icon} name=${icon} /></button>`;

const firstLine = (text) => text.trim().split("\n", 1)[0];

/** Open the dialog at the step that wrote a message. */
const forkAfterMessage = ({ turnId, text }) =>
  (forkedTurn.value = { turnId, find: (steps) => steps.findLast((step) => step.text.includes(firstLine(text)))?.step });

/** Open the dialog at the step that made a call. Calls in the list of steps have no ids, so the last one like it counts. */
export const forkAfterCall = ({ turnId, tool, arguments: given }) =>
  (forkedTurn.value = {
    turnId,
    find: (steps) => {
      const isSame = (call) => call.tool === tool && call.arguments === JSON.stringify(given);
      const isLike = (call) => call.tool === tool;
      return (steps.findLast(({ calls }) => calls.some(isSame)) ?? steps.findLast(({ calls }) => calls.some(isLike)))?.step;
    },
  });

export function AnswerActions({ item, conversationId }) {
  const [isBusy, setIsBusy] = useState(false);
  const tryAgain = async () => {
    setIsBusy(true);
    await attempt(() => forkAtMessage(conversationId, item.id, { live: true }));
    setIsBusy(false);
  };
  return html`<div class="message-actions">
    <${CopyButton} text=${item.text} label="Copy answer" />
    ${renderAction("Try again", "another answer, in a new conversation", "replan", tryAgain, { disabled: isBusy })}
    ${renderAction("Fork from here", "choose a step, a model and a message", "fork", () => forkAfterMessage(item))}
  </div>`;
}

/** A message of the user, or the form to edit it. */
export function Editable({ item, conversationId, children }) {
  const [isEditing, setIsEditing] = useState(false);
  const button = useFocusBack(isEditing);
  if (isEditing) {
    const close = () => setIsEditing(false);
    return html`<li><${EditForm} item=${item} conversationId=${conversationId} onClose=${close} /></li>`;
  }
  const edit = () => setIsEditing(true);
  return html`<li class="msg user" dir="auto">
    ${children}
    <div class="message-actions">
      <${CopyButton} text=${item.text} label="Copy message" />
      ${renderAction("Edit message", "send it again, in a new conversation", "edit", edit, { ref: button })}
    </div>
  </li>`;
}

/** The message as a form. Sent, it begins a copy of the conversation. */
function EditForm({ item, conversationId, onClose }) {
  const field = useRef();
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const [isLive, chooseLive] = useLiveChoice("edit-live", true);
  useLayoutEffect(() => field.current.focus(), []);
  const send = async (event) => {
    event.preventDefault();
    const message = field.current.value;
    if (!message.trim() || isBusy) return;
    setIsBusy(true);
    setProblem("");
    try {
      await forkAtMessage(conversationId, item.id, { message, live: isLive });
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
  };
  return html`<form class="edit-message" aria-label="Edit the message" onSubmit=${send} onKeyDown=${onKeyDown}>
    <textarea ref=${field} aria-label="Message to send again" rows="2" dir="auto" required defaultValue=${item.text}></textarea>
    <p class="muted small">A copy of this conversation up to here continues with it. This one stays as it is.</p>
    <${LiveChoice} isLive=${isLive} onChange=${chooseLive} />
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    <div class="actions">
      <button class="btn primary small" disabled=${isBusy} title="Send (Ctrl Enter)">Send in a new conversation</button>
      <button type="button" class="btn ghost small" onClick=${onClose} title="Cancel (Esc)">Cancel</button>
    </div>
  </form>`;
}

/** The origin of a forked turn. */
export function ForkNote({ item }) {
  const [conversationId, setConversationId] = useState(null);
  const { turn_id: originId, at } = item.origin;
  useEffect(() => {
    get(`/v1/turns/${originId}`).then(
      ({ turn }) => setConversationId(turn.conversation_id),
      () => {}, // without the conversation there is no link
    );
  }, [originId]);
  const origin = conversationId
    ? html`<a class="link" href="/c/${conversationId}" dir="auto">${getTitle(conversationId)}</a>`
    : "another turn";
  return html`<li class="turn-note">
    <${Icon} name="fork" />
    <span class="grow">Forked from ${origin} ${at ? `after step ${at}` : "at its request"}. The original is unchanged.</span>
    <a class="btn small" href="/compare/${originId}/${item.turnId}"><${Icon} name="compare" />Compare</a>
  </li>`;
}

/** A fork that had to stop, because a call has no recorded result. The runtime's closing words say which. */
export function NeedsLiveNote({ item }) {
  const [isBusy, setIsBusy] = useState(false);
  const proceed = async () => {
    setIsBusy(true);
    await attempt(() => continueLive(item.turnId));
    setIsBusy(false);
  };
  return html`<li class="turn-note warn">
    <${Icon} name="warn" />
    <div class="grow">
      <strong>This fork needs the real world.</strong> ${
        item.text ? html`<span dir="auto">${item.text}</span>` : "It makes no new calls, because it is not live."
      }
    </div>
    <button class="btn small" disabled=${isBusy} onClick=${proceed}><${Icon} name="play" />Continue live</button>
  </li>`;
}

// The message input. A typed message stays until the server has accepted it.
import { ApiError, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, preferences, signal, useEffect, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { navigate } from "../core/router.js";
import { Icon, Select } from "../core/ui.js";
import { halt } from "../core/watch.js";
import { AttachButton, AttachedFiles } from "./attachments.js";
import { changeDraft, getDraft, replaceDraft, saveDraft } from "./drafts.js";
import { DropTarget } from "./file_drop.js";
import { addWithinLimits, createSender, encodeFiles } from "./uploads.js";

const MODES = [
  ["plan", "Plan", "The agent makes a plan and works through it"],
  ["queue", "Queue", "One item at a time; an assessor checks each answer"],
];
const UNREADABLE_FILE = "A file can no longer be read. Remove it, or attach it again.";
const FILES_WAIT = "A running agent takes no files. Remove them, or send the message when it has answered.";
const ENDED = "The agent has just finished, so it cannot read this any more.";
const NO_TEXT = "Write what the agent should do with the files.";
const FOLDER = "A folder cannot be attached. Attach the files in it.";
const mode = signal(preferences.get("mode") === "queue" ? "queue" : "plan");

const Problem = ({ text, retry, onRetry }) => html`<p class="problem" role="alert">
  <${Icon} name="warn" />
  <span class="grow" dir="auto">${text}</span>
  ${retry && html`<button type="button" class="btn small" onClick=${onRetry}>${retry}</button>`}
</p>`;

const SendButton = ({ running, isBusy }) => html`<button
  class="send"
  aria-label="Send"
  title=${running ? "Send to the running agent (Enter)" : "Send (Enter)"}
  disabled=${isBusy}
><${Icon} name="send" /></button>`;

function StopButton({ running }) {
  const stop = () => attempt(() => post(`/v1/turns/${running.id}/cancel`));
  return html`<button type="button" class="send stop" aria-label="Stop" title="Stop the agent" onClick=${stop}>
    <${Icon} name="stop" />
  </button>`;
}

/** Send a message to the running turn. Returns the turn's id. */
async function sendToTurn(turnId, { text, files, key }) {
  if (files.length) throw new ApiError(422, "invalid", FILES_WAIT);
  await post(`/v1/turns/${turnId}/messages`, { content: text }, `${key}-${turnId}`);
  return turnId;
}

/** Start a turn with a message, in a new conversation if `id` is null. Returns where the message is: {conversationId, turnId}. */
async function startTurn(id, { text, files, key }, onProgress) {
  const message = { content: text, mode: mode.value };
  if (files.length) message.attachments = await encodeFiles(files);
  const send = files.length ? createSender(onProgress) : fetch;
  if (id) return { conversationId: id, turnId: (await post(`/v1/conversations/${id}/messages`, message, key, send)).turn_id };
  // In one request, so that a message that the server refuses leaves no conversation behind.
  const started = await post("/v1/conversations", { message }, key, send);
  return { conversationId: started.conversation.id, turnId: started.turn_id };
}

/** Send a draft, and keep what is typed meanwhile as the next one. Returns where the message is: {conversationId, turnId}. */
async function sendDraft(id, runningId, onProgress) {
  const draft = getDraft(id);
  const sent = { ...draft }; // the draft may change meanwhile. A retry has the same key, so that the server stores the message once
  draft.isTried = true;
  saveDraft(id);
  try {
    const place = runningId
      ? { conversationId: id, turnId: await sendToTurn(runningId, sent) }
      : await startTurn(id, sent, onProgress);
    const files = draft.files.filter((file) => !sent.files.includes(file));
    replaceDraft(id, { text: getLaterText(draft.text, sent.text), files }, place.conversationId);
    return place;
  } catch (error) {
    if (error.status && error.status < 500) changeDraft(id, {}); // the server rejected it: the next attempt is a new request
    throw error;
  }
}

/** The text that was typed while the message was being sent. */
const getLaterText = (text, sent) => (text.startsWith(sent) ? text.slice(sent.length).trimStart() : text);

/** The problem that a failed attempt shows. Other errors are ours, and rise. */
function explainFailure(error, runningId) {
  if (error instanceof DOMException) return { text: UNREADABLE_FILE, retry: "Try again" };
  if (!(error instanceof ApiError)) throw error;
  const hasEnded = runningId && error.code === "turn_ended";
  return hasEnded ? { text: ENDED, retry: "Send as a new message", startsTurn: true } : { text: error.message, retry: "Try again" };
}

const LostFiles = ({ names }) => html`<p class="lost-files muted" role="status">
  <span dir="auto">Not kept over the reload: ${names.join(", ")}.</span> Attach ${names.length > 1 ? "them" : "it"} again.
</p>`;

function choosePlaceholder(running) {
  if (halt.value.halted) return "Everything is halted";
  return running ? "Message the running agent" : "Message Headway";
}

/** Whether Enter only chooses what an input method offers. Safari says so by the code. */
const isComposing = (event) => event.isComposing || event.keyCode === 229;

export function Composer({ id, running, suggestion }) {
  const field = useRef();
  const [problem, setProblem] = useState(null); // {text, retry: the button's label, startsTurn}
  const [isBusy, setIsBusy] = useState(false);
  const [progress, setProgress] = useState(null); // which share of the files has been sent
  const isSending = useRef(false);
  const isQueued = useRef(false); // Enter was pressed while a message was being sent
  const [, setVersion] = useState(0);
  const draft = getDraft(id);
  const changeFiles = (files) => {
    changeDraft(id, { files, lostFiles: [] });
    setVersion((version) => version + 1); // renders again
  };
  const addFiles = (added, count = added.length) => {
    const { files, problem: refusal } = addWithinLimits(getDraft(id).files, added);
    changeFiles(files);
    const text = [refusal, count > added.length && FOLDER].filter(Boolean).join(" ");
    if (text) setProblem({ text });
  };

  useLayoutEffect(() => {
    field.current.value = draft.text;
    if (matchMedia("(hover: hover)").matches) field.current.focus({ preventScroll: true });
  }, [id]);
  useEffect(() => {
    if (!suggestion) return;
    field.current.value = suggestion.text;
    changeDraft(id, { text: suggestion.text });
    field.current.focus();
  }, [suggestion]);

  /** Send the draft, and then what was entered meanwhile. */
  const sendAll = async (runningId) => {
    let place = { conversationId: id, turnId: runningId };
    try {
      do {
        isQueued.current = false;
        place = await sendDraft(place.conversationId, place.turnId, setProgress);
        if (field.current) field.current.value = getDraft(place.conversationId).text;
      } while (isQueued.current && getDraft(place.conversationId).text.trim());
    } finally {
      if (place.conversationId !== id) navigate(`/c/${place.conversationId}`);
    }
  };
  const send = async (runningId) => {
    const { text, files } = getDraft(id);
    isQueued.current = isSending.current;
    if (isSending.current) return;
    if (!text.trim()) return files.length > 0 && setProblem({ text: NO_TEXT });
    isSending.current = true;
    setIsBusy(true);
    setProblem(null);
    setProgress(files.length ? 0 : null);
    try {
      await sendAll(runningId);
    } catch (error) {
      setProblem(explainFailure(error, runningId));
    } finally {
      isSending.current = false;
      setIsBusy(false);
      setProgress(null);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    send(running?.id);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !isComposing(event)) submit(event);
  };
  const onPaste = (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    addFiles([...event.clipboardData.files]);
  };
  const chooseMode = (name) => {
    mode.value = name;
    preferences.set("mode", mode.value);
    changeDraft(id, {});
  };
  return html`<form class="composer" onSubmit=${submit} aria-busy=${String(isBusy)}>
    <${DropTarget} onDrop=${addFiles} />
    ${problem && html`<${Problem} ...${problem} onRetry=${() => send(problem.startsTurn ? null : running?.id)} />`}
    ${
      draft.files.length > 0 &&
      html`<${AttachedFiles}
        files=${draft.files}
        progress=${progress}
        onRemove=${(file) => changeFiles(draft.files.filter((other) => other !== file))}
      />`
    }
    ${draft.lostFiles.length > 0 && html`<${LostFiles} names=${draft.lostFiles} />`}
    <textarea
      ref=${field}
      name="text"
      rows="1"
      dir="auto"
      placeholder=${choosePlaceholder(running)}
      aria-label="Message"
      onInput=${(event) => changeDraft(id, { text: event.currentTarget.value })}
      onKeyDown=${onKeyDown}
      onPaste=${onPaste}
    ></textarea>
    <div class="composer-actions">
      <${AttachButton} onFiles=${addFiles} />
      ${
        !running &&
        html`<${Select}
          compact
          label="Work mode"
          value=${mode.value}
          options=${MODES}
          title=${MODES.find(([name]) => name === mode.value)[2]}
          onChoose=${chooseMode}
        />`
      }
      <${SendButton} running=${running} isBusy=${isBusy} />
      ${running && html`<${StopButton} running=${running} />`}
    </div>
  </form>`;
}

// The message input. A typed message stays until the server has accepted it.
import { ApiError, createKey, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, preferences, signal, useEffect, useRef, useState } from "../core/lib.js";
import { navigate } from "../core/router.js";
import { Icon, Select } from "../core/ui.js";
import { halt } from "../core/watch.js";
import { AttachButton, AttachedFiles, encodeFiles } from "./attachments.js";

const MODES = [
  ["plan", "Plan", "The agent makes a plan and works through it"],
  ["queue", "Queue", "One item at a time; an assessor checks each answer"],
];
const UNREADABLE_FILE = "A file can no longer be read. Remove it, or attach it again.";
const FILES_WAIT = "A running agent takes no files. Remove them, or send the message when it has answered.";
const ENDED = "The agent has just finished, so it cannot read this any more.";
const mode = signal(preferences.get("mode") === "queue" ? "queue" : "plan");
const drafts = new Map(); // by conversation: {text, files, key}

const getDraft = (id) => {
  if (!drafts.has(id)) drafts.set(id, { text: "", files: [], key: createKey() });
  return drafts.get(id);
};

const Problem = ({ text, retry, onRetry }) => html`<p class="problem" role="alert">
  <${Icon} name="warn" />
  <span class="grow" dir="auto">${text}</span>
  <button type="button" class="btn small" onClick=${onRetry}>${retry}</button>
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

/** Send a message to the running turn. */
async function sendToTurn(turnId, draft, content) {
  if (draft.files.length) throw new ApiError(422, "invalid", FILES_WAIT);
  await post(`/v1/turns/${turnId}/messages`, { content }, `${draft.key}-${turnId}`);
}

/** Start a turn with a message, in a new conversation if `id` is null. Returns the conversation's id. */
async function startTurn(id, draft, content) {
  const message = { content, mode: mode.value };
  if (draft.files.length) message.attachments = await encodeFiles(draft.files);
  // A retry carries the same key, so that the server stores the message once. A message that it refuses leaves no conversation.
  if (!id) return (await post("/v1/conversations", { message }, draft.key)).conversation.id;
  await post(`/v1/conversations/${id}/messages`, message, draft.key);
  return id;
}

/** What was typed while the message was being sent. */
const getLaterText = (text, sent) => (text.startsWith(sent) ? text.slice(sent.length).trimStart() : text);

function choosePlaceholder(running) {
  if (halt.value.halted) return "Everything is halted";
  return running ? "Message the running agent" : "Message Headway";
}

export function Composer({ id, running, suggestion }) {
  const field = useRef();
  const [problem, setProblem] = useState(null); // {text, retry: the button's label, startsTurn}
  const [isBusy, setIsBusy] = useState(false);
  const draft = getDraft(id);
  const [, setFiles] = useState(draft.files); // renders again when the draft's files change
  const changeFiles = (files) => {
    draft.files = files;
    setFiles(files);
  };
  const addFiles = (files) => changeFiles([...draft.files, ...files]);

  useEffect(() => {
    field.current.value = draft.text;
    if (matchMedia("(hover: hover)").matches) field.current.focus({ preventScroll: true });
  }, [id]);
  useEffect(() => {
    if (!suggestion) return;
    field.current.value = draft.text = suggestion.text;
    field.current.focus();
  }, [suggestion]);

  const send = async (turnId) => {
    const content = field.current.value;
    if (!content.trim() || isBusy) return;
    setIsBusy(true);
    setProblem(null);
    try {
      const to = turnId ? await sendToTurn(turnId, draft, content) : await startTurn(id, draft, content);
      drafts.delete(id);
      if (field.current) field.current.value = getDraft(id).text = getLaterText(field.current.value, content);
      if (!id) navigate(`/c/${to}`);
    } catch (error) {
      if (error instanceof DOMException) return setProblem({ text: UNREADABLE_FILE, retry: "Try again" });
      if (!(error instanceof ApiError)) throw error;
      if (error.status && error.status < 500) draft.key = createKey(); // the server rejected it: the next attempt is a new request
      const hasEnded = turnId && error.code === "turn_ended";
      setProblem(
        hasEnded ? { text: ENDED, retry: "Send as a new message", startsTurn: true } : { text: error.message, retry: "Try again" },
      );
    } finally {
      setIsBusy(false);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    send(running?.id);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const onPaste = (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    addFiles([...event.clipboardData.files]);
  };
  const chooseMode = (name) => {
    mode.value = name;
    preferences.set("mode", mode.value);
  };
  return html`<form class="composer" onSubmit=${submit}>
    ${problem && html`<${Problem} ...${problem} onRetry=${() => send(problem.startsTurn ? null : running?.id)} />`}
    ${
      draft.files.length > 0 &&
      html`<${AttachedFiles}
        files=${draft.files}
        onRemove=${(file) => changeFiles(draft.files.filter((other) => other !== file))}
      />`
    }
    <textarea
      ref=${field}
      name="text"
      rows="1"
      dir="auto"
      placeholder=${choosePlaceholder(running)}
      aria-label="Message"
      onInput=${(event) => (draft.text = event.currentTarget.value)}
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

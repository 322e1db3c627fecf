// The message input. A typed message stays until the server has accepted it.
import { ApiError, createKey, post } from "./api.js";
import { AttachButton, AttachedFiles, encodeFiles } from "./attachments.js";
import { attempt } from "./dialogs.js";
import { html, preferences, signal, useEffect, useRef, useState } from "./lib.js";
import { navigate } from "./router.js";
import { Icon, Select } from "./ui.js";
import { halt } from "./watch.js";

const MODES = [
  ["plan", "Plan", "The agent makes a plan and works through it"],
  ["queue", "Queue", "One item at a time; an assessor checks each answer"],
];
const mode = signal(preferences.get("mode") === "queue" ? "queue" : "plan");
const drafts = new Map(); // by conversation: {text, files, key, conversation}

const getDraft = (id) => {
  if (!drafts.has(id)) drafts.set(id, { text: "", files: [], key: createKey() });
  return drafts.get(id);
};

const Problem = ({ text, onRetry }) => html`<p class="problem" role="alert">
  <${Icon} name="warn" />
  <span class="grow" dir="auto">${text}</span>
  <button type="button" class="btn small" onClick=${onRetry}>Try again</button>
</p>`;

function SendButton({ running, isBusy }) {
  if (!running) {
    return html`<button class="send" aria-label="Send" title="Send (Enter)" disabled=${isBusy}><${Icon} name="send" /></button>`;
  }
  const stop = () => attempt(() => post(`/v1/turns/${running.id}/cancel`));
  return html`<button type="button" class="send stop" aria-label="Stop" title="Stop the agent" onClick=${stop}>
    <${Icon} name="stop" />
  </button>`;
}

export function Composer({ id, running, suggestion }) {
  const field = useRef();
  const [problem, setProblem] = useState(null);
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

  const send = async () => {
    const content = field.current.value;
    if (!content.trim() || isBusy) return;
    setIsBusy(true);
    setProblem(null);
    try {
      // A retry carries the same key, so that the server stores the message once.
      draft.conversation ??= id ?? (await post("/v1/conversations", {}, `${draft.key}-c`)).conversation.id;
      const message = { content, mode: mode.value };
      if (draft.files.length) message.attachments = await encodeFiles(draft.files);
      await post(`/v1/conversations/${draft.conversation}/messages`, message, draft.key);
      const to = draft.conversation;
      drafts.delete(id);
      if (field.current) field.current.value = "";
      if (!id) navigate(`/c/${to}`);
    } catch (error) {
      if (error instanceof DOMException) return setProblem("A file can no longer be read. Remove it, or attach it again.");
      if (!(error instanceof ApiError)) throw error;
      if (error.status && error.status < 500) draft.key = createKey(); // the server rejected it: the next attempt is a new request
      setProblem(error.message);
    } finally {
      setIsBusy(false);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    if (!running) send();
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
    ${problem && html`<${Problem} text=${problem} onRetry=${send} />`}
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
      placeholder=${halt.value.halted ? "Everything is halted" : "Message Headway"}
      aria-label="Message"
      onInput=${(event) => (draft.text = event.currentTarget.value)}
      onKeyDown=${onKeyDown}
      onPaste=${onPaste}
    ></textarea>
    <div class="composer-actions">
      <${AttachButton} onFiles=${addFiles} />
      <${Select}
        compact
        label="Work mode"
        value=${mode.value}
        options=${MODES}
        title=${MODES.find(([name]) => name === mode.value)[2]}
        onChoose=${chooseMode}
      />
      <${SendButton} running=${running} isBusy=${isBusy} />
    </div>
  </form>`;
}

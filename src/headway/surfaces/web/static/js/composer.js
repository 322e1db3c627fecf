// Where people type. What was typed stays until the server has taken it.
import { newKey, post, Refusal } from "./api.js";
import { attempt } from "./dialogs.js";
import { html, remembered, signal, useEffect, useRef, useState } from "./lib.js";
import { go } from "./router.js";
import { Icon, Select } from "./ui.js";
import { halt } from "./watch.js";

const MODES = [
  ["plan", "Plan", "The agent makes a plan and works it off"],
  ["queue", "Queue", "Item by item; an assessor judges each answer"],
];
const mode = signal(remembered.get("mode") === "queue" ? "queue" : "plan");
const drafts = new Map(); // by conversation: {text, key, conversation}

const draftOf = (id) => {
  if (!drafts.has(id)) drafts.set(id, { text: "", key: newKey() });
  return drafts.get(id);
};

export function Composer({ id, running, suggestion }) {
  const field = useRef();
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const draft = draftOf(id);

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
    if (!content.trim() || busy) return;
    setBusy(true);
    setProblem(null);
    try {
      // A message that is sent again after a failure carries the same key, and is said once.
      draft.conversation ??= id ?? (await post("/v1/conversations", {}, `${draft.key}-c`)).conversation.id;
      await post(`/v1/conversations/${draft.conversation}/messages`, { content, mode: mode.value }, draft.key);
      const to = draft.conversation;
      drafts.delete(id);
      if (field.current) field.current.value = "";
      if (!id) go(`/c/${to}`);
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      if (refusal.status && refusal.status < 500) draft.key = newKey(); // it was judged; the next attempt is another one
      setProblem(refusal.message);
    } finally {
      setBusy(false);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    if (!running) send();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const choose = (name) => {
    mode.value = name;
    remembered.set("mode", mode.value);
  };
  return html`<form class="composer" onSubmit=${submit}>
    ${problem && html`<p class="problem" role="alert"><${Icon} n="warn" /><span class="grow" dir="auto">${problem}</span><button type="button" class="btn small" onClick=${send}>Try again</button></p>`}
    <textarea ref=${field} name="text" rows="1" dir="auto" placeholder=${halt.value.halted ? "Everything is halted" : "Message Headway"} aria-label="Message" onInput=${(event) => (draft.text = event.currentTarget.value)} onKeyDown=${onKeyDown}></textarea>
    <div class="composer-acts">
      <${Select} quiet label="How to work" value=${mode.value} options=${MODES} title=${MODES.find(([name]) => name === mode.value)[2]} onChoose=${choose} />
      ${
        running
          ? html`<button type="button" class="send stop" aria-label="Stop" title="Stop the agent" onClick=${() => attempt(() => post(`/v1/turns/${running.id}/cancel`))}><${Icon} n="stop" /></button>`
          : html`<button class="send" aria-label="Send" title="Send (Enter)" disabled=${busy}><${Icon} n="send" /></button>`
      }
    </div>
  </form>`;
}

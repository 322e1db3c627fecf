// The content of a new conversation before its first message.
import { html } from "../core/lib.js";
import { session } from "../core/session.js";
import { Icon } from "../core/ui.js";

const REHEARSAL = "rehearsal"; // the built-in model: it follows rules, so it gets requests that its rules cover
const SUGGESTIONS = {
  rules: [
    "Calculate 12*7, then write the result to notes.txt, and then list the files",
    "What time is it? Then write it to clock.txt",
    "Remember that the door is green, then recall the door",
  ],
  model: [
    "Compare three ways to store dates in a database, and write the result to dates.md",
    "Plan a small party for ten guests: a menu, a shopping list and a timetable",
    "Read the files in the workspace and tell me what they are about",
  ],
};

/** `onSuggest` gets the text of the suggestion that was chosen. */
export function Welcome({ onSuggest }) {
  const model = session.value?.model;
  const suggestions = model ? SUGGESTIONS[model === REHEARSAL ? "rules" : "model"] : [];
  return html`<div class="welcome">
    <${Icon} name="mark" class="logo" />
    <h2>What should the agent do?</h2>
    <p class="muted">
      The agent makes a plan, works through it and answers. You can change the plan while it works. For work of hours or days,
      set <a class="link" href="/goals">a goal</a>: agents pursue it until it is met.
    </p>
    <ul class="suggestions">
      ${suggestions.map(
        (text) => html`<li key=${text}><button class="suggestion" onClick=${() => onSuggest(text)}>${text}</button></li>`,
      )}
    </ul>
  </div>`;
}

/** Which model answers. The built-in one says itself, in its first answer, that it is not an LLM. */
export function ModelNote() {
  const model = session.value?.model;
  if (!model) return null;
  if (model !== REHEARSAL) return html`<p class="model-note">Answers come from <code>${model}</code>.</p>`;
  return html`<p class="model-note">
    The rehearsal model answers: it follows rules and is not an LLM. Set <code>HEADWAY_MODEL</code> to use one.
  </p>`;
}

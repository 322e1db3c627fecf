// The dialog that forks a turn: up to which step, and with what changes.
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { spellOut } from "../core/visible_text.js";
import { forkedTurn, forkTurn, LiveChoice, loadSteps, useLiveChoice } from "./forks.js";

const LABEL_LENGTH = 60;
const TEXT_LENGTH = 20_000;
const ENDED_STATES = ["succeeded", "failed", "unknown"];

const cutLabel = (text) => {
  const line = spellOut(
    text
      .trim()
      .slice(0, 2 * LABEL_LENGTH)
      .replace(/\s+/g, " "),
  );
  return line.length > LABEL_LENGTH ? `${line.slice(0, LABEL_LENGTH - 1)}…` : line;
};
const describeStep = ({ text, calls }) => cutLabel(calls.map(({ tool }) => tool).join(", ") || text) || "an empty answer";
const isComplete = ({ calls }) => calls.every(({ state }) => ENDED_STATES.includes(state));

function ForkForm({ steps, begin, turnId, onClose }) {
  const form = useRef();
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const [isLive, chooseLive] = useLiveChoice("fork-live", false);
  const [at, setAt] = useState(begin);
  const submit = async (event) => {
    event.preventDefault();
    setProblem("");
    setIsBusy(true);
    const { model, role, message } = form.current.elements;
    const body = { at, live: isLive };
    for (const field of [model, role, message]) if (field.value.trim()) body[field.name] = field.value;
    try {
      await forkTurn(turnId, body);
      onClose();
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const messageLabel = at ? "A message that the agent reads next (optional)" : "Another request (optional)";
  return html`<form ref=${form} class="fields" onSubmit=${submit}>
    <label class="field">Keep the turn up to
      <span class="select"><select name="at" value=${at} onChange=${(event) => setAt(Number(event.currentTarget.value))}>
        <option value="0">the request: no step</option>
        ${steps.map((step) => html`<option key=${step.step} value=${step.step}>step ${step.step}: ${describeStep(step)}</option>`)}
      </select><${Icon} name="chev" /></span>
    </label>
    <label class="field">${messageLabel}<textarea name="message" rows="2" dir="auto" maxlength=${TEXT_LENGTH}></textarea></label>
    <div class="field-pair">
      <label class="field">Model<input name="model" placeholder="as the role says" maxlength="200" dir="ltr" /></label>
      <label class="field">Role<input name="role" placeholder="the same" maxlength="200" dir="ltr" /></label>
    </div>
    <${LiveChoice} isLive=${isLive} onChange=${chooseLive} />
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    <div class="actions">
      <button type="button" class="btn" onClick=${onClose}>Cancel</button>
      <button class="btn primary" disabled=${isBusy}><${Icon} name="fork" />Fork</button>
    </div>
  </form>`;
}

export function ForkDialog() {
  const dialog = useRef();
  const [steps, setSteps] = useState(null);
  const target = forkedTurn.value;
  useEffect(() => {
    setSteps(null);
    if (!target) return;
    attempt(async () => {
      setSteps((await loadSteps(target.turnId)).filter(isComplete));
      dialog.current.showModal();
    });
  }, [target]);
  useEffect(() => () => (forkedTurn.value = null), []); // the page is left
  const close = () => dialog.current.close();
  return html`<dialog ref=${dialog} aria-labelledby="fork-title" onClose=${() => (forkedTurn.value = null)}>
    <h2 id="fork-title">Fork this turn</h2>
    <p>A copy continues from there, in a new conversation. Results that are recorded are used again.</p>
    ${
      target &&
      steps &&
      html`<${ForkForm}
        key=${target}
        steps=${steps}
        begin=${target.find(steps) ?? steps.at(-1)?.step ?? 0}
        turnId=${target.turnId}
        onClose=${close}
      />`
    }
  </dialog>`;
}

// The kill switch: halts the installation, with a reason that every page shows, and lifts the halt.
import { put, remove } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, signal, useEffect, useRef, useState } from "../core/lib.js";
import { session } from "../core/session.js";
import { Ago, Card, Icon, StatusIcon } from "../core/ui.js";
import { halt } from "../core/watch.js";
import { getFilters, setFilters } from "./parts.js";

const REASONS = ["An agent does something that it must not do", "Costs rise too fast", "Maintenance"];
const isOpen = signal(false);
const REQUEST = "halt"; // in the address: the palette opens the dialog

/** Asks why, because the reason is what everybody else sees on every page, and in the audit log. */
function HaltDialog() {
  const dialog = useRef();
  const [why, setWhy] = useState("");
  const [problem, setProblem] = useState("");
  const close = () => {
    isOpen.value = false;
    if (getFilters(REQUEST)[REQUEST]) setFilters({ [REQUEST]: "" });
  };
  useEffect(() => {
    dialog.current.showModal();
    return close; // the event about the halt can arrive before the answer, and removes the dialog
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    try {
      await put("/v1/halt", { why: why.trim() });
      dialog.current?.close();
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<dialog ref=${dialog} aria-labelledby="halt-title" aria-describedby="halt-text" onClose=${close}>
    <h2 id="halt-title">Halt everything?</h2>
    <p id="halt-text">
      No model is called, no tool runs and nothing starts, for every tenant of this installation. Nothing is lost: work resumes
      where it stopped once you lift the halt.
    </p>
    <form class="fields" onSubmit=${submit}>
      <label class="field">Why?<input
        required
        maxlength="500"
        pattern=".*\\S.*"
        dir="auto"
        value=${why}
        onInput=${(event) => setWhy(event.currentTarget.value)}
        placeholder="Every page shows this"
      /></label>
      <div class="presets" role="group" aria-label="Usual reasons">
        ${REASONS.map(
          (reason) => html`<button key=${reason} type="button" class="btn small" onClick=${() => setWhy(reason)}>
            ${reason}
          </button>`,
        )}
      </div>
      <p class="problem" role="alert">${problem}</p>
      <div class="actions">
        <button type="button" class="btn" onClick=${() => dialog.current.close()}>Leave it as is</button>
        <button class="btn danger">Halt everything</button>
      </div>
    </form>
  </dialog>`;
}

function HaltButton() {
  if (!halt.value.isKnown) return null;
  if (!halt.value.halted) {
    return html`<button class="btn danger" onClick=${() => (isOpen.value = true)}><${Icon} name="stop" />Halt everything</button>`;
  }
  const lift = () => attempt(() => remove("/v1/halt"));
  return html`<button class="btn primary" onClick=${lift}><${Icon} name="play" />Lift the halt</button>`;
}

function HaltState() {
  const { isKnown, halted, why, since, by } = halt.value;
  if (!isKnown) return html`<span class="skeleton" role="status" aria-label="Loading"></span>`;
  if (!halted) return html`<strong>Agents can run.</strong> <span class="muted">A halt stops all of them at once.</span>`;
  return html`<strong>Everything is halted</strong> <span class="muted">
    since <${Ago} at=${since} />${by && html` by <span dir="auto">${by}</span>`}. <span dir="auto">${why}</span>
  </span>`;
}

export function KillSwitch() {
  const { isKnown, halted } = halt.value;
  const mayHalt = session.value?.operator;
  const isAsked = isOpen.value || Boolean(getFilters(REQUEST)[REQUEST]);
  return html`<${Card} title="Kill switch">
    <div class="halt">
      <${StatusIcon} status=${halted ? "paused" : isKnown ? "done" : "pending"} decorative />
      <div class="grow">
        <${HaltState} />
        ${!mayHalt && html`<p class="hint">Halting needs a token with the operator scope.</p>`}
      </div>
      ${mayHalt && html`<${HaltButton} />`}
    </div>
    ${mayHalt && isKnown && !halted && isAsked && html`<${HaltDialog} />`}
  <//>`;
}

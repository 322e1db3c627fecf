// The kill switch: halts the installation, with a reason that every page shows, and lifts the halt.
import { put, remove } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { html } from "../core/lib.js";
import { session } from "../core/session.js";
import { Ago, Card, Icon, StatusIcon } from "../core/ui.js";
import { halt } from "../core/watch.js";

const askToHalt = () =>
  ask({
    title: "Halt everything?",
    text:
      "No model is called, no tool runs and nothing starts, for every tenant of this installation. " +
      "Nothing is lost: work resumes where it stopped once you lift the halt.",
    confirm: "Halt everything",
    run: () => put("/v1/halt", { why: "Halted from the page" }),
  });

function HaltButton() {
  if (!halt.value.isKnown) return null;
  if (!halt.value.halted) {
    return html`<button class="btn danger" onClick=${askToHalt}><${Icon} name="stop" />Halt everything</button>`;
  }
  const lift = () => attempt(() => remove("/v1/halt"));
  return html`<button class="btn primary" onClick=${lift}><${Icon} name="play" />Lift the halt</button>`;
}

function HaltState() {
  const { isKnown, halted, why, since } = halt.value;
  if (!isKnown) return html`<span class="skeleton" role="status" aria-label="Loading"></span>`;
  if (!halted) return html`<strong>Agents can run.</strong> <span class="muted">A halt stops all of them at once.</span>`;
  return html`<strong>Everything is halted</strong> <span class="muted">
    since <${Ago} at=${since} />. <span dir="auto">${why}</span>
  </span>`;
}

export const KillSwitch = () => html`<${Card} title="Kill switch">
  <div class="halt">
    <${StatusIcon} status=${halt.value.halted ? "paused" : halt.value.isKnown ? "done" : "pending"} decorative />
    <div class="grow">
      <${HaltState} />
      ${!session.value?.operator && html`<p class="hint">Halting needs a token with the operator scope.</p>`}
    </div>
    ${session.value?.operator && html`<${HaltButton} />`}
  </div>
<//>`;

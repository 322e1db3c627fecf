// Steps as lines that open, and groups of steps. A finished group is one line; a running one shows its last steps.
import { html, PureComponent } from "../../core/lib.js";
import { Icon, pluralize, StatusIcon } from "../../core/ui.js";
import { Markdown } from "../../markdown/markdown.js";
import { CallBody, CallDetails } from "../tool_line.js";
import { AgentStep } from "./agent_step.js";
import { describeStep, formatSpan, getStepState, hasFailed, measure } from "./describe.js";
import { Fold, isOpen, setOpen } from "./fold.js";
import { isPlanCall } from "./plan_sentences.js";

const SHOWN_WHILE_RUNNING = 3;

const getIcon = ({ calls }) => (calls.length && calls.every(isPlanCall) ? "check" : "tool");

function StepLine({ step }) {
  const state = getStepState(step);
  const { tool, text, result } = describeStep(step);
  const span = formatSpan(measure(step.calls));
  return html`${state === "done" ? html`<${Icon} name=${getIcon(step)} />` : html`<${StatusIcon} status=${state} />`}
    ${tool && html`<code>${tool}</code>`}
    <span class="truncate grow" dir="auto">${text}</span>
    ${
      state === "failed"
        ? html`<span class="step-result status-failed" dir="auto">failed${result && `: ${result}`}</span>`
        : result && html`<span class="step-result faint" dir="auto">${result}</span>`
    }
    ${span && html`<span class="faint num">${span}</span>`}`;
}

function StepBody({ step }) {
  const { remark, calls } = step;
  const said = remark && html`<${Markdown} text=${remark.text} />`;
  if (calls.length === 1) return html`${said}<${CallBody} item=${calls[0]} />`;
  return html`${said}
    <ol class="calls">
      ${calls.map((call) => html`<li key=${call.key}><${CallDetails} item=${call} /></li>`)}
    </ol>`;
}

/** `isCurrent`: the agent works at this step now. */
export class StepItem extends PureComponent {
  render({ step, isCurrent }) {
    return html`<li class="tool-line ${isCurrent ? "current" : ""}" aria-current=${isCurrent ? "step" : null}>
      ${
        step.run
          ? html`<${AgentStep} id=${step.key} run=${step.run} Item=${StepItem} />`
          : html`<${Fold} id=${step.key} line=${html`<${StepLine} step=${step} />`}>${() => html`<${StepBody} step=${step} />`}<//>`
      }
    </li>`;
  }
}

function Summary({ group, hidden, isExpanded }) {
  const { key, steps, isRunning, items, since } = group;
  const failed = (isExpanded ? steps : hidden).filter(hasFailed).length;
  const name = isRunning && !isExpanded ? pluralize(hidden.length, "earlier step") : pluralize(steps.length, "step");
  const span = isRunning ? "" : formatSpan(measure(items, since));
  return html`<button
    class="steps-summary"
    aria-expanded=${String(isExpanded)}
    aria-controls=${key}
    onClick=${() => setOpen(key, !isExpanded)}
  >
    <${Icon} name="tool" /><span>${name}</span>
    ${failed > 0 && html`<span class="status-failed">${failed} failed</span>`}
    ${span && html`<span class="num">${span}</span>`}
    <${Icon} name="chev" class="chev" />
  </button>`;
}

/** Steps that the user has opened stay, even when the group is folded. */
function choose(steps, isRunning) {
  if (steps.length === 1) return steps;
  const first = isRunning ? steps.length - SHOWN_WHILE_RUNNING : steps.length;
  return steps.filter((step, n) => n >= first || isOpen(step.key));
}

function Group({ group }) {
  const { key, steps, isRunning } = group;
  const isExpanded = isOpen(key) ?? false;
  const shown = isExpanded ? steps : choose(steps, isRunning);
  const hidden = steps.filter((step) => !shown.includes(step));
  const current = isRunning ? steps.at(-1) : null;
  return html`<li class="steps" aria-live="off">
    ${(hidden.length > 0 || isExpanded) && html`<${Summary} group=${group} hidden=${hidden} isExpanded=${isExpanded} />`}
    <ol id=${key}>
      ${shown.map((step) => html`<${StepItem} key=${step.key} step=${step} isCurrent=${step === current} />`)}
    </ol>
  </li>`;
}

export class StepGroup extends PureComponent {
  render({ group }) {
    return html`<${Group} group=${group} />`;
  }
}

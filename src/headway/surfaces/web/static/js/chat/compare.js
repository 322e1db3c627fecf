// Two turns side by side: what was asked, their plans, each step with its calls and results, their answers, and what they cost.
import { get } from "../core/api.js";
import { html, useState } from "../core/lib.js";
import { path } from "../core/router.js";
import { Card, capitalize, Empty, formatMoney, Icon, Main, Pill, pluralize, StatusIcon } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { useStream } from "../core/watch.js";

export const TITLE = "Chat";

const SIDES = ["a", "b"];
const CALL_STATES = { succeeded: "done", failed: "failed", unknown: "failed", started: "running", proposed: "waiting" };

const GOOD_OUTCOMES = ["drained", "answered"];

/** The status whose icon fits the end of a turn. */
const getShownStatus = ({ status, outcome }) => {
  if (status !== "finished") return status;
  return GOOD_OUTCOMES.includes(outcome) ? "completed" : "paused";
};

const formatSeconds = (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`);

/** Two cells. On narrow screens they are one below the other, so each says whose it is. */
const Pair = ({ render, isSame }) => html`<div class="compare-pair ${isSame === false ? "differs" : ""}">
  ${SIDES.map(
    (side) => html`<div key=${side}>
      <span class="side-name" aria-hidden="true">${side.toUpperCase()}</span>${render(side)}
    </div>`,
  )}
</div>`;

const Text = ({ text, name }) =>
  text
    ? html`<pre tabindex="0" aria-label=${name} dir="auto"><${VisibleText} text=${text} isBlock /></pre>`
    : html`<p class="faint">nothing</p>`;

function Side({ turn, name }) {
  return html`<div class="compare-turn">
    <p><strong>Turn ${name}</strong> <a class="link" href="/c/${turn.conversation_id}">Conversation ${turn.conversation_id}</a></p>
    <p class="clamp" dir="auto" title=${turn.request}>${turn.request}</p>
    <p><${Pill} status=${getShownStatus(turn)} label=${capitalize(turn.outcome?.replaceAll("_", " ") ?? turn.status)} />${
      turn.forked_from && html` <span class="faint small">forked after step ${turn.forked_from.at}</span>`
    }</p>
  </div>`;
}

const FIGURES = [
  ["Model", ({ models }) => models.join(", ") || "—"],
  ["Role", ({ role }) => role ?? "—"],
  ["Steps", ({ steps }) => steps],
  ["Input tokens", ({ usage }) => usage.input_tokens.toLocaleString()],
  ["of them cached", ({ usage }) => usage.cached_tokens.toLocaleString()],
  ["Output tokens", ({ usage }) => usage.output_tokens.toLocaleString()],
  ["Cost", ({ usage }) => formatMoney(usage.cost_usd)],
  ["Time", ({ duration_s }) => formatSeconds(duration_s)],
];

const Figures = ({ diff }) => html`<${Card} title="Figures">
  <div class="scroll-x" tabindex="0" role="group" aria-label="Figures of both turns">
    <table class="figures">
      <thead><tr><td></td><th>A</th><th>B</th></tr></thead>
      <tbody>
        ${FIGURES.map(([name, read]) => {
          const [a, b] = SIDES.map((side) => read(diff[side]));
          return html`<tr key=${name} class=${a === b ? "" : "differs"}>
            <th scope="row">${name}</th><td>${a}</td><td>${b}</td>
          </tr>`;
        })}
      </tbody>
    </table>
  </div>
<//>`;

const Plan = ({ items, name }) =>
  items.length
    ? html`<ol class="compare-plan" aria-label="Plan of turn ${name}">
        ${items.map(
          ({ title, status, outcome }, n) => html`<li key=${n}>
            <${StatusIcon} status=${status} />
            <span dir="auto"><${VisibleText} text=${title} />${
              outcome && html` <span class="faint">→ <${VisibleText} text=${outcome} /></span>`
            }</span>
          </li>`,
        )}
      </ol>`
    : html`<p class="faint">no plan</p>`;

const Call = ({ call }) => html`<div class="compare-call">
  <p><${StatusIcon} status=${CALL_STATES[call.state] ?? "done"} /><code><${VisibleText} text=${call.tool} /></code>${
    call.replayed && html`<span class="faint small" title="The result was recorded by the original">recorded</span>`
  }</p>
  <${Text} text=${call.arguments} name="Arguments of ${call.tool}" />
  <${Text} text=${call.result} name="Result of ${call.tool}" />
</div>`;

function Answer({ answer }) {
  if (!answer) return html`<p class="faint">This turn has no such step.</p>`;
  return html`${answer.text && html`<p class="compare-text" dir="auto"><${VisibleText} text=${answer.text} isBlock /></p>`}
    ${answer.calls.map((call, n) => html`<${Call} key=${n} call=${call} />`)}
    <p class="faint small num">${answer.input_tokens.toLocaleString()} tokens in, ${answer.output_tokens.toLocaleString()} out</p>`;
}

const describeAnswer = (answer) => {
  if (!answer) return "no step";
  return answer.calls.map(({ tool }) => tool).join(", ") || answer.text.trim().split("\n", 1)[0] || "an empty answer";
};

/** A step. Those that are the same in both turns are closed at first. */
function Step({ step, isFirst }) {
  return html`<li id=${isFirst ? "first-difference" : null} class=${isFirst ? "first" : ""}>
    ${isFirst && html`<p class="divergence"><${Icon} name="fork" />The turns differ from here on.</p>`}
    <details open=${!step.same}>
      <summary>
        <strong class="num">Step ${step.step}</strong>
        <span class="truncate grow" dir="auto"><${VisibleText} text=${describeAnswer(step.a ?? step.b)} /></span>
        <span class=${step.same ? "faint" : "differs-mark"}>${step.same ? "same" : "differs"}</span>
        <${Icon} name="chev" class="chev" />
      </summary>
      <${Pair} isSame=${step.same} render=${(side) => html`<${Answer} answer=${step[side]} />`} />
    </details>
  </li>`;
}

const summarize = ({ diverged_at, steps }) =>
  diverged_at ? `First difference: step ${diverged_at} of ${steps.length}.` : `${pluralize(steps.length, "step")}, no difference.`;

function Comparison({ diff }) {
  return html`<${Pair} render=${(side) => html`<${Side} turn=${diff[side]} name=${side.toUpperCase()} />`} />
    <${Figures} diff=${diff} />
    <${Card} title="Plans"><div class="compare-body">
      <${Pair} render=${(side) => html`<${Plan} items=${diff[side].plan} name=${side.toUpperCase()} />`} />
    </div><//>
    <${Card} title="Steps" count=${diff.steps.length}>
      ${
        diff.steps.length
          ? html`<ol class="compare-steps">
              ${diff.steps.map((step) => html`<${Step} key=${step.step} step=${step} isFirst=${step.step === diff.diverged_at} />`)}
            </ol>`
          : html`<${Empty}>Neither turn has a step yet.<//>`
      }
    <//>
    <${Card} title="Answers"><div class="compare-body">
      <${Pair}
        isSame=${diff.a.answer === diff.b.answer}
        render=${(side) => html`<${Text} text=${diff[side].answer} name="Answer of turn ${side.toUpperCase()}" />`}
      />
    </div><//>`;
}

export function Page() {
  const [first, second] = path.value.split("/").slice(2);
  const [diff, setDiff] = useState(null);
  const [problem, setProblem] = useState("");
  const load = async () => {
    try {
      setDiff((await get(`/v1/turns/${first}/diff/${second}`)).diff);
      setProblem("");
    } catch (error) {
      if (error.status !== 404) throw error;
      setProblem(error.message);
    }
  };
  const reload = async ({ turn_id }) => [first, second].includes(turn_id) && load().catch(() => {});
  useStream("/v1/events", () => ({
    load,
    on: { turn_finished: reload, turn_failed: reload, turn_canceled: reload },
  }));
  return html`<${Main}>
    <div class="title">
      <div class="grow"><h1>Compare two turns</h1>${diff && html`<p class="muted small" role="status">${summarize(diff)}</p>`}</div>
    </div>
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    ${diff && html`<${Comparison} diff=${diff} />`}
  <//>`;
}

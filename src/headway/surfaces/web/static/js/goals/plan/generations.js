// The plans of a goal, the one in force first: why each was made, and what it added, removed and changed.
import { attempt } from "../../core/dialogs.js";
import { html, useEffect } from "../../core/lib.js";
import { Ago, Empty, pluralize, StatusIcon } from "../../core/ui.js";
import { pick } from "./address.js";
import { getLook } from "./sub_goal.js";

// By the kind of change: its sign, its class and its words.
const CHANGES = [
  ["added", "+", "Added"],
  ["removed", "−", "Removed"],
  ["changed", "~", "Waits for others than before"],
];

function Member({ table, member, sign }) {
  const subGoal = table.read(member.id) ?? member;
  return html`<li>
    <span class="sign" aria-hidden="true">${sign}</span>
    <button class="plain" onClick=${() => pick(member.id)}>
      <${StatusIcon} status=${getLook(subGoal)} /><span dir="auto">#${member.id} ${member.title}</span>
    </button>
  </li>`;
}

const Change = ({ table, generation, kind, sign, words }) => {
  const members = generation[kind];
  if (!members.length) return null;
  return html`<div class="change change-${kind}" role="group" aria-label="${words}, plan ${generation.plan}">
    <h3>${words} <span class="faint num">${members.length}</span></h3>
    <ul>${members.map((member) => html`<${Member} key=${member.id} table=${table} member=${member} sign=${sign} />`)}</ul>
  </div>`;
};

function Generation({ table, generation }) {
  const { plan, in_force, created_at, reason, total, done } = generation;
  return html`<li>
    <details open=${in_force || total <= 20}>
      <summary>
        <strong>Plan ${plan}</strong>
        ${in_force && html`<span class="pill status-current">In force</span>`}
        <span class="muted num">${done} of ${pluralize(total, "sub-goal")} done</span>
        <span class="grow"></span>
        <${Ago} at=${created_at} />
      </summary>
      ${reason && html`<p class="reason" dir="auto"><span class="muted">Why:</span> ${reason}</p>`}
      ${CHANGES.map(
        ([kind, sign, words]) =>
          html`<${Change} key=${kind} table=${table} generation=${generation} kind=${kind} sign=${sign} words=${words} />`,
      )}
    </details>
  </li>`;
}

export function Generations({ state }) {
  useEffect(() => {
    attempt(() => state.loadPlans());
  }, []);
  const list = state.plans.value;
  if (!list) {
    return html`<div class="plan-loading loading-lines" role="status">
      <span class="sr-only">Loading the plans…</span><i></i><i></i>
    </div>`;
  }
  if (!list.length) return html`<${Empty}>No plan was recorded.<//>`;
  return html`<div class="plan-scroll" tabindex="0" role="group" aria-label="Plans">
    <ol class="generations">
      ${list.map((generation) => html`<${Generation} key=${generation.plan} table=${state.subGoals} generation=${generation} />`)}
    </ol>
    ${
      state.plansCursor.value &&
      html`<p class="older-plans">
        <button class="btn small" onClick=${() => attempt(() => state.loadPlans(state.plansCursor.value))}>Show older</button>
      </p>`
    }
  </div>`;
}

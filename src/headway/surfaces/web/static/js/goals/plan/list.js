// The plan as a list: the sub-goals of the current plan, and below them those that a later plan has replaced.
import { html } from "../../core/lib.js";
import { formatDuration, now, pluralize } from "../../core/ui.js";
import { ProofMark } from "../../work/proof.js";
import { toggle } from "./address.js";
import { useGrowing } from "./growing.js";
import { describeWorker, formatCost, LookPill, MinorMark } from "./sub_goal.js";

const COLUMNS = ["#", "Sub-goal", "Status", "Waits for", "Agent", "Time", "Cost"];

const NAMED = 3; // dependencies that are named; the details have all

function formatDependencies(ids) {
  const named = ids
    .slice(0, NAMED)
    .map((id) => `#${id}`)
    .join(", ");
  return ids.length > NAMED ? `${named} +${ids.length - NAMED}` : named || "—";
}

const Duration = ({ from, to }) => (from ? formatDuration((to || now.value) - from) : "—");

function Row({ table, id, isPicked }) {
  const subGoal = table.read(id);
  if (!subGoal) return null;
  const { status, depends_on, started_at, ended_at, cost_usd, proof } = subGoal;
  return html`<tr class=${isPicked ? "picked" : ""}>
    <td class="num faint">${id}</td>
    <td>
      <button class="plain" aria-pressed=${String(isPicked)} title=${subGoal.description} onClick=${() => toggle(id)} dir="auto">
        ${subGoal.title}
      </button>
    </td>
    <td class="state"><${LookPill} subGoal=${subGoal} /> <${MinorMark} subGoal=${subGoal} /> <${ProofMark} proof=${proof} /></td>
    <td class="num muted">${formatDependencies(depends_on)}</td>
    <td class="muted">${describeWorker(subGoal)}</td>
    <td class="num muted">${status === "pending" ? "—" : html`<${Duration} from=${started_at} to=${ended_at} />`}</td>
    <td class="num muted">${formatCost(cost_usd)}</td>
  </tr>`;
}

function Rows({ table, ids, picked, caption }) {
  const drawn = ids.slice(0, useGrowing(ids.length));
  return html`<table class="plan-table">
    <caption class="sr-only">${caption}</caption>
    <thead><tr>${COLUMNS.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
    <tbody>${drawn.map((id) => html`<${Row} key=${id} table=${table} id=${id} isPicked=${id === picked} />`)}</tbody>
  </table>`;
}

/** `current` and `superseded` are ids. */
export const List = ({ table, current, superseded, picked }) => html`<div
  class="plan-scroll"
  tabindex="0"
  role="group"
  aria-label="Sub-goals"
>
  <${Rows} table=${table} ids=${current} picked=${picked} caption="Sub-goals of the current plan" />
  ${
    superseded.length > 0 &&
    html`<details class="superseded-list" open=${superseded.includes(picked)}>
      <summary>${pluralize(superseded.length, "sub-goal")} of earlier plans, replaced since</summary>
      <${Rows} table=${table} ids=${superseded} picked=${picked} caption="Sub-goals that a later plan has replaced" />
    </details>`
  }
</div>`;

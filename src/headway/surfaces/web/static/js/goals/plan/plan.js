// The plan of a goal in several views, with the details of one sub-goal beside it.
import { attempt, createLazy } from "../../core/dialogs.js";
import { html, preferences, useEffect } from "../../core/lib.js";
import { Choice, Empty, getStatusLabel, StatusIcon } from "../../core/ui.js";
import { chooseView, chosenView, pickedId } from "./address.js";
import { Graph } from "./graph.js";
import { List } from "./list.js";
import { isNarrow } from "./narrow.js";

const LEGEND = ["completed", "in-progress", "pending", "diverged", "failed", "skipped"];
const VIEWS = [
  ["graph", "Graph"],
  ["list", "List"],
  ["timeline", "Timeline"],
  ["plans", "Plans"],
];
const READABLE = 120; // sub-goals; a graph of more of them has to be searched, and a list is easier to read
const PREFERENCE = "plan-view";

/** The view in the address, or else the preferred one, unless that is a graph that is hard to read here. */
function findView(count) {
  const isKnown = (name) => VIEWS.some(([known]) => known === name);
  if (isKnown(chosenView.value)) return chosenView.value;
  const preferred = preferences.get(PREFERENCE);
  const isReadable = !isNarrow.value && count <= READABLE;
  if (isKnown(preferred) && (isReadable || preferred !== "graph")) return preferred;
  return isReadable ? "graph" : "list";
}

const choose = (name) => {
  preferences.set(PREFERENCE, name);
  chooseView(name);
};

const Legend = () => html`<div class="legend" aria-hidden="true">
  ${LEGEND.map((status) => html`<span key=${status}><${StatusIcon} status=${status} decorative />${getStatusLabel(status)}</span>`)}
</div>`;

function GraphView({ state, picked }) {
  useEffect(() => {
    attempt(state.loadGraph);
  }, []);
  const graph = state.graph.value;
  return graph ? html`<${Graph} table=${state.subGoals} graph=${graph} picked=${picked} />` : html`<${Loading} />`;
}

const Loading = () => html`<div class="plan-loading loading-lines" role="status">
  <span class="sr-only">Loading the plan…</span><i></i><i></i><i></i>
</div>`;

function ListView({ state, picked }) {
  const replaced = new Set(state.supersededIds.value.split(",").filter(Boolean).map(Number));
  const current = state.subGoals.ids.value.filter((id) => !replaced.has(id));
  return html`<${List} table=${state.subGoals} current=${current} superseded=${[...replaced]} picked=${picked} />`;
}

// Loaded when they are opened first, so that a goal is on screen sooner.
const Detail = createLazy(async () => (await import("./detail.js")).Detail);
const Generations = createLazy(async () => (await import("./generations.js")).Generations);
const Timeline = createLazy(async () => (await import("./timeline.js")).Timeline);

const RENDERERS = { graph: GraphView, list: ListView, timeline: Timeline, plans: Generations };

/** Also shows in the graph what a later plan has replaced. */
function SupersededSwitch({ count, state }) {
  const change = (event) => attempt(() => state.showPlan(event.currentTarget.checked ? "all" : "current"));
  return html`<label class="switch">
    <input type="checkbox" checked=${state.graphPlan.value === "all"} onChange=${change} />Show ${count} replaced
  </label>`;
}

export function Plan({ state }) {
  const planned = state.planned.value;
  const superseded = state.supersededIds.value ? state.supersededIds.value.split(",").length : 0;
  const picked = pickedId.value;
  const count = planned + superseded;
  const view = findView(planned);
  const View = RENDERERS[view];
  return html`<section class="card plan" aria-label="Plan">
    <header>
      <h2>Plan</h2>
      <${Choice} label="View" value=${view} options=${VIEWS} onChoose=${choose} />
      ${view === "graph" && superseded > 0 && html`<${SupersededSwitch} count=${superseded} state=${state} />`}
      <span class="grow"></span>
      <${Legend} />
    </header>
    <div class="plan-body ${picked && !isNarrow.value ? "with-detail" : ""}">
      <div class="plan-view">
        ${count ? html`<${View} state=${state} picked=${picked} />` : html`<${Empty}>There is no plan yet.<//>`}
      </div>
      ${picked && html`<${Detail} state=${state} id=${picked} />`}
    </div>
  </section>`;
}

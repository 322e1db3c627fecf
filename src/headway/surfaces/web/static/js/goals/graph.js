// The plan as a graph and as a list. The server decides where the cards are placed; this only draws them.
// Cards are buttons inside <foreignObject>, placed by attributes, because the content policy forbids inline styles.
import { html, preferences, signal, useEffect, useRef } from "../core/lib.js";
import { Choice, formatDuration, formatMoney, getStatusClass, getStatusLabel, Pill, StatusIcon } from "../core/ui.js";
import { Checks, ProofMark } from "../work/proof.js";

const CARD_WIDTH = 176;
const CARD_HEIGHT = 46;
const MARGIN = 6;
const STATUSES = ["completed", "in-progress", "pending", "failed", "skipped"];
const VIEWS = [
  ["graph", "Graph"],
  ["list", "List"],
];
const SIZES = [
  ["fit", "Fit"],
  ["full", "100%"],
];

const view = signal(preferences.get("plan-view") === "list" ? "list" : "graph");
const size = signal("fit");

const getEdgeClass = (from, to) => {
  if (to.status === "in-progress") return "live";
  if (to.status === "skipped" || to.status === "failed") return "off";
  return from.status === "completed" && to.status === "completed" ? "done" : "";
};

// By arrow key: the distance of a card in that direction; false for a card in another direction.
const DISTANCES = {
  ArrowDown: (x, y) => y > 8 && y + Math.abs(x) / 2,
  ArrowUp: (x, y) => y < -8 && -y + Math.abs(x) / 2,
  ArrowRight: (x, y) => x > 8 && x + Math.abs(y) * 4,
  ArrowLeft: (x, y) => x < -8 && -x + Math.abs(y) * 4,
};

function findNearest(nodes, id, key) {
  const here = nodes.find((node) => node.id === id);
  const ranked = nodes
    .filter((node) => node.id !== id)
    .map((node) => [DISTANCES[key](node.x - here.x, node.y - here.y), node.id])
    .filter(([distance]) => distance !== false)
    .sort((a, b) => a[0] - b[0]);
  return ranked[0]?.[1];
}

const renderEdge = ({ from, to, path }, byId, picked) => html`<path
  key="${from}-${to}"
  d=${path}
  class="${getEdgeClass(byId.get(from), byId.get(to))} ${picked === from || picked === to ? "lit" : ""}"
/>`;

const renderCard = ({ id, x, y }, { status, description, proof }, picked, tabStop, onPick) => html`<foreignObject
  key=${id}
  x=${x}
  y=${y}
  width=${CARD_WIDTH}
  height=${CARD_HEIGHT}
>
  <button
    class="node ${getStatusClass(status)}"
    data-id=${id}
    tabindex=${id === tabStop ? 0 : -1}
    aria-pressed=${String(picked === id)}
    title=${description}
    onClick=${() => onPick(picked === id ? null : id)}
  ><${StatusIcon} status=${status} /><span dir="auto">${description}</span><${ProofMark} proof=${proof} compact /></button>
</foreignObject>`;

function Graph({ byId, graph, picked, onPick }) {
  const drawing = useRef();
  const nodes = graph.nodes.filter(({ id }) => byId.has(id));
  const edges = graph.edges.filter(({ from, to }) => byId.has(from) && byId.has(to));
  const onKeyDown = (event) => {
    const id = Number(event.target.closest("button")?.dataset.id);
    if (event.key === "Escape") onPick(null);
    if (!id || !(event.key in DISTANCES)) return;
    event.preventDefault();
    const nearest = findNearest(nodes, id, event.key);
    if (nearest) drawing.current.querySelector(`[data-id="${nearest}"]`).focus();
  };
  useEffect(() => {
    // A plan that is wider than the window starts out scrolled to its middle.
    const frame = drawing.current.parentElement;
    frame.scrollLeft = (frame.scrollWidth - frame.clientWidth) / 2;
  }, [size.value, graph.width]);
  // The Tab key stops at one card; arrow keys move on from there.
  const tabStop = picked ?? nodes.find(({ id }) => byId.get(id).status === "in-progress")?.id ?? nodes[0]?.id;
  const [width, height] = [graph.width + 2 * MARGIN, graph.height + 2 * MARGIN];
  return html`<div class="canvas" tabindex="-1">
    <svg
      ref=${drawing}
      class="graph ${size.value === "full" ? "full" : ""}"
      viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}"
      width=${width}
      height=${height}
      role="group"
      aria-label="Sub-goals and what they wait for. Arrow keys move between them."
      onKeyDown=${onKeyDown}
    >
      ${edges.map((edge) => renderEdge(edge, byId, picked))}
      ${nodes.map((node) => renderCard(node, byId.get(node.id), picked, tabStop, onPick))}
    </svg>
  </div>`;
}

const formatIds = (ids) => ids.map((id) => `#${id}`).join(", ");

const COLUMNS = ["#", "Sub-goal", "Status", "Waits for", "Agent", "Cost"];

const Row = ({ subGoal, onPick }) => html`<tr>
  <td class="num faint">${subGoal.id}</td>
  <td><button class="plain" onClick=${() => onPick(subGoal.id)} dir="auto">${subGoal.description}</button></td>
  <td><${Pill} status=${subGoal.status} /> <${ProofMark} proof=${subGoal.proof} /></td>
  <td class="num muted">${formatIds(subGoal.depends_on) || "—"}</td>
  <td class="muted">${subGoal.mode === "agent" ? subGoal.role || "agent" : "main agent"}</td>
  <td class="num muted">${subGoal.cost_usd > 0 ? formatMoney(subGoal.cost_usd) : "—"}</td>
</tr>`;

const List = ({ subGoals, onPick }) => html`<div class="scroll-x" tabindex="0" role="group" aria-label="Sub-goals">
  <table>
    <thead><tr>${COLUMNS.map((name) => html`<th key=${name}>${name}</th>`)}</tr></thead>
    <tbody>${subGoals.map((subGoal) => html`<${Row} key=${subGoal.id} subGoal=${subGoal} onPick=${onPick} />`)}</tbody>
  </table>
</div>`;

const Fact = ({ name, children }) => children && html`<dt>${name}</dt><dd dir="auto">${children}</dd>`;

function describeEvaluation({ divergence, divergence_reason }) {
  if (!divergence) return divergence;
  const verdict = divergence === "none" ? "as expected" : `${divergence} divergence`;
  return divergence_reason ? `${verdict}: ${divergence_reason}` : verdict;
}

function describeWorker({ mode, role, started_at, ended_at, cost_usd }) {
  const duration = started_at ? (ended_at || Date.now() / 1000) - started_at : 0;
  const worker = mode === "agent" ? `a sub-agent (${role || "worker"})` : "the main agent";
  return `${worker}${duration ? ` for ${formatDuration(duration)}` : ""}${cost_usd > 0 ? `, ${formatMoney(cost_usd)}` : ""}`;
}

function Detail({ subGoal, onClose }) {
  const { id, status, description, outcome } = subGoal;
  return html`<div class="detail" role="region" aria-label="Sub-goal ${id}">
    <header>
      <${Pill} status=${status} /><${ProofMark} proof=${subGoal.proof} />
      <strong dir="auto">#${id} ${description}</strong>
      <span class="grow"></span>
      <button class="btn ghost small" onClick=${onClose}>Close</button>
    </header>
    <dl>
      <${Fact} name="Expected">${subGoal.expected_outcome}<//>
      <${Fact} name="Outcome">${outcome && html`<pre>${outcome.summary || outcome.error || JSON.stringify(outcome.data)}</pre>`}<//>
      <${Fact} name="Reason">${subGoal.reason}<//>
      <${Fact} name="Evaluation">${describeEvaluation(subGoal)}<//>
      <${Fact} name="Checks">${subGoal.checks.length > 0 && html`<${Checks} checks=${subGoal.checks} />`}<//>
      <${Fact} name="Waits for">${formatIds(subGoal.depends_on) || "nothing"}<//>
      <${Fact} name="Worked on by">${describeWorker(subGoal)}<//>
    </dl>
  </div>`;
}

const Legend = () => html`<div class="legend" aria-hidden="true">
  ${STATUSES.map(
    (status) => html`<span key=${status}><${StatusIcon} status=${status} decorative />${getStatusLabel(status)}</span>`,
  )}
</div>`;

export function Plan({ subGoals, graph, picked, onPick }) {
  const byId = new Map(subGoals.map((subGoal) => [subGoal.id, subGoal]));
  const chooseView = (name) => {
    view.value = name;
    preferences.set("plan-view", name);
  };
  const chooseSize = (name) => (size.value = name);
  const isGraph = view.value === "graph";
  const renderPlan = () => {
    if (!subGoals.length) return html`<p class="empty">There is no plan yet.</p>`;
    if (isGraph && graph) return html`<${Graph} byId=${byId} graph=${graph} picked=${picked} onPick=${onPick} />`;
    return html`<${List} subGoals=${subGoals} onPick=${onPick} />`;
  };
  return html`<section class="card plan" aria-label="Plan">
    <header>
      <h2>Plan</h2>
      <${Choice} label="View" value=${view.value} options=${VIEWS} onChoose=${chooseView} />
      ${isGraph && html`<${Choice} label="Size" value=${size.value} options=${SIZES} onChoose=${chooseSize} />`}
      <span class="grow"></span>
      <${Legend} />
    </header>
    ${renderPlan()}
    ${byId.has(picked) && html`<${Detail} subGoal=${byId.get(picked)} onClose=${() => onPick(null)} />`}
  </section>`;
}

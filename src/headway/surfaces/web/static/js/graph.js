// The plan as a picture and as a list. Where cards stand is decided by the server; this only draws.
// Cards are buttons inside <foreignObject>, placed by attributes: no inline style.
import { html, remembered, signal, useEffect, useRef } from "./lib.js";
import { Choice, money, Pill, Status, span, tone, word } from "./ui.js";

const WIDTH = 176;
const HEIGHT = 46;
const MARGIN = 6;
const STATUSES = ["completed", "in-progress", "pending", "failed", "skipped"];

const view = signal(remembered.get("plan-view") === "list" ? "list" : "graph");
const size = signal("fit");

const look = (from, to) => {
  if (to.status === "in-progress") return "live";
  if (to.status === "skipped" || to.status === "failed") return "off";
  return from.status === "completed" && to.status === "completed" ? "done" : "";
};

// How far another card is in the direction of an arrow key; what is not in that direction does not count.
const DISTANCE = {
  ArrowDown: (x, y) => y > 8 && y + Math.abs(x) / 2,
  ArrowUp: (x, y) => y < -8 && -y + Math.abs(x) / 2,
  ArrowRight: (x, y) => x > 8 && x + Math.abs(y) * 4,
  ArrowLeft: (x, y) => x < -8 && -x + Math.abs(y) * 4,
};

function nearest(nodes, id, key) {
  const here = nodes.find((one) => one.id === id);
  const ranked = nodes
    .filter((one) => one.id !== id)
    .map((one) => [DISTANCE[key](one.x - here.x, one.y - here.y), one.id])
    .filter(([far]) => far !== false)
    .sort((a, b) => a[0] - b[0]);
  return ranked[0]?.[1];
}

function Picture({ byId, graph, picked, onPick }) {
  const drawing = useRef();
  const nodes = graph.nodes.filter((one) => byId.has(one.id));
  const onKeyDown = (event) => {
    const id = Number(event.target.closest("button")?.dataset.id);
    if (event.key === "Escape") onPick(null);
    if (!id || !(event.key in DISTANCE)) return;
    event.preventDefault();
    const to = nearest(nodes, id, event.key);
    if (to) drawing.current.querySelector(`[data-id="${to}"]`).focus();
  };
  useEffect(() => {
    // Where it is wider than the window, the middle of the plan is worth more than its left edge.
    const frame = drawing.current.parentElement;
    frame.scrollLeft = (frame.scrollWidth - frame.clientWidth) / 2;
  }, [size.value, graph.width]);
  // One stop for the Tab key; arrows go on from there.
  const first = picked ?? nodes.find((one) => byId.get(one.id).status === "in-progress")?.id ?? nodes[0]?.id;
  const [width, height] = [graph.width + 2 * MARGIN, graph.height + 2 * MARGIN];
  return html`<div class="canvas" tabindex="-1">
    <svg ref=${drawing} class="dag ${size.value === "full" ? "full" : ""}" viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}" width=${width} height=${height} role="group" aria-label="Sub-goals and what they wait for. Arrow keys move between them." onKeyDown=${onKeyDown}>
      ${graph.edges.filter((edge) => byId.has(edge.from) && byId.has(edge.to)).map((edge) => html`<path key="${edge.from}-${edge.to}" d=${edge.path} class="${look(byId.get(edge.from), byId.get(edge.to))} ${picked === edge.from || picked === edge.to ? "lit" : ""}" />`)}
      ${nodes.map(({ id, x, y }) => {
        const one = byId.get(id);
        return html`<foreignObject key=${id} x=${x} y=${y} width=${WIDTH} height=${HEIGHT}>
          <button class="node ${tone(one.status)}" data-id=${id} tabindex=${id === first ? 0 : -1} aria-pressed=${String(picked === id)} title=${one.description} onClick=${() => onPick(picked === id ? null : id)}><${Status} s=${one.status} /><span dir="auto">${one.description}</span></button>
        </foreignObject>`;
      })}
    </svg>
  </div>`;
}

const numbers = (ids) => ids.map((id) => `#${id}`).join(", ");

const List = ({
  subGoals,
  onPick,
}) => html`<div class="scroll-x" tabindex="0" role="group" aria-label="Sub-goals"><table><thead><tr><th>#</th><th>Sub-goal</th><th>Status</th><th>Waits for</th><th>Agent</th><th>Cost</th></tr></thead><tbody>
  ${subGoals.map((one) => html`<tr key=${one.id}><td class="num faint">${one.id}</td><td><button class="plain" onClick=${() => onPick(one.id)} dir="auto">${one.description}</button></td><td><${Pill} s=${one.status} /></td><td class="num muted">${numbers(one.depends_on) || "—"}</td><td class="muted">${one.mode === "agent" ? one.role || "agent" : "main agent"}</td><td class="num muted">${one.cost_usd > 0 ? money(one.cost_usd) : "—"}</td></tr>`)}
</tbody></table></div>`;

const Fact = ({ name, children }) => children && html`<dt>${name}</dt><dd dir="auto">${children}</dd>`;

function Detail({ one, onClose }) {
  const took = one.started_at ? (one.ended_at || Date.now() / 1000) - one.started_at : 0;
  return html`<div class="detail" role="region" aria-label="Sub-goal ${one.id}">
    <header><${Pill} s=${one.status} /><strong dir="auto">#${one.id} ${one.description}</strong><span class="grow"></span><button class="btn ghost small" onClick=${onClose}>Close</button></header>
    <dl>
      <${Fact} name="Expected">${one.expected_outcome}<//>
      <${Fact} name="Outcome">${one.outcome && html`<pre>${one.outcome.summary || one.outcome.error || JSON.stringify(one.outcome.data)}</pre>`}<//>
      <${Fact} name="Reason">${one.reason}<//>
      <${Fact} name="Judged">${one.divergence && `${one.divergence === "none" ? "as expected" : `${one.divergence} divergence`}${one.divergence_reason ? `: ${one.divergence_reason}` : ""}`}<//>
      <${Fact} name="Waits for">${numbers(one.depends_on) || "nothing"}<//>
      <${Fact} name="Worked on by">${one.mode === "agent" ? `a sub-agent (${one.role || "worker"})` : "the main agent"}${took ? ` for ${span(took)}` : ""}${one.cost_usd > 0 ? `, ${money(one.cost_usd)}` : ""}<//>
    </dl>
  </div>`;
}

export function Plan({ subGoals, graph, picked, onPick }) {
  const byId = new Map(subGoals.map((one) => [one.id, one]));
  const choose = (name) => {
    view.value = name;
    remembered.set("plan-view", name);
  };
  const drawn = view.value === "graph";
  return html`<section class="card plan" aria-label="Plan">
    <header><h2>Plan</h2>
      <${Choice} label="View" value=${view.value} options=${[["graph", "Graph"], ["list", "List"]]} onChoose=${choose} />
      ${drawn && html`<${Choice} label="Size" value=${size.value} options=${[["fit", "Fit"], ["full", "100%"]]} onChoose=${(name) => (size.value = name)} />`}
      <span class="grow"></span>
      <div class="legend" aria-hidden="true">${STATUSES.map((status) => html`<span key=${status}><${Status} s=${status} quiet />${word(status)}</span>`)}</div></header>
    ${
      !subGoals.length
        ? html`<p class="empty">There is no plan yet.</p>`
        : drawn && graph
          ? html`<${Picture} byId=${byId} graph=${graph} picked=${picked} onPick=${onPick} />`
          : html`<${List} subGoals=${subGoals} onPick=${onPick} />`
    }
    ${byId.has(picked) && html`<${Detail} one=${byId.get(picked)} onClose=${() => onPick(null)} />`}
  </section>`;
}

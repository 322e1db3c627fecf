// The plan as a graph. The server decides where the cards are placed; this only draws them.
// Cards are buttons inside <foreignObject>, placed by attributes, because the content policy forbids inline styles.
import { html, useMemo, useRef } from "../../core/lib.js";
import { StatusIcon } from "../../core/ui.js";
import { ProofMark } from "../../work/proof.js";
import { pick, toggle } from "./address.js";
import { Canvas } from "./canvas.js";
import { useGrowing } from "./growing.js";
import { getLook, getLookClass, MinorMark } from "./sub_goal.js";

const CARD_WIDTH = 176;
const CARD_HEIGHT = 46;
const LABEL = "Sub-goals and what they wait for. Arrow keys move between them; plus, minus and zero zoom.";

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

// These read their own sub-goals, so that a change renders one card and its edges.

function Edge({ table, from, to, path, isLit }) {
  const [source, target] = [table.read(from), table.read(to)];
  return source && target && html`<path d=${path} class="${getEdgeClass(source, target)} ${isLit ? "lit" : ""}" />`;
}

function Card({ table, id, x, y, isPicked, isTabStop }) {
  const subGoal = table.read(id);
  if (!subGoal) return null;
  const look = getLook(subGoal);
  return html`<foreignObject x=${x} y=${y} width=${CARD_WIDTH} height=${CARD_HEIGHT}>
    <button
      class="node ${getLookClass(subGoal)} ${subGoal.superseded_by ? "superseded" : ""}"
      data-id=${id}
      tabindex=${isTabStop ? 0 : -1}
      aria-pressed=${String(isPicked)}
      title=${subGoal.description}
      onClick=${() => toggle(id)}
    ><${StatusIcon} status=${look} /><span dir="auto">${subGoal.title}</span><${MinorMark} subGoal=${subGoal} /><${ProofMark}
      proof=${subGoal.proof}
      compact
    /></button>
  </foreignObject>`;
}

function Dot({ table, id, x, y }) {
  const subGoal = table.read(id);
  return subGoal && html`<rect class=${getLookClass(subGoal)} x=${x} y=${y} width=${CARD_WIDTH} height=${CARD_HEIGHT} rx="12" />`;
}

export function Graph({ table, graph, picked }) {
  const drawing = useRef();
  const nodes = useMemo(() => graph.nodes.toSorted((a, b) => a.y - b.y || a.x - b.x), [graph]);
  const drawn = nodes.slice(0, useGrowing(nodes.length));
  const lowest = drawn.at(-1)?.y ?? 0; // edges are drawn as far as the cards are
  const tops = useMemo(() => new Map(nodes.map(({ id, y }) => [id, y])), [nodes]);
  const edges = drawn.length < nodes.length ? graph.edges.filter(({ to }) => tops.get(to) <= lowest) : graph.edges;
  const onKeyDown = (event) => {
    if (event.key === "Escape") pick(null);
    const id = Number(event.target.closest("button")?.dataset.id);
    if (!id || !(event.key in DISTANCES)) return;
    event.preventDefault();
    const nearest = findNearest(nodes, id, event.key);
    if (nearest) drawing.current.querySelector(`[data-id="${nearest}"]`)?.focus();
  };
  // The Tab key stops at one card; arrow keys move on from there.
  const isDrawn = nodes.some(({ id }) => id === picked);
  const current = graph.nodes.find(({ id }) => table.peek(id)?.status === "in-progress");
  const tabStop = isDrawn ? picked : (current ?? nodes[0])?.id;
  const map = drawn.map(({ id, x, y }) => html`<${Dot} key=${id} table=${table} id=${id} x=${x} y=${y} />`);
  return html`<${Canvas}
    width=${graph.width}
    height=${graph.height}
    label=${LABEL}
    map=${map}
    shownId=${picked}
    onKeyDown=${onKeyDown}
    drawingRef=${drawing}
  >
    ${edges.map(
      ({ from, to, path }) =>
        html`<${Edge}
          key="${from}-${to}"
          table=${table}
          from=${from}
          to=${to}
          path=${path}
          isLit=${picked === from || picked === to}
        />`,
    )}
    ${drawn.map(
      ({ id, x, y }) =>
        html`<${Card} key=${id} table=${table} id=${id} x=${x} y=${y} isPicked=${id === picked} isTabStop=${id === tabStop} />`,
    )}
  <//>`;
}

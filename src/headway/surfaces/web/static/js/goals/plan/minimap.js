// The whole drawing, small, beside its frame, with a frame around what is in sight. It can be hidden.
import { html, preferences, signal } from "../../core/lib.js";
import { isNarrow } from "./narrow.js";

const PREFERENCE = "plan-map"; // "shown" or "hidden"; without it, it is shown where there is room
const [WIDTH, SMALL_WIDTH] = [120, 56];
const ROOMY = 640; // pixels that the graph and the map have together, for the larger map
const PADDING = 8; // as in the styles

const preferred = signal(preferences.get(PREFERENCE));
const getWidth = (across) => (across >= ROOMY ? WIDTH : SMALL_WIDTH);

export const isMapShown = () => (preferred.value ? preferred.value === "shown" : !isNarrow.value);

/** How much of the width `across` the map takes if the drawing is larger than its frame. */
export const getMapRoom = (across) => (isMapShown() ? getWidth(across) + 2 * PADDING + 1 : 0);

export function toggleMap() {
  preferred.value = isMapShown() ? "hidden" : "shown";
  preferences.set(PREFERENCE, preferred.value);
}

/** Pressing a place shows it. */
export function Minimap({ view, width, height, children }) {
  const sight = view.sight.value;
  if (!sight || !isMapShown()) return null;
  const unit = Math.min(getWidth(sight.across) / width, Math.max(1, sight.room - 2 * PADDING) / height);
  const show = (event) => {
    if (!event.buttons) return;
    const box = event.currentTarget.getBoundingClientRect();
    view.showPoint((event.clientX - box.left) / unit, (event.clientY - box.top) / unit);
  };
  return html`<div class="minimap-rail">
    <svg
      class="minimap"
      viewBox="0 0 ${width} ${height}"
      width=${width * unit}
      height=${height * unit}
      aria-hidden="true"
      onPointerDown=${show}
      onPointerMove=${show}
    >
      ${children}
      <rect class="sight" x=${sight.x} y=${sight.y} width=${sight.width} height=${sight.height} stroke-width=${1.5 / unit} />
    </svg>
  </div>`;
}

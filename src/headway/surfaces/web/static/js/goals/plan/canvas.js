// A drawing that can be larger than its frame, with buttons to zoom below it and a small map of itself beside it.
import { html, useEffect, useLayoutEffect, useRef } from "../../core/lib.js";
import { Icon } from "../../core/ui.js";
import { getMapRoom, isMapShown, Minimap, toggleMap } from "./minimap.js";
import { createView, listen, MARGIN, MAX_SCALE, MIN_SCALE, STEP } from "./view.js";

const ZOOM_KEYS = {
  "+": ({ zoomTo, scale }) => zoomTo(scale.peek() * STEP),
  "=": ({ zoomTo, scale }) => zoomTo(scale.peek() * STEP),
  "-": ({ zoomTo, scale }) => zoomTo(scale.peek() / STEP),
  _: ({ zoomTo, scale }) => zoomTo(scale.peek() / STEP),
  0: ({ fit }) => fit(getMapRoom),
};

const Button = ({ label, onClick, children, isDisabled }) => html`<button
  class="btn small"
  aria-label=${label}
  title=${label}
  disabled=${isDisabled}
  onClick=${onClick}
>${children}</button>`;

function ZoomButtons({ view }) {
  const scale = view.scale.value;
  const percent = `${Math.round(scale * 100)}%`;
  return html`<div class="zoom" role="group" aria-label="Zoom">
    <${Button} label="Zoom out" isDisabled=${scale <= MIN_SCALE} onClick=${() => view.zoomTo(scale / STEP)}>−<//>
    <${Button} label="${percent}, change to the actual size" onClick=${() => view.zoomTo(1)}>
      <span class="num">${percent}</span>
    <//>
    <${Button} label="Zoom in" isDisabled=${scale >= MAX_SCALE} onClick=${() => view.zoomTo(scale * STEP)}>
      <${Icon} name="plus" />
    <//>
    <${Button} label="Fit to the frame" onClick=${() => view.fit(getMapRoom)}>Fit<//>
  </div>`;
}

/** Offered while the drawing is larger than its frame. */
function MapSwitch({ view }) {
  if (!view.sight.value) return null;
  const toggle = () => {
    toggleMap();
    view.adapt(getMapRoom);
  };
  return html`<button class="btn small" aria-pressed=${String(isMapShown())} onClick=${toggle}>Map</button>`;
}

/** `map`: what the small map shows. `onKeyDown` gets the keys first and may prevent their default. `shownId`: the card in sight. */
export function Canvas({ width, height, label, map, shownId, onKeyDown, drawingRef, children }) {
  const made = useRef(null);
  if (made.current?.width !== width || made.current?.height !== height) {
    const before = made.current?.view; // a plan that changes keeps its zoom
    made.current = { width, height, isNew: !before, view: createView(width, height, before) };
  }
  const { view, isNew } = made.current;
  useLayoutEffect(() => {
    if (isNew) view.fit(getMapRoom);
    else view.measure();
    return listen(view);
  }, [view]);
  useEffect(() => {
    const card = view.elements.drawing.querySelector(`[data-id="${shownId}"]`);
    card?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [shownId]);
  const onKey = (event) => {
    onKeyDown(event);
    const zoom = ZOOM_KEYS[event.key];
    if (!zoom || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    zoom(view);
  };
  const keep = (element) => {
    view.elements.drawing = element;
    drawingRef.current = element;
  };
  const unit = view.scale.value;
  return html`<div class="canvas">
    <div
      class="canvas-frame"
      ref=${(element) => (view.elements.frame = element)}
      tabindex="0"
      role="group"
      aria-label=${label}
      onKeyDown=${onKey}
    >
      <svg
        ref=${keep}
        class="graph"
        viewBox="${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}"
        width=${(width + 2 * MARGIN) * unit}
        height=${(height + 2 * MARGIN) * unit}
      >${children}</svg>
    </div>
    <${Minimap} view=${view} width=${width} height=${height}>${map}<//>
    <div class="canvas-bar"><${ZoomButtons} view=${view} /><span class="grow"></span><${MapSwitch} view=${view} /></div>
  </div>`;
}

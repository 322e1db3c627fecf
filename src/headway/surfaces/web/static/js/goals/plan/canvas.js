// A drawing that can be larger than its frame: it scrolls, zooms and shows a small map of itself while it does not fit.
// The frame is an ordinary scrolled element, so that wheels, fingers, scroll bars and arrow keys pan it as they always do.
import { html, signal, useEffect, useRef } from "../../core/lib.js";
import { Icon } from "../../core/ui.js";

export const MIN_SCALE = 0.75; // below that, the text of a card is smaller than 9 pixels
const MAX_SCALE = 2;
const STEP = 1.25;
const WHEEL_SPEED = 0.002;
const MARGIN = 8;
const MAP_WIDTH = 150;
const MAP_HEIGHT = 130;

const clamp = (scale) => Math.min(MAX_SCALE, Math.max(MIN_SCALE, scale));
const measureDistance = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);

/** The zoom of one drawing, and what of it is in sight, in its own units. */
function createView(width, height, before) {
  const scale = signal(before?.scale.peek() ?? 1);
  const sight = signal(null); // {x, y, width, height}; null: everything
  const elements = { frame: null, drawing: null, ...before?.elements };

  const measure = () => {
    const { frame, drawing } = elements;
    if (!frame) return;
    const fits = frame.scrollWidth <= frame.clientWidth + 1 && frame.scrollHeight <= frame.clientHeight + 1;
    if (fits) {
      sight.value = null;
      return;
    }
    const [outer, inner] = [frame.getBoundingClientRect(), drawing.getBoundingClientRect()];
    const unit = scale.peek();
    sight.value = {
      x: (outer.left - inner.left) / unit - MARGIN,
      y: (outer.top - inner.top) / unit - MARGIN,
      width: frame.clientWidth / unit,
      height: frame.clientHeight / unit,
    };
  };
  /** Zoom, while the point of the window at `x`, `y` keeps showing the same part of the drawing. */
  const zoomTo = (wanted, x, y) => {
    const { frame, drawing } = elements;
    const next = clamp(wanted);
    const box = frame.getBoundingClientRect();
    const [atX, atY] = [x ?? box.left + frame.clientWidth / 2, y ?? box.top + frame.clientHeight / 2];
    const before = drawing.getBoundingClientRect();
    const [partX, partY] = [(atX - before.left) / before.width, (atY - before.top) / before.height];
    scale.value = next;
    drawing.setAttribute("width", (width + 2 * MARGIN) * next);
    drawing.setAttribute("height", (height + 2 * MARGIN) * next);
    const after = drawing.getBoundingClientRect();
    frame.scrollLeft += after.left + partX * after.width - atX;
    frame.scrollTop += after.top + partY * after.height - atY;
    measure();
  };
  const getFitting = () => {
    const style = getComputedStyle(elements.frame);
    const room = elements.frame.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return Math.min(1, clamp(room / (width + 2 * MARGIN)));
  };
  const fit = () => {
    zoomTo(getFitting());
    elements.frame.scrollLeft = (elements.frame.scrollWidth - elements.frame.clientWidth) / 2;
    measure();
  };
  const showPoint = (x, y) => {
    const { frame, drawing } = elements;
    const [outer, inner] = [frame.getBoundingClientRect(), drawing.getBoundingClientRect()];
    const unit = scale.peek();
    frame.scrollLeft += inner.left + (x + MARGIN) * unit - outer.left - frame.clientWidth / 2;
    frame.scrollTop += inner.top + (y + MARGIN) * unit - outer.top - frame.clientHeight / 2;
  };
  return { scale, sight, elements, measure, zoomTo, fit, showPoint };
}

const ZOOM_KEYS = {
  "+": ({ zoomTo, scale }) => zoomTo(scale.peek() * STEP),
  "=": ({ zoomTo, scale }) => zoomTo(scale.peek() * STEP),
  "-": ({ zoomTo, scale }) => zoomTo(scale.peek() / STEP),
  _: ({ zoomTo, scale }) => zoomTo(scale.peek() / STEP),
  0: ({ fit }) => fit(),
};

/** Ctrl and the wheel, which is also what a pinch on a trackpad sends; two fingers; and dragging the background with a mouse. */
function listen(view) {
  const { frame } = view.elements;
  let pinch = null; // {distance, scale}
  let drag = null; // {x, y, left, top}
  const onWheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    view.zoomTo(view.scale.peek() * Math.exp(-event.deltaY * WHEEL_SPEED), event.clientX, event.clientY);
  };
  const onTouchStart = (event) => {
    pinch = event.touches.length === 2 ? { distance: measureDistance(event.touches), scale: view.scale.peek() } : null;
  };
  const onTouchMove = (event) => {
    if (!pinch || event.touches.length !== 2) return;
    event.preventDefault();
    const [a, b] = event.touches;
    const ratio = measureDistance(event.touches) / pinch.distance;
    view.zoomTo(pinch.scale * ratio, (a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2);
  };
  const onPointerDown = (event) => {
    if (event.pointerType !== "mouse" || event.button || event.target.closest("button")) return;
    drag = { x: event.clientX, y: event.clientY, left: frame.scrollLeft, top: frame.scrollTop };
    frame.setPointerCapture(event.pointerId);
    frame.classList.add("dragged");
  };
  const onPointerMove = (event) => {
    if (!drag) return;
    frame.scrollLeft = drag.left + drag.x - event.clientX;
    frame.scrollTop = drag.top + drag.y - event.clientY;
  };
  const onPointerUp = () => {
    drag = null;
    frame.classList.remove("dragged");
  };
  const listeners = [
    ["wheel", onWheel],
    ["touchstart", onTouchStart],
    ["touchmove", onTouchMove],
    ["touchend", onTouchStart],
    ["pointerdown", onPointerDown],
    ["pointermove", onPointerMove],
    ["pointerup", onPointerUp],
    ["pointercancel", onPointerUp],
    ["scroll", view.measure],
  ];
  for (const [kind, handler] of listeners) frame.addEventListener(kind, handler, { passive: false });
  const observer = new ResizeObserver(view.measure);
  observer.observe(frame);
  return () => {
    observer.disconnect();
    for (const [kind, handler] of listeners) frame.removeEventListener(kind, handler);
  };
}

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
    <${Button} label="Fit to the frame" onClick=${view.fit}>Fit<//>
  </div>`;
}

/** The whole drawing, small, with a frame around what is in sight. Pressing a place shows it. */
function Minimap({ view, width, height, children }) {
  const sight = view.sight.value;
  if (!sight) return null;
  const unit = Math.min(MAP_WIDTH / width, MAP_HEIGHT / height);
  const show = (event) => {
    if (!event.buttons) return;
    const box = event.currentTarget.getBoundingClientRect();
    view.showPoint((event.clientX - box.left) / unit, (event.clientY - box.top) / unit);
  };
  return html`<svg
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
  </svg>`;
}

/** `map`: what the small map shows. `onKeyDown` gets the keys first and may prevent their default. `shownId`: the card in sight. */
export function Canvas({ width, height, label, map, shownId, onKeyDown, drawingRef, children }) {
  const made = useRef(null);
  if (made.current?.width !== width || made.current?.height !== height) {
    const before = made.current?.view; // a plan that changes keeps its zoom
    made.current = { width, height, isNew: !before, view: createView(width, height, before) };
  }
  const { view, isNew } = made.current;
  useEffect(() => {
    if (isNew) view.fit();
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
    <${ZoomButtons} view=${view} />
    <${Minimap} view=${view} width=${width} height=${height}>${map}<//>
  </div>`;
}

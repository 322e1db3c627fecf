// How a drawing that can be larger than its frame is scrolled and zoomed.
// The frame is an ordinary scrolled element, so that wheels, fingers, scroll bars and arrow keys pan it as they always do.
import { signal } from "../../core/lib.js";

export const MIN_SCALE = 0.75; // below that, the text of a card is smaller than 9 pixels
export const MAX_SCALE = 2;
export const STEP = 1.25;
export const MARGIN = 8;
const WHEEL_SPEED = 0.002;

const clamp = (scale) => Math.min(MAX_SCALE, Math.max(MIN_SCALE, scale));
const measureDistance = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);

/** The zoom of one drawing, and what of it is in sight, in its own units. `before`: the view of the drawing that it replaces. */
export function createView(width, height, before) {
  const scale = signal(before?.scale.peek() ?? 1);
  const sight = signal(null); // {x, y, width, height, room}; null: everything
  const elements = { frame: null, drawing: null, ...before?.elements };
  let fitted = before?.getFitted() ?? 0; // the scale at which it fits

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
      room: frame.clientHeight, // in pixels
      across: frame.parentElement.clientWidth, // the frame and the map, in pixels
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
  /** The scale at which the drawing is as wide as the frame. If it is higher than the frame, the map will be beside it. */
  const getFitting = (getMapRoom) => {
    const { frame } = elements;
    const style = getComputedStyle(frame);
    const sides = (names) => names.reduce((sum, name) => sum + parseFloat(style[name]), 0);
    const across = frame.parentElement.clientWidth;
    const room = across - sides(["paddingLeft", "paddingRight"]) - (frame.offsetWidth - frame.clientWidth);
    const fill = (pixels) => Math.min(1, clamp(pixels / (width + 2 * MARGIN)));
    const isHigher = (height + 2 * MARGIN) * fill(room) + sides(["paddingTop", "paddingBottom"]) > parseFloat(style.maxHeight);
    return isHigher ? fill(room - getMapRoom(across)) : fill(room);
  };
  const fit = (getMapRoom) => {
    zoomTo(getFitting(getMapRoom));
    fitted = scale.peek();
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
  /** Fit again after the map came or went, unless a person has zoomed. */
  const adapt = (getMapRoom) => {
    if (scale.peek() === fitted) fit(getMapRoom);
    else measure();
  };
  return { scale, sight, elements, measure, zoomTo, fit, adapt, getFitted: () => fitted, showPoint };
}

/** Ctrl and the wheel, which is also what a pinch on a trackpad sends; two fingers; and dragging the background with a mouse. */
export function listen(view) {
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

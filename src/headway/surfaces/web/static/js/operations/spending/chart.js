// A chart of stacked bars, one per day, drawn as SVG. Bars stretch with the page; the labels are text beside them. With the
// keyboard or the mouse, one day is chosen, and its values are shown and read out.
import { html, useId, useRef, useState } from "../../core/lib.js";

const HEIGHT = 100; // of the drawing, in its own units
const STEP = 10; // per day, in its own units
const BAR = 7.4;
const NICE = [1, 2, 2.5, 5, 10];

/** The smallest round number that is not below the value. */
function roundUp(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return size * NICE.find((step) => step * size >= value * 0.999999);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const formatDay = (day) =>
  new Date(`${day}T00:00:00Z`).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

function Bar({ values, at, top, isChosen }) {
  let y = HEIGHT;
  const rects = values.map((value, group) => {
    const height = (HEIGHT * value) / top;
    y -= height;
    const x = at * STEP + (STEP - BAR) / 2;
    return height > 0 && html`<rect key=${group} class="series-${group}" x=${x} y=${y} width=${BAR} height=${height} />`;
  });
  return html`<g class=${isChosen ? "chosen" : ""}>${rects}</g>`;
}

function DayValues({ entry, labels, format }) {
  const shown = entry.values
    .map((value, at) => ({ value, at, label: labels[at] }))
    .filter(({ value }) => value > 0)
    .toSorted((a, b) => b.value - a.value);
  const parts = shown.map(({ label, value }) => `${label} ${format(value)}`).join(", ");
  return html`<strong>${formatDay(entry.day)}</strong>: ${format(sum(entry.values))}${parts && ` (${parts})`}`;
}

/** `series`: [{day, values}], a value for each of the `labels`. `format`: a value as text. */
export function StackedBars({ title, labels, series, format }) {
  const id = useId();
  const drawing = useRef();
  const [chosen, setChosen] = useState(null); // the position of the day
  const highest = Math.max(...series.map(({ values }) => sum(values)));
  const top = roundUp(highest);
  const width = series.length * STEP;
  const shownDays = [0, Math.floor((series.length - 1) / 2), series.length - 1];
  const entry = chosen === null ? null : series[chosen];
  const best = series.reduce((found, each) => (sum(each.values) > sum(found.values) ? each : found), series[0]);
  const description = `${series.length} days. Highest: ${format(highest)} on ${formatDay(best.day)}. The arrow keys choose a day.`;

  const onPointer = (event) => {
    const box = drawing.current.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * series.length);
    setChosen(Math.min(series.length - 1, Math.max(0, at)));
  };
  const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -series.length, End: series.length };
  const onKeyDown = (event) => {
    if (event.key === "Escape") setChosen(null);
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    setChosen((before) => Math.min(series.length - 1, Math.max(0, (before ?? (move > 0 ? -1 : series.length)) + move)));
  };

  return html`<div class="chart">
    <div class="chart-scale num" aria-hidden="true">
      ${[1, 0.5, 0].map((share) => html`<span key=${share}>${format(share * top)}</span>`)}
    </div>
    <div
      class="chart-drawing"
      ref=${drawing}
      role="application"
      aria-roledescription="chart"
      aria-labelledby="${id}-title"
      aria-describedby="${id}-description"
      tabindex="0"
      onKeyDown=${onKeyDown}
      onPointerMove=${onPointer}
      onPointerDown=${onPointer}
      onPointerLeave=${() => setChosen(null)}
    >
      <svg viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-labelledby="${id}-title ${id}-description">
        <title id="${id}-title">${title}</title>
        <desc id="${id}-description">${description}</desc>
        ${[0, 0.5, 1].map((share) => html`<path key=${share} class="grid" d="M0 ${share * HEIGHT}H${width}" />`)}
        ${chosen !== null && html`<rect class="chosen-day" x=${chosen * STEP} y="0" width=${STEP} height=${HEIGHT} />`}
        ${series.map(
          ({ day, values }, at) => html`<${Bar} key=${day} values=${values} at=${at} top=${top} isChosen=${at === chosen} />`,
        )}
      </svg>
    </div>
    <div class="chart-days num" aria-hidden="true">
      ${shownDays.map((at) => html`<span key=${at}>${formatDay(series[at].day)}</span>`)}
    </div>
    <p class="chart-caption num" role="status" dir="auto">
      ${entry ? html`<${DayValues} entry=${entry} labels=${labels} format=${format} />` : html`<span class="faint">${title}</span>`}
    </p>
  </div>`;
}

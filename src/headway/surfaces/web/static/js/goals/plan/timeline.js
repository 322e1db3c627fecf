// The plan over time: one row per sub-goal that was started, with a bar for each attempt. Bars of running work grow.
import { computed, html, useMemo, useState } from "../../core/lib.js";
import { Empty, formatDuration, now, pluralize, StatusIcon } from "../../core/ui.js";
import { toggle } from "./address.js";
import { useGrowing } from "./growing.js";
import { buildScale, countPeak, listSpans } from "./spans.js";
import { getLook } from "./sub_goal.js";

const ZOOMS = [1, 2, 4, 8, 16];
const BAR_STATUSES = { queued: "queued", running: "in-progress", waiting: "waiting", canceled: "skipped" };

const formatClock = (at) => new Date(at * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
const formatTick = (seconds) => (seconds ? formatDuration(seconds) : "0");

function describeSpan(span, n, count) {
  const attempt = count > 1 ? `attempt ${n + 1} of ${count}, ` : "";
  const status = { running: "running", "in-progress": "running" }[span.status] ?? span.status;
  const duration = formatDuration((span.end || now.peek()) - span.start);
  return `${span.role}, ${attempt}from ${formatClock(span.start)}, ${duration}, ${status}`;
}

/** A bar in percent of the row. One that is still running reads the clock, and only that one. */
function Bar({ span, scale, look, label, isThin }) {
  const end = span.end || Math.min(now.value, scale.end);
  const left = ((span.start - scale.start) / scale.length) * 100;
  const width = (Math.max(0, end - span.start) / scale.length) * 100;
  return html`<rect
    class="bar bar-${look} ${span.end ? "" : "growing"}"
    x="${left}%"
    y=${isThin ? 21 : 6}
    width="${Math.max(width, 0.25)}%"
    height=${isThin ? 4 : 12}
    rx="2"
  ><title>${label}</title></rect>`;
}

/** The last attempt looks like the sub-goal, which also says whether the result diverged. */
const getBarLook = (span, subGoal) => (span.isLatest && span.end ? getLook(subGoal) : (BAR_STATUSES[span.status] ?? span.status));

/** The spans of a sub-goal as text, so that the row renders again only if they change. */
function useSpans(state, id) {
  const read = () => JSON.stringify(listSpans(state.subGoals.read(id), state.runsOf(id), state.goal.peek().run_id));
  return useMemo(() => computed(read), [state, id]).value;
}

function Row({ state, id, scale, isPicked }) {
  const subGoal = state.subGoals.read(id);
  const { attempts, helpers } = JSON.parse(useSpans(state, id));
  const labels = attempts.map((span, n) => describeSpan(span, n, attempts.length));
  return html`<tr class=${isPicked ? "picked" : ""}>
    <th scope="row">
      <button class="plain" aria-pressed=${String(isPicked)} title=${subGoal.description} onClick=${() => toggle(id)}>
        <${StatusIcon} status=${getLook(subGoal)} /><span class="truncate" dir="auto">${subGoal.title}</span>
        ${attempts.length > 1 && html`<span class="attempts num" title="${attempts.length} attempts">×${attempts.length}</span>`}
      </button>
    </th>
    <td>
      <svg class="bars-row" role="img" aria-label=${labels.join("; ")}>
        ${attempts.map(
          (span, n) => html`<${Bar}
            key=${span.id}
            span=${span}
            scale=${scale}
            look=${getBarLook(span, subGoal)}
            label=${labels[n]}
          />`,
        )}
        ${helpers.map(
          (span) =>
            html`<${Bar} key=${span.id} span=${span} scale=${scale} look="helper" label=${describeSpan(span, 0, 1)} isThin />`,
        )}
      </svg>
    </td>
  </tr>`;
}

const Axis = ({ scale }) => html`<svg class="axis" aria-hidden="true">
  ${scale.ticks.map((tick) => {
    const x = `${(tick / scale.length) * 100}%`;
    return html`<line key=${tick} x1=${x} x2=${x} y1="18" y2="26" /><text key="t${tick}" x=${x} y="14">${formatTick(tick)}</text>`;
  })}
</svg>`;

/** Everything that was started, oldest first, as a text that changes only if this order does. */
function useStarted(state) {
  return useMemo(
    () =>
      computed(() =>
        state.subGoals
          .list()
          .filter(({ started_at }) => started_at)
          .toSorted((a, b) => a.start_ms - b.start_ms || a.id - b.id)
          .map(({ id }) => id)
          .join(),
      ),
    [state],
  )
    .value.split(",")
    .filter(Boolean)
    .map(Number);
}

/** The scale stays the same until something runs out of it, or ends. */
function useScale(state) {
  const kept = useMemo(() => ({ key: "", scale: null }), [state]);
  const spans = state.spans.value;
  const running = spans.filter(({ end }) => !end).length;
  const key = `${spans.length}/${running}/${Math.min(...spans.map(({ start }) => start))}`;
  const isOver = kept.scale && running && now.value > kept.scale.end;
  if (kept.key !== key || isOver || !kept.scale) Object.assign(kept, { key, scale: buildScale(spans, now.peek()) });
  return kept.scale;
}

function Chart({ state, ids, picked, zoom }) {
  const scale = useScale(state);
  const drawn = ids.slice(0, useGrowing(ids.length));
  return html`<div class="plan-scroll" tabindex="0" role="group" aria-label="Timeline">
    <table class="timeline zoom-${zoom}">
      <thead><tr>
        <th scope="col">Sub-goal</th>
        <th scope="col"><span class="sr-only">Time since ${formatClock(scale.start)}</span><${Axis} scale=${scale} /></th>
      </tr></thead>
      <tbody>
        ${drawn.map((id) => html`<${Row} key=${id} state=${state} id=${id} scale=${scale} isPicked=${id === picked} />`)}
      </tbody>
    </table>
  </div>`;
}

const ZoomButton = ({ label, isDisabled, onClick, children }) => html`<button
  class="btn small"
  aria-label=${label}
  title=${label}
  disabled=${isDisabled}
  onClick=${onClick}
>${children}</button>`;

export function Timeline({ state, picked }) {
  const [zoom, setZoom] = useState(1);
  const ids = useStarted(state);
  const waiting = state.subGoals.ids.value.length - ids.length;
  if (!ids.length) return html`<${Empty}>No sub-goal was started yet.<//>`;
  const at = ZOOMS.indexOf(zoom);
  const step = (by) => setZoom(ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, at + by))]);
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { "+": 1, "=": 1, "-": -1, _: -1, 0: -ZOOMS.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  };
  const peak = countPeak(state.spans.value);
  const facts = [`at most ${peak} at the same time`, waiting > 0 && `${pluralize(waiting, "sub-goal")} not started`];
  return html`<div class="timeline-view" onKeyDown=${onKeyDown}>
    <p class="timeline-facts muted">
      <span class="grow">${facts.filter(Boolean).join(" · ")}</span>
      <${ZoomButton} label="Zoom out" isDisabled=${at === 0} onClick=${() => step(-1)}>−<//>
      <span class="num">${zoom * 100}%</span>
      <${ZoomButton} label="Zoom in" isDisabled=${at === ZOOMS.length - 1} onClick=${() => step(1)}>+<//>
    </p>
    <${Chart} state=${state} ids=${ids} picked=${picked} zoom=${zoom} />
  </div>`;
}

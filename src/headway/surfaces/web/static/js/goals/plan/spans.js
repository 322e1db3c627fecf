// Who worked when, as spans of time. Pure: from rows to numbers.
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];
const TICK_COUNT = 8;
const GROWTH = 1.15; // room for what is still running, so that the scale changes only now and then

const isAttempt = (run, mainId) => run.parent_run_id === mainId;

/** The spans of a sub-goal: its attempts, and below them the runs that helped. `end` 0: it is still running. */
export function listSpans(subGoal, runs, mainId) {
  const own = runs.filter((run) => run.sub_goal_id === subGoal.id && run.parent_run_id);
  const toSpan = (run) => ({
    id: run.id,
    start: run.start_ms / 1000,
    end: run.end_ms / 1000,
    status: run.status,
    role: run.role,
    isLatest: run.id === subGoal.run_id,
  });
  const isAgent = subGoal.mode === "agent";
  const attempts = isAgent ? own.filter((run) => isAttempt(run, mainId)).map(toSpan) : [];
  const helpers = own.filter((run) => !isAgent || !isAttempt(run, mainId)).map(toSpan);
  if (!attempts.length && subGoal.started_at) {
    const { start_ms, end_ms, status, mode, role } = subGoal;
    const name = mode === "agent" ? role : "main agent";
    attempts.push({ id: "own", start: start_ms / 1000, end: end_ms / 1000, status, role: name, isLatest: true });
  }
  const oldestFirst = (a, b) => a.start - b.start || a.isLatest - b.isLatest;
  return { attempts: attempts.toSorted(oldestFirst), helpers: helpers.toSorted(oldestFirst) };
}

/** The scale that shows all spans. It ends after `now` while something runs. */
export function buildScale(spans, now) {
  const start = Math.min(...spans.map((span) => span.start));
  const isRunning = spans.some((span) => !span.end);
  const last = Math.max(start + 1, ...spans.map((span) => span.end || now));
  const length = Math.max(1, (last - start) * (isRunning ? GROWTH : 1));
  const step = TICKS.find((tick) => length / tick <= TICK_COUNT) ?? TICKS.at(-1);
  const ticks = Array.from({ length: Math.floor(length / step) + 1 }, (_, n) => n * step);
  return { start, end: start + length, length, ticks };
}

/** How many spans overlap at the busiest moment. One that begins when another ends does not overlap it. */
export function countPeak(spans) {
  const changes = spans.flatMap(({ start, end }) => [
    [start, 1],
    [end || Number.POSITIVE_INFINITY, -1],
  ]);
  changes.sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] - b[0]));
  let [current, peak] = [0, Math.min(1, spans.length)]; // also if all of them took no time
  for (const [, change] of changes) {
    current += change;
    peak = Math.max(peak, current);
  }
  return peak;
}

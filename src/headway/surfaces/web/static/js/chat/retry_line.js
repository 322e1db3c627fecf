// A call that failed and is made again: which attempt comes next, when, and why the last one failed.
import { post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useState } from "../core/lib.js";
import { formatDuration, Icon, StatusIcon } from "../core/ui.js";
import { Why } from "../work/why.js";

const PROGRESS_KINDS = ["message", "tool_call"]; // after them, a delay is over

export const RetryButton = ({ runId, children }) => html`<button
  class="btn small"
  onClick=${() => attempt(() => post(`/v1/jobs/${runId}/retry`))}
><${Icon} name="replan" />${children}</button>`;

const toDelay = ({ attempt: next, attempts, reason }, until) => ({ next, attempts, reason, until });

/** The delay of an event that arrives now. The browser's clock may differ from the server's, so the event's delay counts. */
export const startDelay = (data) =>
  toDelay(data, data.delay_s === undefined ? data.retry_at : Math.round(Date.now() / 1000) + data.delay_s);

/** The delay of a running turn, or the attempt that follows it, from the entries of the log. Undefined: it is not in one. */
export function findDelay(entries, turn) {
  const isOwn = ({ data }) => data.turn_id === turn.id;
  const at = entries.findLastIndex((entry) => entry.kind === "turn_delayed" && isOwn(entry));
  if (at < 0) return undefined;
  const isOver = entries.slice(at + 1).some((entry) => PROGRESS_KINDS.includes(entry.kind) && isOwn(entry));
  return isOver ? undefined : toDelay(entries[at].data, turn.retry_at);
}

const formatRest = (seconds) => {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.ceil(seconds / 60)} min` : formatDuration(seconds);
};

/** Counts down each second. Screen readers skip it, because the log that it stands in is announced when it changes. */
function Countdown({ until }) {
  const [now, setNow] = useState(() => Date.now() / 1000);
  const rest = Math.ceil(until - now);
  useEffect(() => {
    if (rest <= 0) return undefined;
    const timer = setInterval(() => setNow(Date.now() / 1000), 1_000);
    return () => clearInterval(timer);
  }, [until, rest <= 0]);
  if (rest <= 0) return null;
  return html`<span aria-hidden="true" title=${new Date(until * 1000).toLocaleTimeString()}> in ${formatRest(rest)}</span>`;
}

export function RetryLine({ id, runId, delayed }) {
  const { next, attempts, until, reason } = delayed;
  return html`<li class="turn-note warn">
    <${StatusIcon} status="delayed" decorative />
    <div class="grow">
      <strong>Retrying: attempt ${next} of ${attempts}<${Countdown} until=${until} />.</strong>${" "}
      <span dir="auto">${reason}</span><${Why} kind="turn" id=${id} of="This turn" />
    </div>
    ${runId && until > Date.now() / 1000 && html`<${RetryButton} runId=${runId}>Retry now<//>`}
  </li>`;
}

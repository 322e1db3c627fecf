// The queue: how much waits and runs, and the jobs, filtered by the address. A job opens beside the list.
import { get } from "../../core/api.js";
import { html, signal, useEffect } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import {
  Ago,
  Card,
  capitalize,
  Empty,
  formatDuration,
  getStatusLabel,
  pluralize,
  Select,
  StatusIcon,
  Until,
} from "../../core/ui.js";
import { buildAddress, describeJob, getFilters, JOB_KINDS, JOB_STATES, Known, Pages, setFilters, usePolling } from "../parts.js";
import { JobDialog } from "./job_dialog.js";

const queue = signal(null);
const page = signal(null); // {jobs, next_cursor, of: the filters}
const PAGE_SIZE = 50;
const OPEN_STATES = ["running", "queued", "delayed", "dead"];
const LONG_WAIT_S = 60;

const loadQueue = async () => (queue.value = (await get("/v1/queue")).queue);

async function loadJobs() {
  const filters = getFilters("state", "kind", "cursor");
  const loaded = await get("/v1/jobs", { ...filters, limit: PAGE_SIZE });
  const of = JSON.stringify(filters);
  if (of === JSON.stringify(getFilters("state", "kind", "cursor"))) page.value = { ...loaded, of };
}

export const load = () => Promise.all([loadQueue(), loadJobs()]);

const reload = coalesce(load);
const KINDS = ["job_dead", "agent_changed", "turn_started", "turn_finished", "turn_failed", "turn_canceled", "turn_resumed"];
export const on = Object.fromEntries(KINDS.map((kind) => [kind, reload]));

const sum = (counts, state) => counts.filter((row) => row.state === state).reduce((total, row) => total + row.count, 0);

const describeWait = ({ due, oldest_due_s }) =>
  due ? `${pluralize(due, "job")} due, the oldest for ${formatDuration(oldest_due_s)}` : "nothing waits for a worker";

function Counts({ counts }) {
  const kinds = [...new Set(counts.map(({ kind }) => kind))];
  const count = (state, kind) => counts.find((row) => row.state === state && row.kind === kind)?.count ?? 0;
  if (!kinds.length) return html`<${Empty}>No job waits or runs.<//>`;
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="Jobs by kind and state">
    <table class="counts">
      <thead>
        <tr>
          <th scope="col">Kind</th>
          ${OPEN_STATES.map((state) => html`<th key=${state} scope="col">${capitalize(state)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${kinds.map(
          (kind) => html`<tr key=${kind}>
            <th scope="row">${kind}</th>
            ${OPEN_STATES.map((state) => {
              const number = count(state, kind);
              return html`<td key=${state} class="num">
                ${number ? html`<a class="link" href=${buildAddress({ state, kind, cursor: "" })}>${number}</a>` : "0"}
              </td>`;
            })}
          </tr>`,
        )}
        <tr>
          <th scope="row">all</th>
          ${OPEN_STATES.map((state) => html`<td key=${state} class="num">${sum(counts, state)}</td>`)}
        </tr>
      </tbody>
    </table>
  </div>`;
}

const Summary = ({ known }) => html`<p class="queue-wait ${known.oldest_due_s > LONG_WAIT_S ? "status-late" : "muted"}">
    ${capitalize(describeWait(known))}.
  </p>
  <${Counts} counts=${known.counts} />`;

function describeTime(job) {
  if (job.state === "delayed" && job.due_at) return html`due <${Until} at=${job.due_at} />`;
  if (job.state === "delayed") return "waits to be woken";
  if (job.state === "queued") return html`queued <${Ago} at=${job.updated_at} />`;
  return html`<${Ago} at=${job.updated_at} />`;
}

function JobRow({ job }) {
  const facts = [job.kind, getStatusLabel(job.state)];
  if (job.attempts) facts.push(`attempt ${job.attempts} of ${job.max_attempts}`);
  return html`<li>
    <${StatusIcon} status=${job.state} />
    <div class="grow">
      <a class="row-title clamp" href=${buildAddress({ job: job.id })} dir="auto">${describeJob(job)}</a>
      ${job.error && html`<div class="sub error" dir="auto">${job.error}</div>`}
      <div class="sub num">${facts.join(" · ")} · ${describeTime(job)}</div>
    </div>
  </li>`;
}

const Filters = () => {
  const { state = "", kind = "" } = getFilters("state", "kind");
  const label = (names, all) => [["", all], ...names.map((name) => [name, capitalize(name)])];
  return html`<div class="filters">
    <${Select} label="State" value=${state} options=${label(JOB_STATES, "Every state")} onChoose=${(value) =>
      setFilters({ state: value, cursor: "" })} />
    <${Select} label="Kind" value=${kind} options=${label(JOB_KINDS, "Every kind")} onChoose=${(value) =>
      setFilters({ kind: value, cursor: "" })} />
  </div>`;
};

const List = ({ known }) =>
  known.jobs.length
    ? html`<ul class="rows" aria-label="Jobs">${known.jobs.map((job) => html`<${JobRow} key=${job.id} job=${job} />`)}</ul>
        <${Pages} cursor=${known.next_cursor} />`
    : html`<${Empty}>No job matches. Completed jobs are kept for 30 days.<//>`;

export function Tab() {
  const filters = JSON.stringify(getFilters("state", "kind", "cursor"));
  usePolling(load);
  useEffect(() => {
    if (page.value && page.value.of !== filters) loadJobs().catch(() => {});
  }, [filters]);
  const known = page.value?.of === filters ? page.value : null;
  const { job } = getFilters("job");
  return html`<${Card} title="Queue">
      <${Known} value=${queue.value}>${(value) => html`<${Summary} known=${value} />`}<//>
    <//>
    <${Card} title="Jobs" actions=${html`<${Filters} />`}>
      <${Known} value=${known}>${(value) => html`<${List} known=${value} />`}<//>
    <//>
    ${job && html`<${JobDialog} key=${job} id=${job} onChange=${load} />`}`;
}

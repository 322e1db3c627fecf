// The processes that run jobs, for all tenants: who they are, whether they answer, and how much they do.
import { get } from "../../core/api.js";
import { html, signal } from "../../core/lib.js";
import { Ago, Card, Empty, pluralize, StatusIcon } from "../../core/ui.js";
import { Known, usePolling } from "../parts.js";

const workers = signal(null);

export const load = async () => (workers.value = (await get("/v1/workers")).workers);
export const on = {};

function describeState({ is_alive, takes_all_jobs, running }) {
  if (!is_alive) return ["dead", "stopped answering"];
  if (!takes_all_jobs) return ["paused", "runs only the jobs it started"];
  return running ? ["running", "working"] : ["done", "idle"];
}

const SHOWN_JOBS = 10;

function WorkerJobs({ jobs, running }) {
  const shown = jobs.slice(0, SHOWN_JOBS);
  const others = running - shown.length;
  return html`<div class="sub num">
    ${shown.map(
      (job, at) => html`${at > 0 && ", "}<a key=${job.id} class="link" href="/operations/queue?job=${job.id}">${job.kind}</a>${" "}
        since <${Ago} at=${job.since} />`,
    )}
    ${others > 0 && `${shown.length ? " and " : ""}${pluralize(others, "other job")}`}
  </div>`;
}

function Worker({ worker }) {
  const { host, pid, version, started_at, last_seen_at, slots, running, jobs } = worker;
  const [icon, state] = describeState(worker);
  const name = pid ? `${host}, process ${pid}` : host;
  return html`<li>
    <${StatusIcon} status=${icon} decorative />
    <div class="grow">
      <div dir="auto"><strong>${name}</strong></div>
      <div class="sub num">
        ${state} · ${started_at > 0 && html`started <${Ago} at=${started_at} /> · `}heard <${Ago} at=${last_seen_at} />
        ${version && ` · Headway ${version}`}
      </div>
      ${running > 0 && html`<${WorkerJobs} jobs=${jobs} running=${running} />`}
    </div>
    <div class="load">
      <span class="num">${running}${slots > 0 && ` of ${slots}`} ${slots === 1 ? "slot" : "slots"}</span>
      ${slots > 0 && html`<progress value=${running} max=${slots} aria-label="Slots in use of ${name}"></progress>`}
    </div>
  </li>`;
}

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((worker) => html`<${Worker} key=${worker.id} worker=${worker} />`)}</ul>`
    : html`<${Empty}>No process runs jobs.<//>`;

const describeCount = (list) => {
  const alive = list.filter(({ is_alive }) => is_alive).length;
  const lost = list.length - alive;
  return `${alive} answering${lost ? `, ${lost} lost` : ""}`;
};

export function Tab() {
  usePolling(load);
  return html`<${Card} title="Workers" count=${workers.value ? describeCount(workers.value) : undefined}>
    <${Known} value=${workers.value}>${(list) => html`<${List} list=${list} />`}<//>
    <p class="hint card-note">
      Processes of the whole installation, for all tenants. Start another one with <code>headway worker</code>. One that stopped
      answering stays in this list for a day; its jobs are taken over after seconds.
    </p>
  <//>`;
}

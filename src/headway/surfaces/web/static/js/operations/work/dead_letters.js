// Dead letters: jobs that failed at every attempt, until a person retries or drops them, one by one or many at once.
import { get, post, remove } from "../../core/api.js";
import { ask } from "../../core/dialogs.js";
import { html, signal, useEffect } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { Ago, Card, capitalize, Empty, Icon, pluralize, Select, StatusIcon } from "../../core/ui.js";
import { countDeadLetters } from "../../core/watch.js";
import { Why } from "../../work/why.js";
import { act, buildAddress, ConversationLink, describeJob, getFilters, Known, Pages, setFilters } from "../parts.js";
import { BulkProgress, changeDeadJobs, progress } from "./bulk.js";
import { JobDialog } from "./job_dialog.js";

const PAGE_SIZE = 50;
const page = signal(null); // {jobs, next_cursor, of: the filters}
const counts = signal(null); // of dead letters, by kind
const chosen = signal(new Set()); // ids

const readFilters = () => getFilters("kind", "cursor");

async function loadJobs() {
  const filters = readFilters();
  const loaded = await get("/v1/jobs", { state: "dead", ...filters, limit: PAGE_SIZE });
  const of = JSON.stringify(filters);
  if (of !== JSON.stringify(readFilters())) return;
  page.value = { ...loaded, of };
  const ids = new Set(loaded.jobs.map(({ id }) => id));
  chosen.value = new Set([...chosen.value].filter((id) => ids.has(id)));
}

async function loadCounts() {
  const { queue } = await get("/v1/queue");
  counts.value = queue.counts.filter(({ state }) => state === "dead");
}

export const load = () => Promise.all([loadJobs(), loadCounts()]);
const reload = () => Promise.all([load(), countDeadLetters()]);

export const on = { job_dead: coalesce(load), turn_resumed: coalesce(reload) };

const countOf = (kind) => counts.value.filter((row) => !kind || row.kind === kind).reduce((total, row) => total + row.count, 0);

function toggle(id) {
  const ids = new Set(chosen.value);
  if (!ids.delete(id)) ids.add(id);
  chosen.value = ids;
}

const QUESTIONS = {
  retry: ["Retry", "Each runs again with the same context, from where it stopped.", "Retry them"],
  drop: ["Drop", "They cannot be retried after this.", "Drop them"],
};

function askToChange(action, target) {
  const [verb, text, confirm] = QUESTIONS[action];
  const kind = target.kind ? ` of kind ${target.kind}` : "";
  ask({
    title: `${verb} ${pluralize(target.total, "dead letter")}${kind}?`,
    text,
    confirm,
    danger: action === "drop",
    run: () => changeDeadJobs(action, target).finally(reload),
  });
}

function BulkBar({ jobs }) {
  const { kind = "" } = getFilters("kind");
  const ids = [...chosen.value];
  const isBusy = Boolean(progress.value && !progress.value.isOver);
  const areAllChosen = jobs.length > 0 && ids.length === jobs.length;
  const chooseAll = () => (chosen.value = areAllChosen ? new Set() : new Set(jobs.map(({ id }) => id)));
  const total = ids.length || (counts.value ? countOf(kind) : jobs.length);
  const target = ids.length ? { ids, total } : { kind, total };
  const name = ids.length ? `${ids.length} chosen` : `all ${total}`;
  return html`<div class="bulk-bar">
    <label class="bulk-all"><input type="checkbox" checked=${areAllChosen} onChange=${chooseAll} />Choose all on this page</label>
    <span class="grow"></span>
    <button class="btn small" disabled=${isBusy || !total} onClick=${() => askToChange("retry", target)}>
      <${Icon} name="replan" />Retry ${name}
    </button>
    <button class="btn small danger" disabled=${isBusy || !total} onClick=${() => askToChange("drop", target)}>Drop ${name}</button>
  </div>`;
}

function DeadLetter({ job }) {
  const name = describeJob(job);
  const retry = () => act(() => post(`/v1/jobs/${job.id}/retry`), reload);
  const drop = () => act(() => remove(`/v1/jobs/${job.id}`), reload);
  const askToDrop = () =>
    ask({ title: "Drop this dead letter?", text: `${name}: it cannot be retried after this.`, confirm: "Drop it", run: drop });
  return html`<li>
    <input type="checkbox" aria-label="Choose ${name}" checked=${chosen.value.has(job.id)} onChange=${() => toggle(job.id)} />
    <${StatusIcon} status="dead" />
    <div class="grow">
      <a class="row-title clamp" href=${buildAddress({ job: job.id })} dir="auto">${name}</a>
      <div class="sub error" dir="auto">${job.error}</div>
      <div class="sub num">
        ${job.kind} · ${pluralize(job.attempts, "attempt")} · <${Ago} at=${job.updated_at} />
        <${ConversationLink} id=${job.payload.conversation_id} />
      </div>
      <${Why} kind="job" id=${job.id} of=${name} />
    </div>
    <div class="actions">
      <button class="btn small" aria-label="Retry ${name}" onClick=${retry}><${Icon} name="replan" />Retry</button>
      <button class="btn small danger" aria-label="Drop ${name}" onClick=${askToDrop}>Drop</button>
    </div>
  </li>`;
}

const List = ({ known }) =>
  known.jobs.length
    ? html`<${BulkBar} jobs=${known.jobs} />
        <ul class="rows" aria-label="Dead letters">${known.jobs.map((job) => html`<${DeadLetter} key=${job.id} job=${job} />`)}</ul>
        <${Pages} cursor=${known.next_cursor} />`
    : html`<${Empty}>Nothing here. Work that fails every attempt appears in this list.<//>`;

function KindFilter() {
  const { kind = "" } = getFilters("kind");
  const kinds = [...new Set([...(counts.value ?? []).map((row) => row.kind), ...(kind ? [kind] : [])])];
  if (kinds.length < 2 && !kind) return null;
  const options = [["", "Every kind"], ...kinds.map((name) => [name, capitalize(name)])];
  const choose = (value) => setFilters({ kind: value, cursor: "" });
  return html`<${Select} label="Kind" value=${kind} options=${options} onChoose=${choose} />`;
}

export function Tab() {
  const filters = JSON.stringify(readFilters());
  useEffect(() => {
    if (page.value && page.value.of !== filters) loadJobs().catch(() => {});
  }, [filters]);
  const known = page.value?.of === filters ? page.value : null;
  const { job, kind } = getFilters("job", "kind");
  return html`<${Card}
      title="Dead letters"
      count=${counts.value ? countOf(kind) : undefined}
      actions=${html`<${KindFilter} />`}
    >
      <${BulkProgress} />
      <${Known} value=${known}>${(value) => html`<${List} known=${value} />`}<//>
    <//>
    ${job && html`<${JobDialog} key=${job} id=${job} onChange=${reload} />`}`;
}

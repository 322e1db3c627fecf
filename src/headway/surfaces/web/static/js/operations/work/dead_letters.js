// Dead letters: jobs that failed at every attempt, until a person retries or drops them.
import { get, post, remove } from "../../core/api.js";
import { ask, attempt } from "../../core/dialogs.js";
import { html, signal } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { Ago, Card, Empty, Icon, pluralize, StatusIcon } from "../../core/ui.js";
import { countDeadLetters } from "../../core/watch.js";
import { Why } from "../../work/why.js";
import { ConversationLink, Known } from "../parts.js";

const deadJobs = signal(null);

export const load = async () => (deadJobs.value = (await get("/v1/jobs", { state: "dead", limit: 100 })).jobs);
const reload = () => Promise.all([load(), countDeadLetters()]);

export const on = { job_dead: coalesce(load), turn_resumed: coalesce(reload) };

const describeJob = ({ kind, payload }) => payload.request ?? payload.task ?? payload.name ?? kind;

function DeadLetter({ job }) {
  const name = describeJob(job);
  const retry = () =>
    attempt(async () => {
      await post(`/v1/jobs/${job.id}/retry`);
      await reload();
    });
  const drop = async () => {
    await remove(`/v1/jobs/${job.id}`);
    await reload();
  };
  const askToDrop = () =>
    ask({ title: "Drop this dead letter?", text: `${name}: it cannot be retried after this.`, confirm: "Drop it", run: drop });
  return html`<li>
    <${StatusIcon} status="dead" />
    <div class="grow">
      <div class="clamp" dir="auto">${name}</div>
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

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((job) => html`<${DeadLetter} key=${job.id} job=${job} />`)}</ul>`
    : html`<${Empty}>Nothing here. Work that fails every attempt appears in this list.<//>`;

export const Tab = () => html`<${Card} title="Dead letters" count=${deadJobs.value?.length}>
  <${Known} value=${deadJobs.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;

// The operator's page: the kill switch, costs, dead letters, schedules, webhooks, agents and notices.
import { get, post, put, remove } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { html, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { session } from "../core/session.js";
import { Ago, Card, Empty, formatMoney, getStatusLabel, Icon, Main, pluralize, RetryTime, StatusIcon } from "../core/ui.js";
import { deadLetterCount, halt, useStream } from "../core/watch.js";
import { Why } from "../work/why.js";
import { Costs, loadCosts } from "./costs.js";
import { Schedules } from "./schedules.js";
import { loadWebhooks, Webhooks } from "./webhooks.js";

export const TITLE = "Operations";

const deadJobs = signal([]);
const schedules = signal([]);
const agents = signal([]);
const notices = signal([]);

const PAGE_SIZE = 50;

async function loadDeadJobs() {
  deadJobs.value = (await get("/v1/jobs", { state: "dead", limit: 100 })).jobs;
  deadLetterCount.value = deadJobs.value.length;
}
const loadSchedules = async () => (schedules.value = (await get("/v1/schedules", { limit: 500 })).schedules);
const loadAgents = async () => (agents.value = (await get("/v1/agents", { limit: PAGE_SIZE })).agents);
const loadNotices = async () => (notices.value = (await get("/v1/notices", { limit: PAGE_SIZE })).notices);

async function load() {
  await Promise.all([loadDeadJobs(), loadSchedules(), loadAgents(), loadCosts(), loadNotices(), loadWebhooks()]);
}

const reloadAgents = coalesce(loadAgents);
const on = {
  job_dead: coalesce(() => Promise.all([loadDeadJobs(), loadWebhooks()])),
  schedule_changed: coalesce(loadSchedules),
  agent_changed: reloadAgents,
  turn_started: reloadAgents,
  turn_finished: reloadAgents,
  turn_failed: reloadAgents,
  turn_canceled: reloadAgents,
  turn_resumed: coalesce(loadDeadJobs),
  cost_changed: coalesce(loadCosts),
  cost_limit_changed: coalesce(loadCosts),
  operator_notice: coalesce(loadNotices),
  webhook_changed: coalesce(loadWebhooks),
};

const ConversationLink = ({ id }) => (id ? html` · <a class="link" href="/c/${id}">conversation</a>` : null);

// The kill switch

const askToHalt = () =>
  ask({
    title: "Halt everything?",
    text:
      "No model is called, no tool runs and nothing starts, for every tenant of this installation. " +
      "Nothing is lost: work resumes where it stopped once you lift the halt.",
    confirm: "Halt everything",
    run: () => put("/v1/halt", { why: "Halted from the page" }),
  });

function HaltButton() {
  if (!halt.value.isKnown) return null;
  if (!halt.value.halted) {
    return html`<button class="btn danger" onClick=${askToHalt}><${Icon} name="stop" />Halt everything</button>`;
  }
  const lift = () => attempt(() => remove("/v1/halt"));
  return html`<button class="btn primary" onClick=${lift}><${Icon} name="play" />Lift the halt</button>`;
}

function HaltState() {
  const { isKnown, halted, why, since } = halt.value;
  if (!isKnown) return html`<span class="skeleton" aria-label="Loading"></span>`;
  if (!halted) return html`<strong>Agents can run.</strong> <span class="muted">A halt stops all of them at once.</span>`;
  return html`<strong>Everything is halted</strong> <span class="muted">
    since <${Ago} at=${since} />. <span dir="auto">${why}</span>
  </span>`;
}

const KillSwitch = () => html`<${Card} title="Kill switch">
  <div class="halt">
    <${StatusIcon} status=${halt.value.halted ? "paused" : halt.value.isKnown ? "done" : "pending"} decorative />
    <div class="grow">
      <${HaltState} />
      ${!session.value?.operator && html`<p class="hint">Halting needs a token with the operator scope.</p>`}
    </div>
    ${session.value?.operator && html`<${HaltButton} />`}
  </div>
<//>`;

// Dead letters

const describeJob = ({ kind, payload }) => payload.request ?? payload.task ?? payload.name ?? kind;

function DeadLetter({ job }) {
  const name = describeJob(job);
  const retry = () =>
    attempt(async () => {
      await post(`/v1/jobs/${job.id}/retry`);
      await loadDeadJobs();
    });
  const drop = async () => {
    await remove(`/v1/jobs/${job.id}`);
    await loadDeadJobs();
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

const DeadLetters = () => html`<${Card} title="Dead letters" id="dead" count=${deadJobs.value.length}>
  ${
    deadJobs.value.length
      ? html`<ul class="rows">${deadJobs.value.map((job) => html`<${DeadLetter} key=${job.id} job=${job} />`)}</ul>`
      : html`<${Empty}>Nothing here. Work that fails every attempt appears in this list.<//>`
  }
<//>`;

// Agents

const isRunning = (run) => !run.ended_at;

function AgentRow({ run }) {
  const { id, parent_run_id, turn_id, task } = run;
  const facts = [run.role, getStatusLabel(run.status), `step ${run.iterations} of ${run.limit}`, formatMoney(run.cost_usd)];
  const stop = async () => {
    await post(parent_run_id ? `/v1/agents/${id}/cancel` : `/v1/turns/${turn_id}/cancel`);
    await loadAgents();
  };
  const cancel = () => ask({ title: "Stop this agent?", text: task, confirm: "Stop it", run: stop });
  const canCancel = isRunning(run) && (parent_run_id || turn_id);
  return html`<li>
    <${StatusIcon} status=${run.status} />
    <div class="grow">
      <div class="clamp" dir="auto">${task}</div>
      <div class="sub num">
        ${facts.join(" · ")} · ${isRunning(run) ? "checked in" : "ended"} <${Ago} at=${run.ended_at || run.updated_at} />
        <${RetryTime} at=${run.retry_at} />
        <${ConversationLink} id=${run.conversation_id} />
      </div>
      <${Why} kind="job" id=${id} of=${task} />
    </div>
    ${
      canCancel &&
      html`<div class="actions">
        <button class="btn small danger" aria-label="Cancel ${task}" onClick=${cancel}>Cancel</button>
      </div>`
    }
  </li>`;
}

function Agents() {
  const sorted = agents.value.toSorted((a, b) => Number(isRunning(b)) - Number(isRunning(a)));
  const count = sorted.filter(isRunning).length;
  return html`<${Card} title="Agents" count=${count ? `${count} running` : "none running"}>
    ${
      sorted.length
        ? html`<ul class="rows tall" tabindex="0" aria-label="Agents">
            ${sorted.map((run) => html`<${AgentRow} key=${run.id} run=${run} />`)}
          </ul>`
        : html`<${Empty}>No agent has run yet.<//>`
    }
  <//>`;
}

// Notices to the operator

const REQUEST_URL = /^\/(approvals|questions)\/\d{1,18}$/;

const Notice = ({ notice }) => html`<li>
  <${Icon} name="bell" />
  <div class="grow">
    <div dir="auto">${notice.text}</div>
    <div class="sub">
      ${notice.kind.replaceAll("_", " ")} · <${Ago} at=${notice.created_at} />
      ${REQUEST_URL.test(notice.url) && html` · <a class="link" href=${notice.url}>open the request</a>`}
      ${notice.goal_id > 0 && html` · <a class="link" href="/goals/${notice.goal_id}">goal ${notice.goal_id}</a>`}
    </div>
  </div>
</li>`;

const Inbox = () => html`<${Card} title="Inbox" count=${notices.value.length || undefined}>
  ${
    notices.value.length
      ? html`<ul class="rows tall" tabindex="0" aria-label="Inbox">
          ${notices.value.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}
        </ul>`
      : html`<${Empty}>There are no notices.<//>`
  }
<//>`;

export function Page() {
  useStream("/v1/events", () => ({ load, on }));
  return html`<${Main}>
    <div class="title"><h1>Operations</h1></div>
    <${KillSwitch} />
    <div class="columns">
      <div class="stack"><${DeadLetters} /><${Schedules} list=${schedules.value} /><${Webhooks} /><${Agents} /></div>
      <div class="stack"><${Costs} /><${Inbox} /></div>
    </div>
  <//>`;
}

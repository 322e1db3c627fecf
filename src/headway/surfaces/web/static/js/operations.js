// What an operator looks after: the kill switch, money, dead letters, schedules, agents, and what was told.
import { get, post, put, remove } from "./api.js";
import { ask, attempt, tell } from "./dialogs.js";
import { html, signal, useRef } from "./lib.js";
import { soon } from "./looks.js";
import { session } from "./session.js";
import { Ago, Card, Delay, Empty, Icon, money, plural, Status, span, Until, word } from "./ui.js";
import { deadLetters, halt, useStream } from "./watch.js";

export const TITLE = "Operations";

const dead = signal([]);
const schedules = signal([]);
const agents = signal([]);
const costs = signal(null);
const notices = signal([]);

const SHOWN = 50;

async function loadDead() {
  dead.value = (await get("/v1/jobs", { state: "dead", limit: 100 })).jobs;
  deadLetters.value = dead.value.length;
}
const loadSchedules = async () => (schedules.value = (await get("/v1/schedules", { limit: 500 })).schedules);
const loadAgents = async () => (agents.value = (await get("/v1/agents", { limit: SHOWN })).agents);
const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
const loadNotices = async () => (notices.value = (await get("/v1/notices", { limit: SHOWN })).notices);

async function load() {
  await Promise.all([loadDead(), loadSchedules(), loadAgents(), loadCosts(), loadNotices()]);
}

const agentsSoon = soon(loadAgents);
const on = {
  job_dead: soon(loadDead),
  schedule_changed: soon(loadSchedules),
  agent_changed: agentsSoon,
  turn_started: agentsSoon,
  turn_finished: agentsSoon,
  turn_failed: agentsSoon,
  turn_canceled: agentsSoon,
  turn_resumed: soon(loadDead),
  cost_changed: soon(loadCosts),
  operator_notice: soon(loadNotices),
};

// The kill switch

function Halt() {
  const { halted, why, since } = halt.value;
  const may = session.value?.operator;
  const throwIt = () =>
    ask({
      title: "Halt everything?",
      text: "No model is called, no tool runs and nothing starts, for every tenant of this installation. Nothing is lost: it goes on where it stopped once you lift the halt.",
      yes: "Halt everything",
      run: () => put("/v1/halt", { why: "Halted from the page" }),
    });
  return html`<${Card} title="Kill switch">
    <div class="halt"><${Status} s=${halted ? "paused" : "done"} quiet />
      <div class="grow">${halted ? html`<strong>Everything is halted</strong> <span class="muted">since <${Ago} t=${since} />. <span dir="auto">${why}</span></span>` : html`<strong>Agents may work.</strong> <span class="muted">A halt stops all of them at once.</span>`}
        ${!may && html`<p class="hint">Throwing the switch needs a token with the operator grant.</p>`}</div>
      ${may && (halted ? html`<button class="btn primary" onClick=${() => attempt(() => remove("/v1/halt"))}><${Icon} n="play" />Let everything go on</button>` : html`<button class="btn danger" onClick=${throwIt}><${Icon} n="stop" />Halt everything</button>`)}
    </div>
  <//>`;
}

// Money

function Bar({ one, most }) {
  return html`<li><span class="cut" dir="auto">${one.model}</span><span>${money(one.cost_usd)}</span>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${most ? Math.max(0.6, (100 * one.cost_usd) / most) : 0} height="8" /></svg>
    <small class="num">${plural(one.calls, "call")} · ${one.input_tokens.toLocaleString()} tokens in · ${one.output_tokens.toLocaleString()} out</small></li>`;
}

function Costs() {
  const dialog = useRef();
  const spent = costs.value;
  if (!spent) return null;
  const most = Math.max(...spent.by_model.map((one) => one.cost_usd), 0);
  const save = (event) => {
    event.preventDefault();
    const limit = Number(event.currentTarget.limit.value);
    attempt(async () => {
      costs.value = (await put("/v1/costs", { limit_usd: limit })).costs;
      dialog.current.close();
      tell(`The pool is ${money(limit)} per ${span(spent.window_s)} now.`);
    });
  };
  const share = spent.limit_usd ? spent.spent_usd / spent.limit_usd : 1;
  return html`<${Card} title="Costs, last 24 hours" actions=${session.value?.operator && html`<button class="btn small" onClick=${() => dialog.current.showModal()}>Change the limit</button>`}>
    <div class="pool"><p><strong class="num">${money(spent.spent_usd)}</strong> <span class="muted num">of ${money(spent.limit_usd)} for all agents together</span></p>
      <progress class=${share > 0.8 ? "warn" : ""} value=${spent.spent_usd} max=${spent.limit_usd || 1} aria-label="Spent of the pool"></progress></div>
    ${spent.by_model.length ? html`<ul class="bars" aria-label="By model">${spent.by_model.map((one) => html`<${Bar} key=${one.model} one=${one} most=${most} />`)}</ul>` : html`<${Empty}>No model was called in the last 24 hours.<//>`}
    <dialog ref=${dialog} aria-labelledby="limit-title"><h2 id="limit-title">What may agents spend?</h2><p>For all agents of this tenant together, in any 24 hours. Turns that wait for money go on by themselves.</p>
      <form class="fields" onSubmit=${save}><label class="field">Dollars<input name="limit" type="number" min="0" max="1000000" step="0.01" required value=${spent.limit_usd} /></label>
        <div class="acts"><button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button><button class="btn primary">Save</button></div></form></dialog>
  <//>`;
}

// Dead letters

const what = (job) => job.payload.request ?? job.payload.task ?? job.payload.name ?? job.kind;

const DeadLetters = () => html`<${Card} title="Dead letters" id="dead" count=${dead.value.length}>
  ${
    dead.value.length
      ? html`<ul class="rows">${dead.value.map(
          (
            job,
          ) => html`<li key=${job.id}><${Status} s="dead" /><div class="grow"><div class="clamp" dir="auto">${what(job)}</div><div class="sub err" dir="auto">${job.error}</div>
          <div class="sub num">${job.kind} · ${plural(job.attempts, "attempt")} · <${Ago} t=${job.updated_at} />${job.payload.conversation_id ? html` · <a class="link" href="/c/${job.payload.conversation_id}">conversation</a>` : ""}</div></div>
          <div class="acts"><button class="btn small" aria-label="Retry ${what(job)}" onClick=${() =>
            attempt(async () => {
              await post(`/v1/jobs/${job.id}/retry`);
              await loadDead();
            })}><${Icon} n="replan" />Retry</button>
            <button class="btn small danger" aria-label="Drop ${what(job)}" onClick=${() =>
              ask({
                title: "Drop this dead letter?",
                text: `${what(job)}: it cannot be retried after that.`,
                yes: "Drop it",
                run: async () => {
                  await remove(`/v1/jobs/${job.id}`);
                  await loadDead();
                },
              })}>Drop</button></div></li>`,
        )}</ul>`
      : html`<${Empty}>Nothing here. Work that fails every attempt lands in this list.<//>`
  }
<//>`;

// Schedules

const timing = (one) => (one.cron ? html`<code>${one.cron}</code> ${one.timezone}` : `every ${span(one.every_s)}`);
const does = (one) => one.message?.content ?? one.goal?.description ?? one.tool?.name ?? "";

function ScheduleRow({ one }) {
  const path = `/v1/schedules/${encodeURIComponent(one.name)}`;
  const act = (verb) => () =>
    attempt(async () => {
      await post(`${path}/${verb}`);
      if (verb === "run") tell(`${one.name} runs now.`);
    });
  return html`<li><${Icon} n="clock" c=${one.paused ? "st-pending" : "st-current"} />
    <div class="grow"><div class="cut" dir="auto">${one.name}</div><div class="sub cut" dir="auto">${does(one)}</div>
      <div class="sub num">${timing(one)} · ${one.paused ? "paused" : html`next <${Until} t=${one.next_at} />`}${one.last_at > 0 && html` · last <${Ago} t=${one.last_at} />`}${one.skipped > 0 && ` · ${one.skipped} skipped`}</div></div>
    <div class="acts"><button class="btn small" aria-label="Run now: ${one.name}" onClick=${act("run")}><${Icon} n="play" />Run now</button>
      <button class="btn small" aria-label="${one.paused ? "Resume" : "Pause"} ${one.name}" onClick=${act(one.paused ? "resume" : "pause")}>${one.paused ? "Resume" : "Pause"}</button>
      <button class="btn small danger" aria-label="Delete ${one.name}" onClick=${() => ask({ title: `Delete ${one.name}?`, text: "It will not run again.", yes: "Delete it", run: () => remove(path) })}>Delete</button></div></li>`;
}

const Schedules = () => html`<${Card} title="Schedules" id="schedules" count=${schedules.value.length}>
  ${schedules.value.length ? html`<ul class="rows">${schedules.value.map((one) => html`<${ScheduleRow} key=${one.name} one=${one} />`)}</ul>` : html`<${Empty}>No recurring work. <code>headway schedule put</code> makes some.<//>`}
<//>`;

// Agents

const alive = (run) => !run.ended_at;

function AgentRow({ run }) {
  const stop = run.parent_run_id ? () => post(`/v1/agents/${run.id}/cancel`) : () => post(`/v1/turns/${run.turn_id}/cancel`);
  return html`<li><${Status} s=${run.status} /><div class="grow"><div class="clamp" dir="auto">${run.task}</div>
      <div class="sub num">${run.role} · ${word(run.status)} · step ${run.iterations} of ${run.limit} · ${money(run.cost_usd)} · ${alive(run) ? "checked in" : "ended"} <${Ago} t=${run.ended_at || run.updated_at} /><${Delay} t=${run.retry_at} />${run.conversation_id ? html` · <a class="link" href="/c/${run.conversation_id}">conversation</a>` : ""}</div></div>
    ${
      alive(run) &&
      (run.parent_run_id || run.turn_id) &&
      html`<div class="acts"><button class="btn small danger" aria-label="Cancel ${run.task}" onClick=${() =>
        ask({
          title: "Stop this agent?",
          text: run.task,
          yes: "Stop it",
          run: async () => {
            await stop();
            await loadAgents();
          },
        })}>Cancel</button></div>`
    }</li>`;
}

function Agents() {
  const sorted = agents.value.toSorted((a, b) => Number(alive(b)) - Number(alive(a)));
  const working = sorted.filter(alive).length;
  return html`<${Card} title="Agents" count=${working ? `${working} at work` : "none at work"}>
    ${sorted.length ? html`<ul class="rows tall" tabindex="0" aria-label="Agents">${sorted.map((run) => html`<${AgentRow} key=${run.id} run=${run} />`)}</ul>` : html`<${Empty}>No agent has worked yet.<//>`}
  <//>`;
}

// What the operator was told

const Inbox = () => html`<${Card} title="Inbox" count=${notices.value.length || undefined}>
  ${
    notices.value.length
      ? html`<ul class="rows tall" tabindex="0" aria-label="Inbox">${notices.value.map((one) => html`<li key=${one.id}><${Icon} n="bell" /><div class="grow"><div dir="auto">${one.text}</div><div class="sub">${one.kind.replaceAll("_", " ")} · <${Ago} t=${one.created_at} />${one.goal_id ? html` · <a class="link" href="/goals/${one.goal_id}">goal ${one.goal_id}</a>` : ""}</div></div></li>`)}</ul>`
      : html`<${Empty}>Nobody had to tell you anything.<//>`
  }
<//>`;

export function Page() {
  useStream("/v1/events", () => ({ load, on }));
  return html`<main class="main" id="main" tabindex="-1"><div class="page">
    <div class="title"><h1>Operations</h1></div>
    <${Halt} />
    <div class="cols"><div class="stack"><${DeadLetters} /><${Schedules} /><${Agents} /></div><div class="stack"><${Costs} /><${Inbox} /></div></div>
  </div></main>`;
}

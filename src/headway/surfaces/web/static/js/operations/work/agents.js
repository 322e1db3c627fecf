// Agents: those that run, and those that ran last.
import { get, post } from "../../core/api.js";
import { ask } from "../../core/dialogs.js";
import { html, signal } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { Ago, Card, Empty, formatMoney, getStatusLabel, RetryTime, StatusIcon } from "../../core/ui.js";
import { Why } from "../../work/why.js";
import { ConversationLink, GoalLink, Known } from "../parts.js";

const agents = signal(null);
const PAGE_SIZE = 50;

export const load = async () => (agents.value = (await get("/v1/agents", { limit: PAGE_SIZE })).agents);

const reload = coalesce(load);
export const on = {
  agent_changed: reload,
  turn_started: reload,
  turn_finished: reload,
  turn_failed: reload,
  turn_canceled: reload,
};

const isRunning = (run) => !run.ended_at;

function AgentRow({ run }) {
  const { id, parent_run_id, turn_id, task } = run;
  const facts = [run.role, getStatusLabel(run.status), `step ${run.iterations} of ${run.limit}`, formatMoney(run.cost_usd)];
  const stop = async () => {
    await post(parent_run_id ? `/v1/agents/${id}/cancel` : `/v1/turns/${turn_id}/cancel`);
    await load();
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
        <${GoalLink} id=${run.goal_id} />
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

function List({ list }) {
  const sorted = list.toSorted((a, b) => Number(isRunning(b)) - Number(isRunning(a)));
  if (!sorted.length) return html`<${Empty}>No agent has run yet.<//>`;
  return html`<ul class="rows" aria-label="Agents">
    ${sorted.map((run) => html`<${AgentRow} key=${run.id} run=${run} />`)}
  </ul>`;
}

const describeCount = (list) => {
  const count = list.filter(isRunning).length;
  return count ? `${count} running` : "none running";
};

export const Tab = () => html`<${Card} title="Agents" count=${agents.value ? describeCount(agents.value) : undefined}>
  <${Known} value=${agents.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;

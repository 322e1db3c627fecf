// One goal: the decision it waits for, its plan, its agents, its journal, its cost.
import { post } from "../core/api.js";
import { ask, attempt, createLazy } from "../core/dialogs.js";
import { html, preferences, useEffect, useRef, useState } from "../core/lib.js";
import { pageTitle } from "../core/title.js";
import {
  Ago,
  Card,
  Empty,
  formatDuration,
  formatMoney,
  Icon,
  loadStyles,
  Main,
  now,
  Pill,
  pluralize,
  RetryTime,
  StatusIcon,
  Until,
} from "../core/ui.js";
import { requests } from "../core/waiting.js";
import { useStream } from "../core/watch.js";
import { RequestItem, toItem } from "../people/request_item.js";
import { Changes } from "../work/changes.js";
import { Checks, ProofMark } from "../work/proof.js";
import { Receipts } from "../work/receipts.js";
import { Why } from "../work/why.js";
import { Decision } from "./decision.js";
import { createGoalState } from "./goal_state.js";
import { describeOrigin } from "./goals.js";
import { describeRecovery, Journal } from "./journal.js";
import { pick } from "./plan/address.js";
import { Plan } from "./plan/plan.js";
import { Stats } from "./stats.js";

await loadStyles("goal.css");

export const TITLE = "Goals";

// Loaded when they are needed, so that the plan is on screen sooner.
const Result = createLazy(async () => (await import("./result.js")).Result);
const EditGoal = createLazy(async () => (await import("./edit_dialog.js")).EditGoal);

const TITLE_LENGTH = 60; // of the window's title
const QUIET_S = 60; // an agent that has not checked in for longer is marked as late

const askToAbandon = (run) =>
  ask({
    title: "Abandon this goal?",
    text: "Running sub-agents are stopped. The journal is kept.",
    confirm: "Abandon the goal",
    run,
  });
/** The requests of the goal's agents to people. */
function Requests({ goal }) {
  const list = requests.value.filter(({ goal_id }) => goal_id === goal.id);
  if (!list.length) return null;
  const open = list.filter(({ isOpen }) => isOpen).length;
  return html`<${Card} title="Waits for you" count=${open}>
    <ul class="requests">${list.map((request) => html`<${RequestItem} key=${request.key} item=${toItem(request)} />`)}</ul>
  <//>`;
}

/** The last interruption, until the user dismisses it. */
function Recovery({ goal, state }) {
  const entries = state.entries.value;
  const preference = `recovery-${goal.id}`;
  const [dismissed, setDismissed] = useState(() => Number(preferences.get(preference) ?? 0));
  const last = entries.find(({ kind }) => kind === "recovered" || kind === "interrupted");
  if (!last || dismissed >= last.n) return null;
  const dismiss = () => {
    preferences.set(preference, String(last.n));
    setDismissed(last.n);
  };
  const hasRecovered = last.kind === "recovered";
  const agents = entries.find(({ kind }) => kind === "interrupted")?.data.agents?.length ?? 0;
  const text = hasRecovered
    ? `${pluralize(agents, "agent")} restarted${describeRecovery(last.data.sub_goals)}.`
    : "It resumes from the last checkpoint.";
  return html`<div class="note info" role="status">
    <${Icon} name="shield" />
    <div class="grow">
      <strong>${hasRecovered ? "Recovered after an interruption" : "Interrupted"}</strong> <span class="muted">
        <${Ago} at=${last.at} />: ${text}
      </span>
    </div>
    <button class="btn ghost small" onClick=${dismiss}>Dismiss</button>
  </div>`;
}

function AgentRow({ state, id }) {
  const run = state.runs.read(id);
  const subGoal = run.sub_goal_id && state.subGoals.read(run.sub_goal_id);
  const age = now.value - run.updated_at;
  const isLate = age > QUIET_S;
  const task = subGoal ? subGoal.title : `A ${run.role}`;
  const facts = [
    run.role,
    `step ${run.iterations} of ${run.limit}`,
    formatMoney(run.cost_usd),
    `running ${formatDuration(now.value - run.created_at)}`,
  ];
  const cancel = () =>
    ask({ title: "Stop this sub-agent?", text: task, confirm: "Stop it", run: () => post(`/v1/agents/${run.id}/cancel`) });
  return html`<li>
    <${StatusIcon} status=${run.status} />
    <div class="grow">
      <div class="truncate" dir="auto">${
        subGoal ? html`<button class="plain" onClick=${() => pick(subGoal.id)}>${task}</button>` : task
      }</div>
      <div class="sub num">
        ${facts.join(" · ")} · <span class=${isLate ? "status-late" : ""}>
          ${isLate ? `quiet for ${formatDuration(age)}` : `checked in ${formatDuration(age)} ago`}
        </span><${RetryTime} at=${run.retry_at} />
      </div>
    </div>
    <div class="actions"><button class="btn small" aria-label="Cancel ${task}" onClick=${cancel}>Cancel</button></div>
  </li>`;
}

function Agents({ state }) {
  const running = state.runs.list().filter((run) => !run.ended_at && run.parent_run_id);
  if (!running.length) return html`<${Card} title="Sub-agents"><${Empty}>No sub-agent is running.<//><//>`;
  return html`<${Card} title="Sub-agents" count="${running.length} running">
    <ul class="rows">${running.map(({ id }) => html`<${AgentRow} key=${id} state=${state} id=${id} />`)}</ul>
  <//>`;
}

const Separator = () => html`<span aria-hidden="true">·</span>`;

function Title({ goal, path }) {
  const abandon = () => askToAbandon(() => post(`${path}/abandon`));
  const pause = () => attempt(() => post(`${path}/pause`));
  return html`<div>
    <nav class="breadcrumb" aria-label="Breadcrumb">
      <a href="/goals">Goals</a><span aria-hidden="true">/</span><span aria-current="page">${goal.id}</span>
    </nav>
    <div class="title">
      <div class="grow">
        <h1 dir="auto">${goal.description}</h1>
        <div class="meta">
          <${Pill} status=${goal.status} /><${ProofMark} proof=${goal.proof} />
          <span>${describeOrigin(goal)}</span><${Separator} />
          <span>priority ${goal.priority}</span><${Separator} />
          <span>set <${Ago} at=${goal.created_at} /></span>
          ${
            goal.forked_from &&
            html`<${Separator} /><span>forked from <a class="link" href="/goals/${goal.forked_from.goal_id}">goal ${
              goal.forked_from.goal_id
            }</a></span>`
          }
          ${
            goal.repeat_of &&
            html`<${Separator} /><span>runs <a class="link" href="/goals/${goal.repeat_of}">goal ${goal.repeat_of}</a> again</span>`
          }
          ${goal.deadline > 0 && html`<${Separator} /><span>due <${Until} at=${goal.deadline} /></span>`}
        </div>
      </div>
      <div class="actions">
        ${!goal.ended_at && html`<${EditGoal} goal=${goal} path=${path} />`}
        ${
          goal.status === "active" &&
          html`<button class="btn" onClick=${pause}><${Icon} name="paused" />Pause</button>
            <button class="btn danger" onClick=${abandon}>Abandon</button>`
        }
      </div>
    </div>
  </div>`;
}

const About = ({ goal, why, receipts }) => html`<${Card} title="About">
  <dl class="about">
    <dt>Success criteria</dt><dd dir="auto">${goal.success_criteria || "Every sub-goal is done."}</dd>
    ${goal.checks.length > 0 && html`<dt>Checks</dt><dd><${Checks} checks=${goal.checks} /></dd>`}
    ${receipts.length > 0 && html`<dt>Receipts</dt><dd><${Receipts} receipts=${receipts} /></dd>`}
    ${goal.evidence && html`<dt>Evidence</dt><dd dir="auto">${goal.evidence}</dd>`}
    <dt>Current state</dt><dd dir="auto">${why}<${Why} kind="goal" id=${goal.id} of=${goal.description} /></dd>
    ${goal.repository && html`<dt>Repository</dt><dd dir="auto">${goal.repository}</dd>`}
  </dl>
  ${goal.changes && html`<div class="tool-line"><${Changes} changes=${goal.changes} /></div>`}
<//>`;

const Skeleton = () => html`<div class="loading-lines" role="status">
  <span class="sr-only">Loading the goal…</span><i></i><i></i><i></i>
</div>`;

const NotFound = () => html`<${Main}>
  <h1>Goal not found</h1>
  <p class="muted">It may belong to another tenant. <a class="link" href="/goals">See all goals</a>.</p>
<//>`;

const LiveAbout = ({ state }) =>
  html`<${About} goal=${state.goal.value} why=${state.why.value} receipts=${state.receipts.value.filter((one) => one.goal_id)} />`;

const LiveJournal = ({ state }) => html`<${Journal}
  entries=${state.entries.value}
  hasMore=${state.hasOlderEntries.value}
  onMore=${() => attempt(state.loadOlderEntries)}
/>`;

const Top = ({ state }) => {
  const goal = state.goal.value;
  return html`<${Title} goal=${goal} path=${state.path} />
    ${goal.ended_at > 0 && html`<${Result} state=${state} />`}
    <${Decision} goal=${goal} path=${state.path} />
    <${Requests} goal=${goal} />
    <${Recovery} goal=${goal} state=${state} />`;
};

/** The beginning of a text, cut between two words. */
function shorten(text) {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= TITLE_LENGTH) return line;
  const cut = line.slice(0, TITLE_LENGTH);
  const end = cut.lastIndexOf(" ");
  return `${end > TITLE_LENGTH / 2 ? cut.slice(0, end) : cut}…`;
}

/** Each part follows what it shows. The page itself renders again only when the goal is found or missing. */
export function Page({ id }) {
  const ref = useRef(null);
  ref.current ??= createGoalState(id);
  const state = ref.current;
  useStream("/v1/events", () => ({ exists: state.exists, load: state.load, on: state.on }));
  const description = state.title.value;
  useEffect(() => {
    if (description) pageTitle.value = shorten(description);
  }, [description]);
  if (state.isMissing.value) return html`<${NotFound} />`;
  if (!description) return html`<${Main}><${Skeleton} /><//>`;
  return html`<${Main}>
    <${Top} state=${state} />
    <${Stats} state=${state} />
    <${Plan} state=${state} />
    <div class="columns">
      <div class="stack">
        <${Agents} state=${state} />
        <${LiveAbout} state=${state} />
      </div>
      <${LiveJournal} state=${state} />
    </div>
  <//>`;
}

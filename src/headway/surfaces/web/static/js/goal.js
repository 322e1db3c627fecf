// One goal: what it waits for, its plan, its agents, its journal, its money.
import { get, post } from "./api.js";
import { ask, attempt } from "./dialogs.js";
import { origin, planned } from "./goals.js";
import { Plan } from "./graph.js";
import { Journal, recovery } from "./journal.js";
import { html, remembered, signal, useEffect, useRef, useState } from "./lib.js";
import { soon } from "./looks.js";
import { Ago, Card, Delay, Empty, Icon, money, now, Pill, plural, Status, span, Until } from "./ui.js";
import { useStream } from "./watch.js";

export const TITLE = "Goals";

const JOURNAL = 100;
const QUIET_S = 60; // after that, the age of a check-in is worth a colour

function newGoal(id) {
  const goal = signal(null);
  const graph = signal(null);
  const entries = signal([]); // the newest first
  const more = signal(false);
  const agents = signal([]);
  const costs = signal(null);
  const why = signal("");
  const missing = signal(false);
  const path = `/v1/goals/${id}`;

  const loadGraph = async () => (graph.value = (await get(`${path}/graph`)).graph);
  const loadAgents = async () => (agents.value = (await get("/v1/agents", { goal_id: id, limit: 100 })).agents);
  const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
  const loadWhy = async () => (why.value = (await get(`${path}/why`)).why);
  const loadGoal = async () => (goal.value = (await get(path)).goal);

  async function loadJournal(before) {
    const found = (await get(`${path}/journal`, before ? { limit: JOURNAL, before } : { limit: JOURNAL })).entries;
    const fresh = found.toSorted((a, b) => b.n - a.n);
    entries.value = before ? [...entries.value, ...fresh] : fresh;
    more.value = found.length === JOURNAL;
  }

  async function exists() {
    try {
      await loadGoal();
      return true;
    } catch (refusal) {
      if (refusal.status !== 404) throw refusal;
      missing.value = true;
      return false;
    }
  }

  async function load() {
    await Promise.all([loadGoal(), loadGraph(), loadJournal(), loadAgents(), loadCosts(), loadWhy()]);
  }

  const graphSoon = soon(loadGraph);
  const whySoon = soon(loadWhy);
  const agentsSoon = soon(loadAgents);
  const ours = (handle) => (data) => (data.goal_id ?? data.goal?.id) === id && goal.value && handle(data);
  const on = {
    goal_changed: ours(({ goal: changed }) => {
      goal.value = { ...goal.value, ...changed, sub_goals: changed.sub_goals ?? goal.value.sub_goals };
      whySoon();
    }),
    sub_goal_changed: ours(({ sub_goal: changed }) => {
      const list = goal.value.sub_goals;
      const at = list.findIndex((one) => one.id === changed.id);
      const before = list[at];
      goal.value = { ...goal.value, sub_goals: at < 0 ? [...list, changed] : list.with(at, changed) };
      if (!before || String(before.depends_on) !== String(changed.depends_on)) graphSoon(); // only another shape is drawn anew
      whySoon();
    }),
    journal_appended: ours(({ entry }) => {
      if (!entries.value.some((one) => one.n === entry.n)) entries.value = [entry, ...entries.value];
    }),
    agent_changed: agentsSoon,
    cost_changed: () => {
      costsSoon();
      agentsSoon();
    },
  };
  const costsSoon = soon(loadCosts);
  return {
    path,
    goal,
    graph,
    entries,
    more,
    agents,
    costs,
    why,
    missing,
    exists,
    load,
    loadOlder: () => loadJournal(entries.value.at(-1).n),
    on,
  };
}

const Stat = ({ name, children }) => html`<div><dt>${name}</dt>${children}</div>`;

function Stats({ goal, costs }) {
  const { progress } = goal;
  const of = goal.budget_usd || costs?.limit_usd || 0;
  const spent = goal.budget_usd ? goal.cost_usd : (costs?.spent_usd ?? 0);
  return html`<dl class="stats">
    <${Stat} name="Progress"><dd>${progress.completed} <small>of ${plural(planned(goal), "sub-goal")}</small></dd><dd><progress class="ok" value=${progress.completed} max=${planned(goal) || 1} aria-label="Sub-goals completed"></progress></dd><//>
    <${Stat} name="Running"><dd>${progress.in_progress}</dd><//>
    <${Stat} name="Failed"><dd>${progress.failed}</dd><//>
    <${Stat} name="Replans"><dd>${goal.replan_count} <small>of ${goal.replan_limit}</small></dd><//>
    <${Stat} name=${goal.budget_usd ? "Cost, own budget" : "Cost, shared pool"}><dd>${money(goal.cost_usd)} <small>${goal.budget_usd ? `of ${money(of)}` : `· pool ${money(spent)} of ${money(of)}`}</small></dd><dd><progress class=${of && spent / of > 0.8 ? "warn" : ""} value=${spent} max=${of || 1} aria-label=${goal.budget_usd ? "Cost of the budget" : "Spent of the shared pool"}></progress></dd><//>
  </dl>`;
}

// What can be decided depends on why it stands still.
const DECISIONS = {
  replans: [
    ["continue", "Allow more replans"],
    ["replan", "Plan anew"],
  ],
  proposal: [["continue", "Start it"]],
  escalation: [
    ["continue", "Continue the plan"],
    ["replan", "Plan anew"],
  ],
};
const STANDING = { operator: "Paused by the operator.", budget: "Paused: no money left.", fault: "Paused after a fault." };

function Decision({ goal, path }) {
  const note = useRef();
  if (goal.status !== "paused") return null;
  const choices = DECISIONS[goal.pause_kind] ?? [
    ["continue", "Resume"],
    ["replan", "Plan anew"],
  ];
  const decide = (action) => post(`${path}/decision`, { action, note: note.current?.value.trim() ?? "" });
  const abandon = () =>
    ask({
      title: goal.pause_kind === "proposal" ? "Decline this proposal?" : "Abandon this goal?",
      text: "Running sub-agents are stopped. The journal is kept.",
      yes: goal.pause_kind === "proposal" ? "Decline" : "Abandon the goal",
      run: () => decide("abandon"),
    });
  return html`<div class="note stop" role="region" aria-label="Decision"><${Icon} n="paused" />
    <div class="grow"><strong>${STANDING[goal.pause_kind] ?? "Waiting for your decision."}</strong> <span class="muted" dir="auto">${goal.pause_reason}</span></div>
    <input ref=${note} class="decision-note" aria-label="A note for the agent" placeholder="A note for the agent (optional)" maxlength="1000" dir="auto" />
    ${choices.map(([action, text], n) => html`<button key=${action} class="btn ${n ? "" : "primary"}" onClick=${() => attempt(() => decide(action))}>${text}</button>`)}
    <button class="btn danger" onClick=${abandon}>${goal.pause_kind === "proposal" ? "Decline" : "Abandon"}</button></div>`;
}

/** The last interruption, until somebody has taken note of it. */
function Recovery({ goal, entries }) {
  const [seen, setSeen] = useState(() => Number(remembered.get(`recovery-${goal.id}`) ?? 0));
  const last = entries.find((one) => one.kind === "recovered" || one.kind === "interrupted");
  if (!last || seen >= last.n) return null;
  const dismiss = () => {
    remembered.set(`recovery-${goal.id}`, String(last.n));
    setSeen(last.n);
  };
  const stop = entries.find((one) => one.kind === "interrupted");
  const text =
    last.kind === "recovered"
      ? `${plural(stop?.data.agents?.length ?? 0, "agent")} restarted${recovery(last.data.sub_goals)}.`
      : "It goes on from the last checkpoint.";
  return html`<div class="note info" role="status"><${Icon} n="shield" /><div class="grow"><strong>${last.kind === "recovered" ? "Recovered after an interruption" : "Interrupted"}</strong> <span class="muted"><${Ago} t=${last.at} />: ${text}</span></div><button class="btn ghost small" onClick=${dismiss}>Dismiss</button></div>`;
}

const alive = (run) => !run.ended_at;

function AgentRow({ run, subGoal }) {
  const age = now.value - run.updated_at;
  const what = subGoal?.description ?? run.task;
  return html`<li><${Status} s=${run.status} /><div class="grow"><div class="cut" dir="auto">${what}</div>
      <div class="sub num">${run.role} · step ${run.iterations} of ${run.limit} · ${money(run.cost_usd)} · running ${span(now.value - run.created_at)} · <span class=${age > QUIET_S ? "st-late" : ""}>${age > QUIET_S ? `quiet for ${span(age)}` : `checked in ${span(age)} ago`}</span><${Delay} t=${run.retry_at} /></div></div>
    <div class="acts"><button class="btn small" aria-label="Cancel ${what}" onClick=${() => ask({ title: "Stop this sub-agent?", text: what, yes: "Stop it", run: () => post(`/v1/agents/${run.id}/cancel`) })}>Cancel</button></div></li>`;
}

function Agents({ agents, goal }) {
  const working = agents.filter((run) => alive(run) && run.parent_run_id);
  return html`<${Card} title="Sub-agents" count=${working.length ? `${working.length} at work` : undefined}>
    ${working.length ? html`<ul class="rows">${working.map((run) => html`<${AgentRow} key=${run.id} run=${run} subGoal=${goal.sub_goals.find((one) => one.run_id === run.id)} />`)}</ul>` : html`<${Empty}>No sub-agent is at work.<//>`}
  <//>`;
}

function Title({ goal, path }) {
  const abandon = () =>
    ask({
      title: "Abandon this goal?",
      text: "Running sub-agents are stopped. The journal is kept.",
      yes: "Abandon the goal",
      run: () => post(`${path}/abandon`),
    });
  return html`<div>
    <nav class="crumb" aria-label="Breadcrumb"><a href="/goals">Goals</a><span aria-hidden="true">/</span><span aria-current="page">${goal.id}</span></nav>
    <div class="title"><div class="grow"><h1 dir="auto">${goal.description}</h1>
        <div class="meta"><${Pill} s=${goal.status} /><span>${origin(goal)}</span><span aria-hidden="true">·</span><span>priority ${goal.priority}</span><span aria-hidden="true">·</span><span>set <${Ago} t=${goal.created_at} /></span>${goal.deadline > 0 && html`<span aria-hidden="true">·</span><span>due <${Until} t=${goal.deadline} /></span>`}</div></div>
      <div class="acts">${goal.status === "active" && html`<button class="btn" onClick=${() => attempt(() => post(`${path}/pause`))}><${Icon} n="paused" />Pause</button><button class="btn danger" onClick=${abandon}>Abandon</button>`}</div></div>
  </div>`;
}

const About = ({ goal, why }) => html`<${Card} title="About">
  <dl class="about"><dt>Success means</dt><dd dir="auto">${goal.success_criteria || "Every sub-goal is done."}</dd>
    ${goal.evidence && html`<dt>Evidence</dt><dd dir="auto">${goal.evidence}</dd>`}
    <dt>Where it stands</dt><dd dir="auto">${why}</dd></dl>
<//>`;

export function Page({ id }) {
  const state = useRef(null);
  state.current ??= newGoal(id);
  const { path, goal, graph, entries, more, agents, costs, why, missing, exists, load, loadOlder, on } = state.current;
  const picked = useRef(signal(null)).current;
  useStream("/v1/events", () => ({ exists, load, on }));
  useEffect(() => {
    if (goal.value) document.title = `${goal.value.description.slice(0, 60)} · Headway`;
  }, [goal.value?.description]);
  if (missing.value)
    return html`<main class="main" id="main" tabindex="-1"><div class="page"><h1>There is no such goal</h1><p class="muted">It may belong to another tenant. <a class="link" href="/goals">See all goals</a>.</p></div></main>`;
  const found = goal.value;
  if (!found) return html`<main class="main" id="main" tabindex="-1"></main>`;
  return html`<main class="main" id="main" tabindex="-1"><div class="page">
    <${Title} goal=${found} path=${path} />
    <${Decision} goal=${found} path=${path} /><${Recovery} goal=${found} entries=${entries.value} />
    <${Stats} goal=${found} costs=${costs.value} />
    <${Plan} subGoals=${found.sub_goals} graph=${graph.value} picked=${picked.value} onPick=${(one) => (picked.value = one)} />
    <div class="cols"><div class="stack"><${Agents} agents=${agents.value} goal=${found} /><${About} goal=${found} why=${why.value} /></div><${Journal} entries=${entries.value} more=${more.value} onMore=${() => attempt(loadOlder)} /></div>
  </div></main>`;
}

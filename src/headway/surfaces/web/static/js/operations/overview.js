// The overview: what needs attention, each fact with a link to the tab that has the details.
import { get } from "../core/api.js";
import { html, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { session } from "../core/session.js";
import { Card, formatDuration, formatMoney, Icon, pluralize } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { deadLetterCount, halt } from "../core/watch.js";
import { KillSwitch } from "./halt.js";
import { usePolling } from "./parts.js";

const costs = signal(null);
const NEARLY_SPENT = 0.8; // the share of the pool from which on it needs attention

const queue = signal(null);
const workers = signal(null);
const LONG_WAIT_S = 60; // how long a due job may wait for a worker before it needs attention

const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
const loadQueue = async () => (queue.value = (await get("/v1/queue")).queue);
async function loadWorkers() {
  if (session.value?.operator) workers.value = (await get("/v1/workers")).workers;
}
const poll = () => Promise.all([loadQueue(), loadWorkers()]);
export const load = () => Promise.all([loadCosts(), poll()]);

const reloadCosts = coalesce(loadCosts);
export const on = { cost_changed: reloadCosts, cost_limit_changed: reloadCosts };

function describePool({ spent_usd, limit_usd }) {
  const isLow = spent_usd >= NEARLY_SPENT * limit_usd;
  return { value: formatMoney(spent_usd), note: `of ${formatMoney(limit_usd)} in 24 hours`, isBad: isLow };
}

function describeQueue({ due, oldest_due_s, counts }) {
  const running = counts.filter(({ state }) => state === "running").reduce((total, { count }) => total + count, 0);
  const note = due ? `the oldest has waited for ${formatDuration(oldest_due_s)}` : `${running} running`;
  return { value: due ? `${pluralize(due, "job")} due` : "Nothing waits", note, isBad: oldest_due_s > LONG_WAIT_S };
}

function describeWorkers(list) {
  const alive = list.filter((worker) => worker.is_alive && worker.takes_all_jobs);
  const lost = list.filter((worker) => !worker.is_alive && worker.takes_all_jobs).length;
  const used = alive.reduce((total, { running }) => total + running, 0);
  const slots = alive.reduce((total, { slots: own }) => total + own, 0);
  const note = lost ? `${lost} stopped answering within a day` : `${used} of ${slots} slots in use`;
  return { value: pluralize(alive.length, "worker"), note, isBad: !alive.length || lost > 0 };
}

const describeCount = (count, one, note, many) => ({ value: pluralize(count, one, many), note, isBad: count > 0 });

// Each fact: its name, where the details are, and what is known: null, or {value, note, isBad}.
const listFacts = () => [
  [
    "Dead letters",
    "/operations/dead-letters",
    deadLetterCount.value === null ? null : describeCount(deadLetterCount.value, "dead letter", "failed at every attempt"),
  ],
  [
    "Waiting for people",
    "/inbox",
    halt.value.isKnown ? describeCount(openRequests.value.length, "request", "approvals and questions") : null,
  ],
  ["Queue", "/operations/queue", queue.value && describeQueue(queue.value)],
  ...(session.value?.operator ? [["Workers", "/operations/workers", workers.value && describeWorkers(workers.value)]] : []),
  ["Pool", "/operations/spending", costs.value && describePool(costs.value)],
];

const Fact = ({ name, to, known }) => html`<li>
  <a class="fact" href=${to}>
    <span class="fact-name">${name}</span>
    ${
      known
        ? html`<strong class="num">
              <${Icon} name=${known.isBad ? "warn" : "done"} class=${known.isBad ? "status-late" : "status-done"} />${known.value}
              ${known.isBad && html`<span class="sr-only"> needs attention</span>`}
            </strong>
            <small>${known.note}</small>`
        : html`<span class="skeleton" role="status" aria-label="Loading"></span>`
    }
  </a>
</li>`;

function describeAttention(facts) {
  if (!halt.value.isKnown || facts.some(([, , known]) => !known)) return undefined;
  const count = facts.filter(([, , { isBad }]) => isBad).length + Number(halt.value.halted);
  return count ? `${pluralize(count, "thing")} to look at` : "nothing";
}

export function Tab() {
  usePolling(poll);
  const facts = listFacts();
  return html`<${KillSwitch} />
    <${Card} title="Needs attention" count=${describeAttention(facts)}>
      <ul class="facts">
        ${facts.map(([name, to, known]) => html`<${Fact} key=${name} name=${name} to=${to} known=${known} />`)}
      </ul>
    <//>`;
}

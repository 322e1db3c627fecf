// The overview: what needs attention, each fact with a link to the tab that has the details.
import { get } from "../core/api.js";
import { html, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { Card, formatMoney, Icon, pluralize } from "../core/ui.js";
import { openRequests } from "../core/waiting.js";
import { deadLetterCount, halt } from "../core/watch.js";
import { KillSwitch } from "./halt.js";

const costs = signal(null);
const NEARLY_SPENT = 0.8; // the share of the pool from which on it needs attention

const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);
export const load = loadCosts;

const reloadCosts = coalesce(loadCosts);
export const on = { cost_changed: reloadCosts, cost_limit_changed: reloadCosts };

function describePool({ spent_usd, limit_usd }) {
  const isLow = spent_usd >= NEARLY_SPENT * limit_usd;
  return { value: formatMoney(spent_usd), note: `of ${formatMoney(limit_usd)} in 24 hours`, isBad: isLow };
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
    "/approvals",
    halt.value.isKnown ? describeCount(openRequests.value.length, "request", "approvals and questions") : null,
  ],
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
  const facts = listFacts();
  return html`<${KillSwitch} />
    <${Card} title="Needs attention" count=${describeAttention(facts)}>
      <ul class="facts">
        ${facts.map(([name, to, known]) => html`<${Fact} key=${name} name=${name} to=${to} known=${known} />`)}
      </ul>
    <//>`;
}

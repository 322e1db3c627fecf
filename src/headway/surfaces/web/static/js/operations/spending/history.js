// The spending of agents per day, by model, role or goal: a chart, its legend with the totals, and the same as a table.
import { get } from "../../core/api.js";
import { html, signal, useEffect } from "../../core/lib.js";
import { Card, Choice, Empty, formatMoney, pluralize } from "../../core/ui.js";
import { getFilters, Known, setFilters, usePolling } from "../parts.js";
import { StackedBars } from "./chart.js";
import { describeCached } from "./pool.js";

const history = signal(null); // {history, of: the filters}
const RANGES = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
];
const GROUPS = [
  ["model", "Model"],
  ["role", "Role"],
  ["goal", "Goal"],
];
const MEASURES = [
  ["cost", "Cost"],
  ["tokens", "Tokens"],
];
const DAY_MS = 86_400_000;

const readFilters = () => {
  const { days = "30", by = "model" } = getFilters("days", "by");
  return { days: RANGES.some(([name]) => name === days) ? days : "30", by: GROUPS.some(([name]) => name === by) ? by : "model" };
};

export async function loadHistory() {
  const filters = readFilters();
  const loaded = await get("/v1/costs/history", filters);
  const of = JSON.stringify(filters);
  if (of === JSON.stringify(readFilters())) history.value = { ...loaded.history, of };
}

const formatCount = (number) => Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(number);
const measureOf = {
  cost: { read: (row) => row.cost_usd, format: formatMoney },
  tokens: { read: (row) => row.input_tokens + row.output_tokens, format: formatCount },
};

/** Every day from the first to the last, as YYYY-MM-DD. */
function listDays({ first_day, last_day }) {
  const first = Date.parse(first_day);
  const count = Math.round((Date.parse(last_day) - first) / DAY_MS) + 1;
  return Array.from({ length: count }, (_, n) => new Date(first + n * DAY_MS).toISOString().slice(0, 10));
}

/** For each day, the value of each group, in the order of the groups. */
function buildSeries(known, read) {
  const values = new Map(known.rows.map((row) => [`${row.day} ${row.name}`, read(row)]));
  return listDays(known).map((day) => ({ day, values: known.groups.map(({ name }) => values.get(`${day} ${name}`) ?? 0) }));
}

const GroupName = ({ by, group }) =>
  by === "goal" && group.name > 0
    ? html`<a class="link" href="/goals/${group.name}" dir="auto">${group.label}</a>`
    : html`<span dir="auto">${group.label}</span>`;

const describeTokens = (row) =>
  `${formatCount(row.input_tokens)} tokens in${describeCached(row)} · ${formatCount(row.output_tokens)} out`;

const Legend = ({ by, groups }) => html`<ul class="chart-legend" aria-label="Totals">
  ${groups.map(
    (group, at) => html`<li key=${group.name}>
      <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true"><rect class="series-${at}" width="10" height="10" rx="2" /></svg>
      <span class="truncate"><${GroupName} by=${by} group=${group} /></span>
      <strong class="num">${formatMoney(group.cost_usd)}</strong>
      <small class="num">${pluralize(group.calls, "call")} · ${describeTokens(group)}</small>
    </li>`,
  )}
</ul>`;

const DayTable = ({ groups, series, format }) => html`<details class="chart-table">
  <summary>Show as a table</summary>
  <div class="scroll-x" tabindex="0" role="region" aria-label="Values per day">
    <table>
      <thead>
        <tr>
          <th scope="col">Day</th>
          ${groups.map(({ name, label }) => html`<th key=${name} scope="col" dir="auto">${label}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${series.toReversed().map(
          ({ day, values }) => html`<tr key=${day}>
            <th scope="row" class="num">${day}</th>
            ${values.map((value, at) => html`<td key=${at} class="num">${format(value)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>
</details>`;

function Charts({ known, measure }) {
  if (!known.rows.length) return html`<${Empty}>No model was called in these days.<//>`;
  const { read, format } = measureOf[measure];
  const series = buildSeries(known, read);
  const { total } = known;
  const title = `${measure === "cost" ? "Cost" : "Tokens"} per day by ${known.by}, ${known.first_day} to ${known.last_day}`;
  return html`<p class="chart-total">
      <strong class="num">${formatMoney(total.cost_usd)}</strong>${" "}
      <span class="muted num">${pluralize(total.calls, "call")} · ${describeTokens(total)}</span>
    </p>
    <${StackedBars} title=${title} labels=${known.groups.map(({ label }) => label)} series=${series} format=${format} />
    <${Legend} by=${known.by} groups=${known.groups} />
    <${DayTable} groups=${known.groups} series=${series} format=${format} />`;
}

const Controls = ({ days, by, measure }) => html`<div class="chart-controls">
  <${Choice} label="Range" value=${days} options=${RANGES} onChoose=${(name) => setFilters({ days: name })} />
  <${Choice} label="By" value=${by} options=${GROUPS} onChoose=${(name) => setFilters({ by: name })} />
  <${Choice} label="Measure" value=${measure} options=${MEASURES} onChoose=${(name) => setFilters({ measure: name })} />
</div>`;

export function History() {
  const filters = readFilters();
  const of = JSON.stringify(filters);
  usePolling(loadHistory);
  useEffect(() => {
    if (history.value && history.value.of !== of) loadHistory().catch(() => {});
  }, [of]);
  const known = history.value?.of === of ? history.value : null;
  const isFree = known?.total.cost_usd === 0; // models without a price: tokens say more
  const { measure = isFree ? "tokens" : "cost" } = getFilters("measure");
  return html`<${Card} title="Spending per day">
    <${Controls} ...${filters} measure=${measure in measureOf ? measure : "cost"} />
    <${Known} value=${known} count=${6}>
      ${(value) => html`<${Charts} known=${value} measure=${measure in measureOf ? measure : "cost"} />`}
    <//>
    <p class="hint card-note">Days are in UTC. The sums stay when old calls are deleted.</p>
  <//>`;
}

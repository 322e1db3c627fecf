// The limits of the tenant, and its present usage.
import { get } from "../../core/api.js";
import { html, signal } from "../../core/lib.js";
import { Card, formatMoney } from "../../core/ui.js";
import { Known } from "../parts.js";
import { formatBytes } from "./parts.js";

const NEARLY_USED = 0.8; // the share from which on a bar warns
const NAMES = {
  turns: "Turns that have not ended",
  jobs: "Jobs that run, per process",
  storage: "Stored text and files",
  webhooks: "Webhooks",
};

const limits = signal(null); // {usage, quotas, costs}; null: not known yet

export async function loadLimits() {
  const [{ usage, quotas }, { costs }] = await Promise.all([get("/v1/quotas"), get("/v1/costs")]);
  limits.value = { usage, quotas, costs };
}

const formatAmount = (name, amount) => (name === "storage" ? formatBytes(amount) : amount.toLocaleString());

function Limit({ label, used, limit, usedText, limitText }) {
  const isTight = limit !== null && used >= NEARLY_USED * limit;
  return html`<li>
    <span class="grow">${label}</span>
    <span class="num">${usedText} <span class="muted">of ${limitText}</span></span>
    <progress class=${isTight ? "warn" : ""} value=${limit === null ? 0 : used} max=${limit || 1} aria-label=${label}></progress>
  </li>`;
}

const Content = ({ known: { usage, quotas, costs } }) => html`<ul class="limits">
    <${Limit}
      label="Spent in 24 hours"
      used=${costs.spent_usd}
      limit=${costs.limit_usd}
      usedText=${formatMoney(costs.spent_usd)}
      limitText=${formatMoney(costs.limit_usd)}
    />
    ${Object.entries(NAMES).map(
      ([name, label]) => html`<${Limit}
        key=${name}
        label=${label}
        used=${usage[name]}
        limit=${quotas[name]}
        usedText=${formatAmount(name, usage[name])}
        limitText=${quotas[name] === null ? "no limit" : formatAmount(name, quotas[name])}
      />`,
    )}
  </ul>
  <p class="hint below">
    <code>HEADWAY_QUOTAS</code> sets the quotas of every tenant. <a class="link" href="/operations/spending">Spending</a> changes
    the cost limit.
  </p>`;

export const Limits = () => html`<${Card} title="Limits of this tenant">
  <${Known} value=${limits.value}>${(known) => html`<${Content} known=${known} />`}<//>
<//>`;

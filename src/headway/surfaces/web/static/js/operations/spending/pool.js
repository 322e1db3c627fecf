// The spending of the last 24 hours: the pool, the models and the limit.
import { get, put } from "../../core/api.js";
import { attempt, showToast } from "../../core/dialogs.js";
import { html, signal, useRef } from "../../core/lib.js";
import { session } from "../../core/session.js";
import { Card, Empty, formatDuration, formatMoney, pluralize } from "../../core/ui.js";
import { Skeletons } from "../parts.js";

const costs = signal(null);

export const loadCosts = async () => (costs.value = (await get("/v1/costs")).costs);

/** The share of the input that came from the provider's cache, in words. */
export const describeCached = ({ cached_tokens, input_tokens }) =>
  cached_tokens ? ` (${Math.round((100 * cached_tokens) / input_tokens)}% from the cache)` : "";

function ModelCost({ row, highest }) {
  const { model, cost_usd, calls, input_tokens, output_tokens } = row;
  const cached = describeCached(row);
  const width = highest ? Math.max(0.6, (100 * cost_usd) / highest) : 0;
  return html`<li>
    <span class="truncate" dir="auto">${model}</span><span>${formatMoney(cost_usd)}</span>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${width} height="8" /></svg>
    <small class="num">
      ${pluralize(calls, "call")} · ${input_tokens.toLocaleString()} tokens in${cached} · ${output_tokens.toLocaleString()} out
    </small>
  </li>`;
}

function ModelCosts({ rows }) {
  if (!rows.length) return html`<${Empty}>No model was called in the last 24 hours.<//>`;
  const highest = Math.max(...rows.map((row) => row.cost_usd), 0);
  return html`<ul class="bars" aria-label="By model">
    ${rows.map((row) => html`<${ModelCost} key=${row.model} row=${row} highest=${highest} />`)}
  </ul>`;
}

const Unpriced = ({ models }) => html`<p class="hint status-late" dir="auto">
  No known price: ${models.join(", ")}. Calls are counted as $0, so the limit cannot stop them. Add prices to prices.toml.
</p>`;

function LimitDialog({ dialog, spending }) {
  const save = (event) => {
    event.preventDefault();
    const limit = Number(event.currentTarget.limit.value);
    attempt(async () => {
      costs.value = (await put("/v1/costs", { limit_usd: limit })).costs;
      dialog.current.close();
      showToast(`The pool is now ${formatMoney(limit)} per ${formatDuration(spending.window_s)}.`);
    });
  };
  return html`<dialog ref=${dialog} aria-labelledby="limit-title">
    <h2 id="limit-title">How much may agents spend?</h2>
    <p>For all agents of this tenant together, in any 24 hours. Turns that wait for budget resume automatically.</p>
    <form class="fields" onSubmit=${save}>
      <label class="field">Dollars<input
        name="limit"
        type="number"
        min="0"
        max="1000000"
        step="0.01"
        required
        defaultValue=${spending.limit_usd}
      /></label>
      <div class="actions">
        <button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>
        <button class="btn primary">Save</button>
      </div>
    </form>
  </dialog>`;
}

function Costs({ spending }) {
  const dialog = useRef();
  const { spent_usd, limit_usd, by_model, unpriced } = spending;
  const limit = `of ${formatMoney(limit_usd)}`;
  const tone = !limit_usd || spent_usd / limit_usd > 0.8 ? "warn" : "";
  const openDialog = () => dialog.current.showModal();
  const change = session.value?.admin && html`<button class="btn small" onClick=${openDialog}>Change the limit</button>`;
  return html`<${Card} title="Costs, last 24 hours" actions=${change}>
    <div class="pool">
      <p><strong class="num">${formatMoney(spent_usd)}</strong> <span class="muted num">${limit} for all agents together</span></p>
      <progress class=${tone} value=${spent_usd} max=${limit_usd || 1} aria-label="Spent of the pool"></progress>
      ${unpriced.length > 0 && html`<${Unpriced} models=${unpriced} />`}
    </div>
    <${ModelCosts} rows=${by_model} />
    <${LimitDialog} dialog=${dialog} spending=${spending} />
  <//>`;
}

export const Pool = () =>
  costs.value ? html`<${Costs} spending=${costs.value} />` : html`<${Card} title="Costs, last 24 hours"><${Skeletons} /><//>`;

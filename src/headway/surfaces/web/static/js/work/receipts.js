// Receipts: what each run of the checks found, or who completed the work without them and why.
import { html } from "../core/lib.js";
import { Ago, Icon, pluralize, StatusIcon } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";
import { CheckWords } from "./proof.js";

const HASH_LENGTH = 12;

export const formatMilliseconds = (ms) => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`);

export const Output = ({ text, name }) =>
  text &&
  html`<pre class="output" tabindex="0" aria-label=${name} dir="auto"><code><${VisibleText} text=${text} isBlock /></code></pre>`;

function Result({ result }) {
  const { check, ok, detail, exit_code, duration_ms, files } = result;
  const facts = [ok ? "passed" : "failed", exit_code !== null && `exit code ${exit_code}`, formatMilliseconds(duration_ms)].filter(
    Boolean,
  );
  return html`<li>
    <${StatusIcon} status=${ok ? "done" : "failed"} decorative />
    <div class="grow">
      <p><${CheckWords} check=${check} /></p>
      <p class="faint small num">${facts.join(" · ")}</p>
      <${Output} text=${detail} name="Output" />
      ${Object.entries(files).map(
        ([path, hash]) => html`<p class="faint small" key=${path}>
          <bdi><${VisibleText} text=${path} /></bdi> <code title=${hash}>${hash.slice(0, HASH_LENGTH)}…</code>
        </p>`,
      )}
    </div>
  </li>`;
}

function summarize({ ok, override, checks }) {
  if (override) return "Completed without the checks";
  const failed = checks.filter((result) => !result.ok).length;
  const all = pluralize(checks.length, "check");
  if (ok) return `${all} passed`;
  return failed === checks.length ? `${all} failed` : `${failed} of ${all} failed`;
}

/** One receipt. The newest is open. */
function Receipt({ receipt, isNewest }) {
  const { id, ok, override, made_by, at, checks, versions, seq } = receipt;
  const shape = override ? "overridden" : ok ? "shield" : "broken";
  const tone = override ? "overridden" : ok ? "proven" : "broken";
  const facts = [...Object.entries(versions).map(([name, version]) => `${name} ${version}`), `after event ${seq}`];
  return html`<li>
    <details open=${isNewest}>
      <summary>
        <span class="proof proof-${tone}"><${Icon} name=${shape} /></span>
        <span class="grow">${summarize(receipt)} <span class="faint">by <bdi>${spellOut(made_by)}</bdi></span></span>
        <${Ago} at=${at} />
      </summary>
      <div class="receipt" role="group" aria-label="Receipt ${id}">
        ${override && html`<p dir="auto">Reason: <${VisibleText} text=${override} /></p>`}
        ${checks.length > 0 && html`<ul>${checks.map((result, n) => html`<${Result} key=${n} result=${result} />`)}</ul>`}
        <p class="faint small">${spellOut(facts.join(" · "))}</p>
      </div>
    </details>
  </li>`;
}

export const Receipts = ({ receipts }) => html`<ol class="receipts">
  ${receipts.map((receipt, n) => html`<${Receipt} key=${receipt.id} receipt=${receipt} isNewest=${n === 0} />`)}
</ol>`;

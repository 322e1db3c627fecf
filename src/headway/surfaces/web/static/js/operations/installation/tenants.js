// All tenants, for those who run the installation: what each uses and spends, and a new one.
import { get, post } from "../../core/api.js";
import { attempt } from "../../core/dialogs.js";
import { html, signal, useRef } from "../../core/lib.js";
import { Ago, Card, formatMoney, Icon } from "../../core/ui.js";
import { Known } from "../parts.js";
import { FormDialog, formatBytes, MoreButton, reveal } from "./parts.js";

const PAGE_SIZE = 50;
const tenants = signal(null); // {rows, quotas, cursor}; null: not known yet

export async function loadTenants(cursor = null) {
  const page = await get("/v1/tenants", { limit: PAGE_SIZE, ...(cursor ? { cursor } : {}) });
  const rows = cursor ? [...tenants.value.rows, ...page.tenants] : page.tenants;
  tenants.value = { rows, quotas: page.quotas, cursor: page.next_cursor };
}

const formatQuota = (name, value) =>
  value === null ? "no limit" : name === "storage" ? formatBytes(value) : value.toLocaleString();

function Use({ name, used, quota }) {
  const share = quota ? used / quota : 0;
  const text = name === "storage" ? formatBytes(used) : used.toLocaleString();
  const title = `of ${formatQuota(name, quota)}`;
  return html`<td class="num" title=${title}>
    ${share >= 0.8 && html`<${Icon} name="warn" class="status-late" />`}${text}<span class="sr-only"> ${title}</span>
  </td>`;
}

const Row = ({ row, quotas }) => html`<tr>
  <th scope="row">
    <span dir="auto">${row.name}</span><small class="num">tenant ${row.id} · created <${Ago} at=${row.created_at} /></small>
  </th>
  <td class="num">${row.tokens.toLocaleString()}</td>
  ${["turns", "jobs", "storage", "webhooks"].map(
    (name) => html`<${Use} key=${name} name=${name} used=${row.usage[name]} quota=${quotas[name]} />`,
  )}
  <td class="num">${formatMoney(row.spent_usd)} <span class="faint">of ${formatMoney(row.limit_usd)}</span></td>
</tr>`;

const List = ({ rows, quotas }) => html`<div class="scroll-x" tabindex="0" role="group" aria-label="Table of tenants">
    <table class="tenants">
      <thead>
        <tr><th>Name</th><th>Tokens</th><th>Turns</th><th>Jobs</th><th>Storage</th><th>Webhooks</th><th>Spent in 24 hours</th></tr>
      </thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.id} row=${row} quotas=${quotas} />`)}</tbody>
    </table>
  </div>
  <p class="hint below">
    Each may use: ${Object.entries(quotas)
      .map(([name, value]) => `${formatQuota(name, value)} ${name}`)
      .join(" · ")} (<code>HEADWAY_QUOTAS</code>). <code>headway admin tenant rm</code> deletes a tenant.
  </p>`;

function NewTenantDialog({ dialog }) {
  const send = async ({ name }) => {
    const created = await attempt(async () => {
      const answer = await post("/v1/tenants", { name });
      await loadTenants();
      return answer;
    });
    if (!created) return false;
    reveal({
      title: `${created.tenant.name} is created`,
      text: "This is its first token, with the admin scope: it can create the others.",
      secret: created.secret,
    });
  };
  return html`<${FormDialog}
    dialog=${dialog}
    title="New tenant"
    text="A tenant has its own conversations, goals, files, tokens and costs. No tenant sees another one."
    confirm="Create it"
    send=${send}
  >
    <label class="field">Name<input name="name" maxlength="200" required autocomplete="off" dir="auto" /></label>
  <//>`;
}

export function Tenants() {
  const dialog = useRef();
  const action = html`<button class="btn small" onClick=${() => dialog.current.showModal()}>
    <${Icon} name="plus" />New tenant
  </button>`;
  return html`<${Card} title="Tenants" actions=${action}>
    <${Known} value=${tenants.value}>${({ rows, quotas, cursor }) => html`<${List} rows=${rows} quotas=${quotas} />
      ${cursor && html`<${MoreButton} onClick=${() => attempt(() => loadTenants(cursor))} />`}`}<//>
    <${NewTenantDialog} dialog=${dialog} />
  <//>`;
}

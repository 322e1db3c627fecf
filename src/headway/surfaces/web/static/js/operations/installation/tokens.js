// The tokens of the tenant and its browser sessions: create, rotate, revoke.
import { get, post, remove } from "../../core/api.js";
import { ask, attempt, showToast } from "../../core/dialogs.js";
import { html, signal, useRef } from "../../core/lib.js";
import { session } from "../../core/session.js";
import { Ago, Card, Choice, Empty, Icon, now, StatusIcon, Until } from "../../core/ui.js";
import { Known } from "../parts.js";
import { FormDialog, formatDate, MoreButton, reveal } from "./parts.js";

const DAY_S = 86_400;
const PAGE_SIZE = 50;
const SCOPES = [
  ["write", "Read and write"],
  ["read", "Read only"],
  ["admin", "Administrator of this tenant"],
  ["operator", "Operator of the installation"],
];
const LIFETIMES = [
  [DAY_S, "1 day"],
  [7 * DAY_S, "7 days"],
  [30 * DAY_S, "30 days"],
  [90 * DAY_S, "90 days"],
  [365 * DAY_S, "1 year"],
];
const OVERLAPS = [
  [3600, "1 hour"],
  [600, "10 minutes"],
  [DAY_S, "1 day"],
  [7 * DAY_S, "7 days"],
  [0, "no time: revoke it at once"],
];

const tokens = signal(null); // {rows, cursor}; null: not known yet
const sessions = signal(null);
const state = signal("active");
const chosen = signal(null); // the token to rotate

const fetchPage = (kind, wanted, cursor) =>
  get("/v1/tokens", { kind, state: wanted, limit: PAGE_SIZE, ...(cursor ? { cursor } : {}) });

async function loadList(list, kind, wanted, cursor = null) {
  const page = await fetchPage(kind, wanted, cursor);
  list.value = { rows: cursor ? [...list.value.rows, ...page.tokens] : page.tokens, cursor: page.next_cursor };
}

export const loadTokens = () => Promise.all([loadList(tokens, "token", state.value), loadList(sessions, "session", "active")]);

const getName = ({ label, id }) => label || `token ${id}`;
const listScopes = () => SCOPES.filter(([name]) => name !== "operator" || session.value?.operator); // others cannot create one
const describeScope = ({ scopes }) => SCOPES.find(([name]) => name === scopes.at(-1))?.[1] ?? scopes.join(", ");
const isEnded = ({ revoked_at, expires_at }) => revoked_at > 0 || (expires_at > 0 && expires_at <= now.value);

const act = (request) =>
  attempt(async () => {
    const answer = await request();
    await loadTokens();
    return answer;
  });

const Expiry = ({ at }) => (at ? html`expires <${Until} at=${at} />` : "never expires");

function End({ token: { revoked_at, expires_at, replaced_by } }) {
  const successor = replaced_by && html` · replaced by token ${replaced_by}`;
  if (revoked_at > 0) return html`revoked <${Ago} at=${revoked_at} />${successor}`;
  if (expires_at > 0 && expires_at <= now.value) return html`expired <${Ago} at=${expires_at} />${successor}`;
  return html`<${Expiry} at=${expires_at} />${successor}`;
}

const Use = ({ at }) => (at ? html`last used <${Ago} at=${at} />` : "never used");

function askToRevoke(token) {
  const warning = token.current
    ? "You are signed in with this token: you will be signed out at once. Make sure that you have another way in."
    : "Programs that use it are refused from now on, and the sessions that it opened end.";
  ask({
    title: `Revoke ${getName(token)}?`,
    text: warning,
    confirm: token.current ? "Revoke it and sign out" : "Revoke it",
    run: () => act(() => remove(`/v1/tokens/${token.id}`)),
  });
}

function Token({ token, onRotate }) {
  const ended = isEnded(token);
  const name = getName(token);
  const canRotate = !ended && !token.replaced_by;
  return html`<li>
    <${StatusIcon} status=${ended ? "skipped" : "done"} decorative />
    <div class="grow">
      <div class="name-line">
        <span class="truncate" dir="auto">${name}</span>
        ${token.current && html`<span class="pill status-current">you are signed in with it</span>`}
      </div>
      <div class="sub num">${describeScope(token)} · <${Use} at=${token.last_used_at} /> · <${End} token=${token} /></div>
      <div class="sub num">
        token ${token.id} · created <${Ago} at=${token.created_at} /> ·${" "}
        <a class="link" href="/operations/audit?target=token:${token.id}">history</a>
      </div>
    </div>
    ${
      !ended &&
      html`<div class="actions">
        ${
          canRotate &&
          html`<button class="btn small" aria-label="Rotate ${name}" onClick=${() => onRotate(token)}>
            <${Icon} name="replan" />Rotate
          </button>`
        }
        <button class="btn small danger" aria-label="Revoke ${name}" onClick=${() => askToRevoke(token)}>Revoke</button>
      </div>`
    }
  </li>`;
}

/** The lifetimes that a new token can have: it cannot outlive the session that creates it. */
function listLifetimes() {
  const end = session.value?.expires_at ?? 0;
  const left = end ? end - now.value : Number.POSITIVE_INFINITY;
  const offered = LIFETIMES.filter(([seconds]) => seconds < left);
  return [["", end ? `when this session ends, on ${formatDate(end)}` : "never"], ...offered];
}

const Options = ({ list }) => list.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`);

const Lifetime = () =>
  session.value?.expires_at > 0 &&
  html`<p class="hint">
    What a session creates cannot outlive it. For a token that lives longer, run <code>headway token add</code> where Headway runs.
  </p>`;

function NewTokenDialog({ dialog }) {
  const send = async ({ label, scope, expires }) => {
    const body = { label, scopes: [scope], ...(expires ? { expires_s: Number(expires) } : {}) };
    const created = await act(() => post("/v1/tokens", body));
    if (!created) return false;
    reveal({
      title: `${getName(created.token)} is created`,
      text: "Give this token to the program that needs it.",
      secret: created.secret,
    });
  };
  return html`<${FormDialog} dialog=${dialog} title="New token" confirm="Create it" send=${send}>
    <label class="field">Name
      <input name="label" maxlength="200" required autocomplete="off" placeholder="What it is for" dir="auto" />
    </label>
    <label class="field">Scope<select name="scope"><${Options} list=${listScopes()} /></select></label>
    <label class="field">Expires<select name="expires"><${Options} list=${listLifetimes()} /></select></label>
    <${Lifetime} />
  <//>`;
}

const describeSuccessor = ({ expires_at }) => {
  const end = session.value?.expires_at ?? 0;
  const limited = end && (!expires_at || expires_at > end);
  return limited ? ` It expires on ${formatDate(end)} at the latest, when this session ends.` : "";
};

function RotateDialog({ dialog }) {
  const token = chosen.value;
  const send = async ({ overlap }) => {
    const answer = await act(() => post(`/v1/tokens/${token.id}/rotate`, { overlap_s: Number(overlap) }));
    if (!answer) return false;
    const { replaced } = answer;
    const rest = replaced.revoked_at
      ? "The old one is revoked."
      : `The old one works until ${new Date(replaced.expires_at * 1000).toLocaleString()}.`;
    reveal({ title: `${getName(token)} is rotated`, text: `Use this token from now on. ${rest}`, secret: answer.secret });
  };
  return html`<${FormDialog}
    dialog=${dialog}
    title="Rotate ${token ? getName(token) : "the token"}"
    text="A new token with the same name and scope replaces it.${token ? describeSuccessor(token) : ""}"
    confirm="Rotate it"
    send=${send}
  >
    <label class="field">The old one keeps working for<select name="overlap"><${Options} list=${OVERLAPS} /></select></label>
  <//>`;
}

export function Tokens() {
  const newDialog = useRef();
  const rotateDialog = useRef();
  const choose = (value) => {
    state.value = value;
    attempt(loadTokens);
  };
  const rotate = (token) => {
    chosen.value = token;
    rotateDialog.current.showModal();
  };
  const actions = html`<${Choice}
      label="Which tokens"
      value=${state.value}
      options=${[["active", "Active"], ["all", "All"]]}
      onChoose=${choose}
    />
    <button class="btn small primary" onClick=${() => newDialog.current.showModal()}><${Icon} name="plus" />New token</button>`;
  return html`<${Card} title="Tokens" actions=${actions}>
    <${Known} value=${tokens.value}>${({ rows, cursor }) =>
      rows.length
        ? html`<ul class="rows">${rows.map((token) => html`<${Token} key=${token.id} token=${token} onRotate=${rotate} />`)}</ul>
            ${cursor && html`<${MoreButton} onClick=${() => attempt(() => loadList(tokens, "token", state.value, cursor))} />`}`
        : html`<${Empty}>No tokens. Programs need one to use the API.<//>`}<//>
    <${NewTokenDialog} dialog=${newDialog} />
    <${RotateDialog} dialog=${rotateDialog} />
  <//>`;
}

function Session({ row }) {
  const { id, current, session_of, created_at, last_used_at, expires_at } = row;
  const origin = session_of ? `opened with token ${session_of}` : "opened with a login link";
  const askToEnd = () =>
    ask({
      title: current ? "End this session?" : `End session ${id}?`,
      text: current ? "You will be signed out here." : "Its user must sign in again.",
      confirm: "End it",
      run: async () => {
        await act(() => remove(`/v1/tokens/${id}`));
        if (!current) showToast(`Session ${id} has ended.`);
      },
    });
  return html`<li>
    <${StatusIcon} status="done" decorative />
    <div class="grow">
      <div class="name-line">
        <span>Session ${id}</span>${current && html`<span class="pill status-current">this one</span>`}
      </div>
      <div class="sub num">
        ${describeScope(row)} · ${origin} <${Ago} at=${created_at} /> · <${Use} at=${last_used_at} /> ·${" "}
        <${Expiry} at=${expires_at} />
      </div>
    </div>
    <div class="actions"><button class="btn small danger" aria-label="End session ${id}" onClick=${askToEnd}>End</button></div>
  </li>`;
}

export const Sessions = () => html`<${Card} title="Browser sessions">
  <${Known} value=${sessions.value}>${({ rows, cursor }) =>
    rows.length
      ? html`<ul class="rows">${rows.map((row) => html`<${Session} key=${row.id} row=${row} />`)}</ul>
          ${cursor && html`<${MoreButton} onClick=${() => attempt(() => loadList(sessions, "session", "active", cursor))} />`}`
      : html`<${Empty}>No browser is signed in.<//>`}<//>
<//>`;

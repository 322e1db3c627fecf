// The MCP servers whose tools agents use: whether each can be reached, and what it offers.
import { get, post } from "../../core/api.js";
import { ask, attempt } from "../../core/dialogs.js";
import { html, signal, useState } from "../../core/lib.js";
import { Ago, Card, Empty, Icon, pluralize, StatusIcon } from "../../core/ui.js";
import { VisibleText } from "../../core/visible_text.js";
import { Known } from "../parts.js";

const STATES = {
  ready: ["done", "connected"],
  starting: ["running", "starting"],
  down: ["failed", "down"],
  not_started: ["pending", "not used yet"],
};

const servers = signal(null);

export const loadServers = async () => (servers.value = (await get("/v1/mcp-servers")).servers);

const listHints = ({ read_only, destructive, idempotent, open_world, needs_approval }) =>
  [
    needs_approval && "needs approval",
    read_only && "only reads",
    destructive && !read_only && "may destroy",
    idempotent && "repeatable",
    open_world && "reaches the outside",
  ].filter(Boolean);

const Tool = ({ tool }) => html`<li>
  <code>${tool.name}</code>
  ${listHints(tool).map((hint) => html` <span key=${hint} class="pill">${hint}</span>`)}
  <p class="hint clamp" dir="auto"><${VisibleText} text=${tool.description} /></p>
</li>`;

const Tools = ({ server: { name, tools } }) =>
  tools.length > 0 &&
  html`<details class="server-tools">
    <summary>${pluralize(tools.length, "tool")}</summary>
    <ul aria-label="Tools of ${name}" tabindex="0">${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} />`)}</ul>
  </details>`;

function Server({ server }) {
  const [isBusy, setIsBusy] = useState(false);
  const { name, transport, location: place, status, error, checked_at } = server;
  const [icon, label] = STATES[status];
  const connect = async () => {
    setIsBusy(true);
    const answer = await attempt(() => post(`/v1/mcp-servers/${encodeURIComponent(name)}/reconnect`));
    setIsBusy(false);
    if (answer) servers.value = servers.value.map((known) => (known.name === name ? answer.server : known));
  };
  const reconnect = () =>
    status === "ready"
      ? ask({
          title: `Reconnect to ${name}?`,
          text: "Calls of its tools that are in progress are cut off. Whether they took effect is then unknown.",
          confirm: "Reconnect",
          run: connect,
        })
      : connect();
  const verb = status === "not_started" ? "Connect" : "Reconnect";
  return html`<li>
    <${StatusIcon} status=${isBusy ? "running" : icon} decorative />
    <div class="grow">
      <div class="name-line"><strong dir="auto">${name}</strong><span class="muted">${isBusy ? "connecting" : label}</span></div>
      <div class="sub num" dir="auto">
        ${transport === "stdio" ? "program" : "HTTP"} · ${place}${checked_at > 0 && html` · checked <${Ago} at=${checked_at} />`}
      </div>
      ${error && html`<div class="sub error" dir="auto">${error}</div>`}
      <${Tools} server=${server} />
    </div>
    <div class="actions">
      <button class="btn small" aria-label="${verb} ${name}" disabled=${isBusy} onClick=${reconnect}>
        <${Icon} name="replan" />${verb}
      </button>
    </div>
  </li>`;
}

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((server) => html`<${Server} key=${server.name} server=${server} />`)}</ul>
        <p class="hint below">
          As the process that answers this page sees them. mcp.json in the home is read when Headway starts.
        </p>`
    : html`<${Empty}>No MCP servers. Name them in mcp.json in the home, and start Headway again.<//>`;

export const McpServers = () => html`<${Card} title="MCP servers" count=${servers.value?.length}>
  <${Known} value=${servers.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;

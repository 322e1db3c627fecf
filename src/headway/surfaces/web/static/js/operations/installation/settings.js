// The tab about models and settings. Settings are for those who run the installation.
import { get } from "../../core/api.js";
import { html, signal } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { session } from "../../core/session.js";
import { Card, Choice, Empty } from "../../core/ui.js";
import { Known } from "../parts.js";
import { Limits, loadLimits } from "./limits.js";
import { loadTiers, Models } from "./models.js";
import "./parts.js";

const SOURCES = { flag: "flag", environment: "environment", ".env": ".env file", "models.toml": "models.toml", default: "default" };

const settings = signal(null);
const words = signal("");
const shown = signal("all");

const loadSettings = async () => (settings.value = (await get("/v1/settings")).settings);
export const load = () => Promise.all([loadTiers(), loadLimits(), session.value?.operator && loadSettings()]);
export const on = { cost_changed: coalesce(loadLimits), cost_limit_changed: coalesce(loadLimits) };

const isShown = ({ name, description, value, source }) =>
  (shown.value === "all" || source !== "default") &&
  `${name} ${description} ${value}`.toLowerCase().includes(words.value.trim().toLowerCase());

const Setting = ({ setting: { name, value, source, description } }) => html`<tr>
  <th scope="row"><code>${name}</code><small>${description}</small></th>
  <td dir="auto">${value || html`<span class="faint">not set</span>`}</td>
  <td class=${source === "default" ? "faint" : ""}>${SOURCES[source] ?? source}</td>
</tr>`;

const Group = ({ name, list }) => html`<section class="setting-group" aria-label=${name}>
  <h3>${name}</h3>
  <table class="settings">
    <colgroup><col class="setting-name" /><col /><col class="setting-source" /></colgroup>
    <thead><tr><th>Setting</th><th>Value</th><th>Source</th></tr></thead>
    <tbody>${list.map((setting) => html`<${Setting} key=${setting.name} setting=${setting} />`)}</tbody>
  </table>
</section>`;

function List({ list }) {
  const groups = Object.entries(Object.groupBy(list.filter(isShown), ({ group }) => group));
  return groups.length
    ? groups.map(([name, members]) => html`<${Group} key=${name} name=${name} list=${members} />`)
    : html`<${Empty}>No setting matches.<//>`;
}

const Filters = () => html`<div class="filter-bar" role="search">
  <input
    type="search"
    class="search"
    aria-label="Search the settings"
    placeholder="Search"
    maxlength="100"
    value=${words.value}
    onInput=${(event) => (words.value = event.currentTarget.value)}
  />
  <${Choice}
    label="Which settings"
    value=${shown.value}
    options=${[["all", "All"], ["changed", "Changed"]]}
    onChoose=${(name) => (shown.value = name)}
  />
</div>`;

const Settings = () => html`<${Card} title="Settings in force">
  <${Filters} />
  <${Known} value=${settings.value} count=${6}>${(list) => html`<${List} list=${list} />`}<//>
  <p class="hint below">As the server was started. Flags win over the environment, and that over the .env file.</p>
<//>`;

export const Tab = () => html`<${Models} />
  <${Limits} />
  ${
    session.value?.operator
      ? html`<${Settings} />`
      : html`<${Card} title="Settings in force">
          <${Empty}>Only the operator, who runs the installation, sees its settings.<//>
        <//>`
  }`;

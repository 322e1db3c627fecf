// A goal's journal as a timeline: one item for each sub-goal, plan, decision and interruption. Items with more to say open.
import { html, PureComponent, useMemo, useState } from "../core/lib.js";
import { Ago, Card, Empty, Icon, Select } from "../core/ui.js";
import { buildItems, FILTERS } from "./journal_items.js";
import "./styles.js";

export { describeRecovery } from "./journal_items.js";

const NONE_AMONG_LATEST = "Nothing of this kind among the latest entries.";

const Head = ({ item }) => html`<span class="line" dir="auto">${item.text}</span>
  ${item.facts && html`<span class="muted small"> ${item.facts}</span>`}
  ${item.hint && html`<span class="outcome muted small" dir="auto">${item.hint}</span>`}`;

const Past = ({ steps }) =>
  steps.map(
    (step) => html`<div key=${step.key} class="past small"><span dir="auto">${step.text}</span><${Ago} at=${step.at} /></div>`,
  );

class Item extends PureComponent {
  render({ item }) {
    const { full = "", steps } = item;
    return html`<li class="entry ${item.tone}">
      <${Icon} name=${item.icon} />
      ${
        full || steps
          ? html`<details>
              <summary><${Head} item=${item} /></summary>
              <div class="full">${full && html`<p dir="auto">${full}</p>`}${steps && html`<${Past} steps=${steps} />`}</div>
            </details>`
          : html`<span><${Head} item=${item} /></span>`
      }
      <${Ago} at=${item.at} />
    </li>`;
  }
}

function Items({ items, hasMore, onMore, isFiltered }) {
  return html`<div class="journal" tabindex="0" role="group" aria-label="Journal entries">
    ${
      items.length > 0
        ? html`<ol>${items.map((item) => html`<${Item} key=${item.key} item=${item} />`)}</ol>`
        : html`<p class="faint small">${isFiltered && hasMore ? NONE_AMONG_LATEST : "Nothing of this kind."}</p>`
    }
    ${hasMore && html`<button class="btn small" onClick=${onMore}>Show older</button>`}
  </div>`;
}

/** `entries`: newest first. */
export function Journal({ entries, hasMore, onMore }) {
  const [filter, setFilter] = useState("all");
  const items = useMemo(() => buildItems(entries), [entries]);
  if (!entries.length) return html`<${Card} title="Journal"><${Empty}>Nothing has happened yet.<//><//>`;
  const shown = filter === "all" ? items : items.filter(({ group }) => group === filter);
  return html`<${Card}
    title="Journal"
    count=${`${shown.length}${hasMore ? "+" : ""}`}
    actions=${html`<${Select} label="Show in the journal" value=${filter} options=${FILTERS} onChoose=${setFilter} compact />`}
  ><${Items} items=${shown} hasMore=${hasMore} onMore=${onMore} isFiltered=${filter !== "all"} /><//>`;
}

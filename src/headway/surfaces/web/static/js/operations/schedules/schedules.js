// The schedules on the operator's page.
import { get, post, remove } from "../../core/api.js";
import { ask, attempt, showToast } from "../../core/dialogs.js";
import { html, signal } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { Ago, Card, Empty, formatDuration, Icon, Until } from "../../core/ui.js";
import { Known } from "../parts.js";

const schedules = signal(null);

export const load = async () => (schedules.value = (await get("/v1/schedules", { limit: 500 })).schedules);
export const on = { schedule_changed: coalesce(load) };

const renderTiming = ({ cron, timezone, every_s }) =>
  cron ? html`<code>${cron}</code> ${timezone}` : `every ${formatDuration(every_s)}`;
const describeWork = ({ message, goal, tool }) => message?.content ?? goal?.description ?? tool?.name ?? "";

function Schedule({ schedule }) {
  const { name, paused, next_at, last_at, skipped } = schedule;
  const path = `/v1/schedules/${encodeURIComponent(name)}`;
  const runNow = () =>
    attempt(async () => {
      await post(`${path}/run`);
      showToast(`${name} runs now.`);
    });
  const togglePause = () => attempt(() => post(`${path}/${paused ? "resume" : "pause"}`));
  const askToDelete = () =>
    ask({ title: `Delete ${name}?`, text: "It will not run again.", confirm: "Delete it", run: () => remove(path) });
  const pauseLabel = paused ? "Resume" : "Pause";
  return html`<li>
    <${Icon} name="clock" class=${paused ? "status-pending" : "status-current"} />
    <div class="grow">
      <div class="truncate" dir="auto">${name}</div>
      <div class="sub truncate" dir="auto">${describeWork(schedule)}</div>
      <div class="sub num">
        ${renderTiming(schedule)} · ${paused ? "paused" : html`next <${Until} at=${next_at} />`}
        ${last_at > 0 && html` · last <${Ago} at=${last_at} />`}
        ${skipped > 0 && ` · ${skipped} skipped`}
      </div>
    </div>
    <div class="actions">
      <button class="btn small" aria-label="Run now: ${name}" onClick=${runNow}><${Icon} name="play" />Run now</button>
      <button class="btn small" aria-label="${pauseLabel} ${name}" onClick=${togglePause}>${pauseLabel}</button>
      <button class="btn small danger" aria-label="Delete ${name}" onClick=${askToDelete}>Delete</button>
    </div>
  </li>`;
}

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((schedule) => html`<${Schedule} key=${schedule.name} schedule=${schedule} />`)}</ul>`
    : html`<${Empty}>No schedules. <code>headway schedule put</code> creates one.<//>`;

export const Tab = () => html`<${Card} title="Schedules" count=${schedules.value?.length}>
  <${Known} value=${schedules.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;

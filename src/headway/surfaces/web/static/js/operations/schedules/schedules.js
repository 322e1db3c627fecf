// Schedules: recurring work, created, edited and controlled here.
import { get, post, remove } from "../../core/api.js";
import { attempt, showToast } from "../../core/dialogs.js";
import { html, signal } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { session } from "../../core/session.js";
import { Ago, Card, Empty, formatDuration, Icon, Until } from "../../core/ui.js";
import { Known } from "../parts.js";
import { restore, ScheduleForm } from "./schedule_form.js";

const schedules = signal(null);
const edited = signal(null); // the schedule in the form; NEW: a new one; null: the form is closed
const NEW = {};

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
  const deleteIt = () =>
    attempt(async () => {
      const { schedule: newest } = await get(path); // as it is stored now, to restore it
      await remove(path);
      const undo = () => attempt(() => restore(newest));
      showToast(`${name} was deleted.`, "info", { label: "Undo", run: undo });
    });
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
      <button class="btn small" aria-label="Edit ${name}" onClick=${() => (edited.value = schedule)}>Edit</button>
      <button class="btn small" aria-label="${pauseLabel} ${name}" onClick=${togglePause}>${pauseLabel}</button>
      <button class="btn small danger" aria-label="Delete ${name}" onClick=${deleteIt}>Delete</button>
    </div>
  </li>`;
}

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((schedule) => html`<${Schedule} key=${schedule.name} schedule=${schedule} />`)}</ul>`
    : html`<${Empty}>No schedules yet. One sends a message, sets a goal or calls a tool, again and again.<//>`;

const NewButton = () =>
  html`<button class="btn small" onClick=${() => (edited.value = NEW)}><${Icon} name="plus" />New schedule</button>`;

function Form() {
  const close = () => {
    edited.value = null;
    load().catch(() => {});
  };
  const names = (schedules.value ?? []).map(({ name }) => name);
  return html`<${ScheduleForm} schedule=${edited.value === NEW ? null : edited.value} names=${names} onClose=${close} />`;
}

export const Tab = () => html`<${Card}
    title="Schedules"
    count=${schedules.value?.length}
    actions=${session.value?.scopes.includes("write") && html`<${NewButton} />`}
  >
    <${Known} value=${schedules.value}>${(list) => html`<${List} list=${list} />`}<//>
  <//>
  ${edited.value && html`<${Form} />`}`;

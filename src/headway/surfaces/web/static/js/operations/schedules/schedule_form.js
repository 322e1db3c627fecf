// The form for a schedule: when it runs, with a preview of the next times, and what it does. For new schedules and existing ones.
import { get, patch, put } from "../../core/api.js";
import { showToast } from "../../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { Choice, Icon } from "../../core/ui.js";
import { Preview } from "./preview.js";
import { buildWork, readWork, WorkFields } from "./work_fields.js";

const UNITS = [
  ["1", "seconds"],
  ["60", "minutes"],
  ["3600", "hours"],
  ["86400", "days"],
];
const PRESETS = [
  ["0 * * * *", "Every hour"],
  ["0 6 * * *", "Every day at 6:00"],
  ["0 9 * * 1-5", "Weekdays at 9:00"],
  ["0 8 * * 1", "Mondays at 8:00"],
  ["0 7 1 * *", "On the first of the month at 7:00"],
];
const ZONES = Intl.supportedValuesOf("timeZone");
const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The largest unit in which an interval is a whole number. */
function splitInterval(seconds) {
  const [unit] = UNITS.findLast(([size]) => seconds % Number(size) === 0) ?? ["1"];
  return { amount: String(seconds / Number(unit)), unit };
}

function readTiming(schedule) {
  const interval = splitInterval(schedule?.every_s ?? 3600);
  return {
    mode: schedule?.every_s ? "every" : "cron",
    cron: schedule?.cron ?? "0 6 * * *",
    timezone: schedule?.timezone ?? LOCAL_ZONE,
    ...interval,
  };
}

const buildTiming = ({ mode, cron, timezone, amount, unit }) =>
  mode === "cron" ? { cron: cron.trim(), timezone: timezone.trim() } : { every_s: Number(amount) * Number(unit) };

function CronFields({ timing, change }) {
  const set = (name) => (event) => change({ [name]: event.currentTarget.value });
  return html`<div class="field-row">
      <label class="field grow">Cron expression<input
        class="mono"
        required
        maxlength="200"
        value=${timing.cron}
        onInput=${set("cron")}
        aria-describedby="cron-hint"
      /></label>
      <label class="field grow">Time zone<input
        required
        maxlength="100"
        list="time-zones"
        value=${timing.timezone}
        onInput=${set("timezone")}
      /></label>
    </div>
    <datalist id="time-zones">${ZONES.map((zone) => html`<option key=${zone} value=${zone}></option>`)}</datalist>
    <p class="hint" id="cron-hint">Minute, hour, day of the month, month, day of the week (1 is Monday).</p>
    <div class="presets" role="group" aria-label="Usual times">
      ${PRESETS.map(
        ([cron, label]) =>
          html`<button key=${cron} type="button" class="btn small" onClick=${() => change({ cron })}>${label}</button>`,
      )}
    </div>`;
}

const IntervalFields = ({ timing, change }) => html`<div class="field-row">
  <label class="field">Every<input
    type="number"
    min="1"
    step="any"
    required
    value=${timing.amount}
    onInput=${(event) => change({ amount: event.currentTarget.value })}
  /></label>
  <label class="field">Unit<select value=${timing.unit} onChange=${(event) => change({ unit: event.currentTarget.value })}>
    ${UNITS.map(([size, name]) => html`<option key=${size} value=${size}>${name}</option>`)}
  </select></label>
</div>`;

async function save(schedule, name, body) {
  if (schedule) return patch(`/v1/schedules/${encodeURIComponent(schedule.name)}`, { ...body, name });
  return put(`/v1/schedules/${encodeURIComponent(name)}`, body);
}

/** `schedule`: the one to edit; null: a new one. `names`: those that are taken. */
export function ScheduleForm({ schedule, names, onClose }) {
  const dialog = useRef();
  const [name, setName] = useState(schedule?.name ?? "");
  const [timing, setTiming] = useState(() => readTiming(schedule));
  const [work, setWork] = useState(() => readWork(schedule));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const changeTiming = (changes) => setTiming((before) => ({ ...before, ...changes }));
  const changeWork = (changes) => setWork((before) => ({ ...before, ...changes }));

  const submit = async (event) => {
    event.preventDefault();
    setProblem("");
    const wanted = name.trim();
    if (!schedule && names.includes(wanted)) {
      setProblem(`There is already a schedule named ${wanted}. Choose another name, or edit that one.`);
      return;
    }
    setBusy(true);
    try {
      await save(schedule, wanted, { ...buildTiming(timing), ...buildWork(work) });
      showToast(schedule ? `${wanted} was changed.` : `${wanted} was created.`);
      dialog.current.close();
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
    }
  };

  const title = schedule ? `Edit ${schedule.name}` : "New schedule";
  return html`<dialog ref=${dialog} class="side-panel" aria-labelledby="schedule-title" onClose=${onClose}>
    <header>
      <h2 id="schedule-title" dir="auto">${title}</h2>
      <button class="btn ghost icon-only" aria-label="Close" onClick=${() => dialog.current.close()}>
        <${Icon} name="close" />
      </button>
    </header>
    <form class="fields" onSubmit=${submit}>
      <label class="field">Name<input
        required
        maxlength="200"
        value=${name}
        onInput=${(event) => setName(event.currentTarget.value)}
      /></label>
      <fieldset>
        <legend>When</legend>
        <${Choice}
          label="Kind of timing"
          value=${timing.mode}
          options=${[["cron", "At times"], ["every", "At an interval"]]}
          onChoose=${(mode) => changeTiming({ mode })}
        />
        ${
          timing.mode === "cron"
            ? html`<${CronFields} timing=${timing} change=${changeTiming} />`
            : html`<${IntervalFields} timing=${timing} change=${changeTiming} />`
        }
        <${Preview} timing=${buildTiming(timing)} />
      </fieldset>
      <fieldset>
        <legend>What</legend>
        <${WorkFields} work=${work} change=${changeWork} />
      </fieldset>
      <p class="problem" role="alert">${problem}</p>
      <div class="actions">
        <button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>
        <button class="btn primary" disabled=${isBusy}>${schedule ? "Save" : "Create"}</button>
      </div>
    </form>
  </dialog>`;
}

/** The body of the request that creates a deleted schedule again. */
export function buildCopy(schedule) {
  const timing = schedule.cron ? { cron: schedule.cron, timezone: schedule.timezone } : { every_s: schedule.every_s };
  const { goal, message, tool } = schedule;
  return { ...timing, ...(goal && { goal }), ...(message && { message }), ...(tool && { tool }) };
}

export async function restore(schedule) {
  const path = `/v1/schedules/${encodeURIComponent(schedule.name)}`;
  await put(path, buildCopy(schedule));
  if (schedule.paused) await patch(path, { paused: true });
  return get(path);
}

// One job: what it is for, its attempts and errors, its payload and result, and what can be done about it.
import { get, post, remove } from "../../core/api.js";
import { ask, attempt, showToast } from "../../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { Ago, Icon, Pill, pluralize, Until } from "../../core/ui.js";
import { Why } from "../../work/why.js";
import { describeJob, getFilters, Skeletons, setFilters } from "../parts.js";

const isEnded = ({ state }) => ["completed", "canceled", "dead"].includes(state);
const isRetried = ({ state, attempts, due_at }) => state === "delayed" && attempts > 0 && due_at > 0;

/** The route that stops what the job does, or null if that is decided elsewhere. */
function getCancelPath({ job, links }) {
  if (isEnded(job) || job.kind === "webhook") return null;
  if (!links) return `/v1/jobs/${job.id}/cancel`;
  if (links.parent_run_id) return `/v1/agents/${links.run_id}/cancel`;
  return links.turn_id ? `/v1/turns/${links.turn_id}/cancel` : null;
}

function Links({ job, links }) {
  const list = [
    links?.conversation_id > 0 && [`/c/${links.conversation_id}`, `Conversation ${links.conversation_id}`],
    links?.goal_id > 0 && [`/goals/${links.goal_id}`, `Goal ${links.goal_id}`],
    links && ["/operations/agents", `Agent: ${links.role}`],
    job.kind === "webhook" && ["/operations/webhooks", "Webhooks"],
  ].filter(Boolean);
  if (!list.length) return null;
  return html`<dt>Works for</dt>
    <dd class="job-links">${list.map(([to, text]) => html`<a key=${to} class="link" href=${to}>${text}</a>`)}</dd>`;
}

const Facts = ({ job, links }) => html`<dl class="job-facts">
  <dt>Kind</dt><dd>${job.kind}</dd>
  <dt>Failed attempts</dt><dd class="num">${job.attempts} of ${job.max_attempts}</dd>
  ${
    !isEnded(job) &&
    job.state !== "running" &&
    html`<dt>Due</dt><dd>${job.due_at ? html`<${Until} at=${job.due_at} />` : "when it is woken"}</dd>`
  }
  <dt>Created</dt><dd><${Ago} at=${job.created_at} /></dd>
  <dt>Changed</dt><dd><${Ago} at=${job.updated_at} /></dd>
  <${Links} job=${job} links=${links} />
  <dt>Id</dt><dd><code>${job.id}</code></dd>
</dl>`;

const Document = ({ title, value }) => html`<h3>${title}</h3>
  <pre class="job-document" tabindex="0" aria-label=${title}>${JSON.stringify(value, null, 2)}</pre>`;

const Errors = ({ errors }) => html`<h3>${pluralize(errors.length, "error")}, the last one first</h3>
  <ol class="job-errors">${errors.toReversed().map((error, at) => html`<li key=${at} dir="auto">${error}</li>`)}</ol>`;

function Actions({ known, change, close }) {
  const { job } = known;
  const path = `/v1/jobs/${job.id}`;
  const cancelPath = getCancelPath(known);
  const canRetry = job.state === "dead" || isRetried(job);
  const retry = () => change(() => post(`${path}/retry`), "The job runs again.");
  const cancel = () =>
    ask({
      title: "Cancel this job?",
      text: `${describeJob(job)}: what it has done stays, and it does not go on.`,
      confirm: "Cancel it",
      run: () => change(() => post(cancelPath), "The job was canceled."),
    });
  const drop = () =>
    ask({
      title: "Drop this dead letter?",
      text: `${describeJob(job)}: it cannot be retried after this.`,
      confirm: "Drop it",
      run: async () => {
        await remove(path);
        close();
      },
    });
  return html`<div class="actions">
    ${canRetry && html`<button class="btn" onClick=${retry}><${Icon} name="replan" />Retry now</button>`}
    ${cancelPath && html`<button class="btn danger" onClick=${cancel}>Cancel the job</button>`}
    ${job.state === "dead" && html`<button class="btn danger" onClick=${drop}>Drop</button>`}
  </div>`;
}

/** `onChange`: fetches the list again. */
export function JobDialog({ id, onChange }) {
  const dialog = useRef();
  const [known, setKnown] = useState(null);
  const [problem, setProblem] = useState("");
  const load = async () => {
    try {
      setKnown(await get(`/v1/jobs/${encodeURIComponent(id)}`));
    } catch (error) {
      setProblem(error.message);
    }
  };
  const close = () => {
    if (getFilters("job").job === id) setFilters({ job: "" }); // the address may name another job by now
    onChange().catch(() => {});
  };
  useEffect(() => {
    dialog.current.showModal();
    load();
  }, []);
  const change = (run, text) =>
    attempt(async () => {
      await run();
      showToast(text);
      await Promise.all([load(), onChange()]);
    });
  return html`<dialog ref=${dialog} class="side-panel" aria-labelledby="job-title" onClose=${close}>
    <header>
      <h2 id="job-title" class="clamp" dir="auto">${known ? describeJob(known.job) : "Job"}</h2>
      <button class="btn ghost icon-only" aria-label="Close" onClick=${() => dialog.current.close()}>
        <${Icon} name="close" />
      </button>
    </header>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!known && !problem && html`<${Skeletons} count=${6} />`}
    ${
      known &&
      html`<${Pill} status=${known.job.state} />
        <${Facts} job=${known.job} links=${known.links} />
        <${Actions} known=${known} change=${change} close=${() => dialog.current.close()} />
        ${known.job.errors.length > 0 && html`<${Errors} errors=${known.job.errors} />`}
        <${Document} title="Payload" value=${known.job.payload} />
        ${known.job.result !== null && html`<${Document} title="Result" value=${known.job.result} />`}
        <${Why} kind="job" id=${known.job.id} of=${describeJob(known.job)} />`
    }
  </dialog>`;
}

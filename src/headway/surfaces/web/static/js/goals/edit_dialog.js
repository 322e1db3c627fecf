// Changes a goal that has not ended: its priority, its limits and its texts. Each field says what it does.
import { patch } from "../core/api.js";
import { html, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";

const TEXT_LIMIT = 10_000;

/** Epoch seconds as a local date and time, as such a field takes it. */
function toLocal(at) {
  if (!at) return "";
  const date = new Date(at * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The changed fields of the form, as the API takes them. */
function listChanges(goal, form) {
  const text = (name) => form.get(name).trim();
  const changes = {};
  const budget = text("budget") ? Number(text("budget")) : null;
  const deadline = text("deadline") ? Math.floor(new Date(text("deadline")).getTime() / 1000) : null;
  if (Number(text("priority")) !== goal.priority) changes.priority = Number(text("priority"));
  if (budget !== goal.budget_usd) changes.budget_usd = budget;
  if (text("deadline") !== toLocal(goal.deadline)) changes.deadline = deadline;
  if (text("description") !== goal.description) changes.description = text("description");
  if (text("criteria") !== goal.success_criteria) changes.success_criteria = text("criteria");
  return changes;
}

const Field = ({ name, hint, children }) => html`<label class="field">${name}${children}<span class="hint">${hint}</span></label>`;

function Fields({ goal }) {
  return html`<${Field} name="Priority" hint="0 is the most urgent. When agents are busy, the most urgent goal goes first.">
      <input name="priority" type="number" min="0" max="1000" required defaultValue=${goal.priority} />
    <//>
    <${Field} name="Budget, dollars" hint="The goal pauses when it has spent this much. Empty: only the shared pool limits it.">
      <input name="budget" type="number" min="0.01" max="1000000" step="0.01" defaultValue=${goal.budget_usd ?? ""} />
    <//>
    <${Field} name="Deadline" hint="The goal pauses at that time. Empty: none.">
      <input name="deadline" type="datetime-local" defaultValue=${toLocal(goal.deadline)} />
    <//>
    <${Field} name="What should be achieved?" hint="Another text leads to a new plan. Finished work is kept.">
      <textarea name="description" required maxlength=${TEXT_LIMIT} dir="auto" defaultValue=${goal.description}></textarea>
    <//>
    <${Field} name="How will success be recognized?" hint="Other criteria also lead to a new plan.">
      <textarea name="criteria" maxlength=${TEXT_LIMIT} dir="auto" defaultValue=${goal.success_criteria}></textarea>
    <//>`;
}

/** The button, and the dialog that it opens. */
export function EditGoal({ goal, path }) {
  const dialog = useRef();
  const [opened, setOpened] = useState(0); // how often; each time the fields show the goal as it is
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const open = () => {
    setProblem("");
    setOpened(opened + 1);
    dialog.current.showModal();
  };
  const submit = async (event) => {
    event.preventDefault();
    const changes = listChanges(goal, new FormData(event.currentTarget));
    setIsBusy(true);
    try {
      if (Object.keys(changes).length) await patch(path, changes);
      dialog.current.close();
    } catch (error) {
      setProblem(error.message);
    } finally {
      setIsBusy(false);
    }
  };
  return html`<button class="btn" onClick=${open}><${Icon} name="edit" />Edit</button>
    <dialog ref=${dialog} class="edit-goal" aria-labelledby="edit-title">
      <h2 id="edit-title">Edit goal ${goal.id}</h2>
      <form key=${opened} class="fields" onSubmit=${submit}>
        <${Fields} goal=${goal} />
        <p class="problem" role="alert">${problem}</p>
        <div class="actions">
          <button type="button" class="btn" onClick=${() => dialog.current.close()}>Cancel</button>
          <button class="btn primary" disabled=${isBusy}>Save the changes</button>
        </div>
      </form>
    </dialog>`;
}

// A request to a person: a call that needs approval, a question, or a goal that needs a decision, with the controls to respond.
// Nothing here ever gets the focus by itself.
import { get, post } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { Ago, Icon, now, Until } from "../core/ui.js";
import { formatEditable, spellOut, VisibleText } from "../core/visible_text.js";
import { Arguments } from "./arguments.js";

const REASON_LENGTH = 2_000;
const ANSWER_LENGTH = 20_000;

/** The rule that "Always allow this" adds, in one sentence. */
function describeRule({ tool, role, arguments: globs }) {
  const named = Object.entries(globs).map(([name, glob]) => `${name} = ${glob.replace(/\[([*?[])\]/g, "$1")}`);
  const which = named.length ? `${tool} with ${named.join(" and ")}` : `${tool}, whatever its arguments are,`;
  return `From now on, the agent ${role} may call ${which} without asking.`;
}

function RejectForm({ onSubmit, onBack, isBusy }) {
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    onSubmit({ decision: "reject", reason: field.current.value.trim() });
  };
  return html`<form class="request-form" onSubmit=${submit}>
    <label class="field">Why not? The agent reads it.<input
      ref=${field}
      maxlength=${REASON_LENGTH}
      dir="auto"
      placeholder="Optional"
    /></label>
    <div class="actions">
      <button class="btn danger" disabled=${isBusy}>Reject the call</button>
      <button type="button" class="btn ghost" onClick=${onBack}>Back</button>
    </div>
  </form>`;
}

function parseArguments(text) {
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return { value };
    return { problem: "The arguments must be one JSON object." };
  } catch (error) {
    return { problem: `This is not valid JSON: ${error.message}` };
  }
}

function EditForm({ request, onSubmit, onProblem, onBack, isBusy }) {
  const field = useRef();
  useLayoutEffect(() => {
    field.current.focus();
    field.current.setSelectionRange(0, 0);
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const { value, problem } = parseArguments(field.current.value);
    if (problem) onProblem(problem);
    else onSubmit({ decision: "approve", arguments: value });
  };
  return html`<form class="request-form" onSubmit=${submit}>
    <label class="field">Arguments, as JSON<textarea
      ref=${field}
      class="json"
      dir="ltr"
      spellcheck="false"
      rows="8"
      defaultValue=${formatEditable(request.arguments)}
    ></textarea></label>
    <div class="actions">
      <button class="btn primary" disabled=${isBusy}>Approve with these arguments</button>
      <button type="button" class="btn ghost" onClick=${onBack}>Back</button>
    </div>
  </form>`;
}

function AlwaysForm({ request, onSubmit, onBack, isBusy }) {
  const back = useRef();
  const [rule, setRule] = useState(undefined); // null: no rule can be written
  useEffect(() => {
    back.current.focus();
    attempt(async () => setRule((await get(`/v1/inbox/${request.id}`)).rule));
  }, []);
  return html`<div class="request-form">
    <p role="status" dir="auto">
      ${
        rule
          ? html`<${VisibleText} text=${describeRule(rule)} />`
          : rule === null && "No rule can be written for this call. You can approve it once."
      }
    </p>
    <div class="actions">
      ${
        rule &&
        html`<button
          type="button"
          class="btn primary"
          disabled=${isBusy}
          onClick=${() => onSubmit({ decision: "approve", always: true })}
        >Approve, and add this rule</button>`
      }
      <button ref=${back} type="button" class="btn ghost" onClick=${onBack}>Back</button>
    </div>
  </div>`;
}

const FORMS = { reject: RejectForm, edit: EditForm, always: AlwaysForm };

const Buttons = ({ onApprove, onOpen, isBusy, described }) => html`<div class="actions">
  <button type="button" class="btn primary" disabled=${isBusy} aria-describedby=${described} onClick=${onApprove}>
    <${Icon} name="check" />Approve
  </button>
  <button type="button" class="btn" data-opens="reject" disabled=${isBusy} onClick=${() => onOpen("reject")}>Reject</button>
  <button type="button" class="btn" data-opens="edit" disabled=${isBusy} onClick=${() => onOpen("edit")}>Edit</button>
  <button type="button" class="btn" data-opens="always" disabled=${isBusy} onClick=${() => onOpen("always")}>
    Always allow this
  </button>
</div>`;

function Decision({ request, onRespond, onProblem, isBusy, described }) {
  const area = useRef();
  const [form, setForm] = useState(null); // reject | edit | always
  const closed = useRef(null); // the form that was just closed, whose button gets the focus back
  const open = (name) => {
    onProblem("");
    setForm(name);
  };
  const back = () => {
    closed.current = form;
    open(null);
  };
  useEffect(() => {
    if (!form && closed.current) area.current.querySelector(`[data-opens="${closed.current}"]`)?.focus();
  }, [form]);
  const onKeyDown = (event) => event.key === "Escape" && form && back();
  const Form = FORMS[form];
  return html`<div ref=${area} onKeyDown=${onKeyDown}>
    ${
      Form
        ? html`<${Form} request=${request} onSubmit=${onRespond} onProblem=${onProblem} onBack=${back} isBusy=${isBusy} />`
        : html`<${Buttons}
            onApprove=${() => onRespond({ decision: "approve" })}
            onOpen=${open}
            isBusy=${isBusy}
            described=${described}
          />`
    }
  </div>`;
}

const Choices = ({ choices, labelledBy, onAnswer, isBusy }) => html`<div class="choices" role="group" aria-labelledby=${labelledBy}>
  ${choices.map(
    (
      choice,
    ) => html`<button key=${choice} type="button" class="btn" disabled=${isBusy} dir="auto" onClick=${() => onAnswer(choice)}>
      <${VisibleText} text=${choice} />
    </button>`,
  )}
</div>`;

function AnswerField({ labelledBy, onAnswer, isBusy }) {
  const field = useRef();
  const submit = (event) => {
    event.preventDefault();
    const answer = field.current.value;
    if (answer.trim() && !isBusy) onAnswer(answer);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="answer-form" onSubmit=${submit}>
    <textarea
      ref=${field}
      rows="1"
      dir="auto"
      maxlength=${ANSWER_LENGTH}
      placeholder="Your answer"
      aria-label="Your answer"
      aria-describedby=${labelledBy}
      onKeyDown=${onKeyDown}
    ></textarea>
    <button class="btn primary" disabled=${isBusy}>Answer</button>
  </form>`;
}

const Question = ({ request, id }) => html`<p class="question-text" id=${id} dir="auto">
  <${VisibleText} text=${request.question} isBlock />
</p>`;

/** The page of the goal says what each choice does. */
const DecideLink = ({ request, described }) => html`<div class="actions">
  <a class="btn primary" href="/goals/${request.goal_id}" aria-describedby=${described}>Decide</a>
</div>`;

/** By kind: the icon, what the agent does, the request itself, and what a person answers with. */
const KINDS = {
  approval: {
    icon: "shield",
    Title: ({ request }) => html`asks to call <code>${spellOut(request.tool)}</code>`,
    Content: ({ request, id }) => html`<div class="request-body" id=${id}><${Arguments} value=${request.arguments} /></div>`,
    Controls: Decision,
  },
  question: {
    icon: "agent",
    Title: () => "asks you",
    Content: Question,
    Controls: ({ request, onRespond, isBusy, contentId }) => {
      const given = { labelledBy: contentId, onAnswer: (answer) => onRespond({ answer }), isBusy };
      return request.choices.length
        ? html`<${Choices} choices=${request.choices} ...${given} />`
        : html`<${AnswerField} ...${given} />`;
    },
  },
  decision: { icon: "goal", Title: () => "asks you to decide", Content: Question, Controls: DecideLink },
};

function When({ request }) {
  if (!request.expires_at) return html`<${Ago} at=${request.created_at} />`;
  return request.expires_at <= now.value ? "expired" : html`expires <${Until} at=${request.expires_at} />`;
}

/** `settle`: called before the response is sent, to move the focus off the buttons, which the response removes. */
export function RequestCard({ request, settle, origin }) {
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const respond = async (response) => {
    settle();
    setIsBusy(true);
    setProblem("");
    try {
      await post(`/v1/inbox/${request.id}`, response); // the event that follows replaces this card
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const { icon, Title, Content, Controls } = KINDS[request.kind];
  const name = `request-${request.id}`;
  const contentId = `${name}-content`;
  const isLate = request.expires_at && request.expires_at <= now.value;
  return html`<section class="request-card" aria-labelledby=${name}>
    <header>
      <${Icon} name=${icon} />
      <p class="grow" id=${name}><strong>${spellOut(request.role)}</strong> <${Title} request=${request} /></p>
      <span class="request-time" aria-live="off"><${When} request=${request} /></span>
    </header>
    <${Content} request=${request} id=${contentId} />
    ${
      (request.why || origin) &&
      html`<p class="hint">
        ${request.why && html`Why it asks: <${VisibleText} text=${request.why} />.`}${origin && html` It works in ${origin}.`}
      </p>`
    }
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    ${
      isLate
        ? html`<p class="muted small">The time to decide is over. The call is not made.</p>`
        : html`<${Controls}
            request=${request}
            onRespond=${respond}
            onProblem=${setProblem}
            isBusy=${isBusy}
            described="${name} ${contentId}"
            contentId=${contentId}
          />`
    }
  </section>`;
}

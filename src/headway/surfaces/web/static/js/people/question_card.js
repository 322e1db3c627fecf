// A question of an agent: its choices as buttons, or a field for the answer.
import { post } from "../core/api.js";
import { html, useRef, useState } from "../core/lib.js";
import { Ago, Icon } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";

const ANSWER_LENGTH = 20_000;

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

/** `settle`: called before the answer is sent, to move the focus off the buttons, which the answer removes. */
export function QuestionCard({ request, settle, origin }) {
  const [problem, setProblem] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const answer = async (text) => {
    settle();
    setIsBusy(true);
    setProblem("");
    try {
      await post(`/v1/questions/${request.id}`, { answer: text }); // the event that follows replaces this card
    } catch (error) {
      setProblem(error.message);
      setIsBusy(false);
    }
  };
  const name = `question-${request.id}`;
  return html`<section class="request-card" aria-labelledby=${name}>
    <header>
      <${Icon} name="agent" />
      <p class="grow" id=${name}><strong>${spellOut(request.role)}</strong> asks you</p>
      <span class="request-time" aria-live="off"><${Ago} at=${request.created_at} /></span>
    </header>
    <p class="question-text" id="${name}-text" dir="auto"><${VisibleText} text=${request.question} isBlock /></p>
    ${origin && html`<p class="hint">It works in ${origin}.</p>`}
    ${problem && html`<p class="problem" role="alert" dir="auto">${problem}</p>`}
    ${
      request.choices.length
        ? html`<${Choices} choices=${request.choices} labelledBy="${name}-text" onAnswer=${answer} isBusy=${isBusy} />`
        : html`<${AnswerField} labelledBy="${name}-text" onAnswer=${answer} isBusy=${isBusy} />`
    }
  </section>`;
}

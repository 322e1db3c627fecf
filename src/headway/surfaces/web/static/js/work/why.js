// "Why?": the events and decisions that led to the present state of a todo, turn, goal or job. Loaded when it is opened.
import { get } from "../core/api.js";
import { html, useState } from "../core/lib.js";
import { Ago, pluralize } from "../core/ui.js";

const ALL_LINES = 500;

function Lines({ why, leftOut, onMore }) {
  const end = why.at(-1);
  return html`<ol tabindex="0" aria-label="The events that led to it">
      ${why.slice(0, -1).map(
        (line, n) => html`<li key=${n}>
          <span class="num" title="The number of the event">${line.seq}</span>
          <span dir="auto">${line.text}</span><${Ago} at=${line.at} />
        </li>`,
      )}
    </ol>
    ${leftOut > 0 && html`<button class="btn ghost small" onClick=${onMore}>Show ${pluralize(leftOut, "more line")}</button>`}
    <p dir="auto">${end.text}</p>`;
}

/** `of`: the name of the thing, for screen readers. */
export function Why({ kind, id, of, label = "Why?" }) {
  const [answer, setAnswer] = useState(null);
  const load = async (query) => {
    try {
      setAnswer(await get(`/v1/why/${kind}/${id}`, query));
    } catch (error) {
      setAnswer({ error: error.message });
    }
  };
  const onToggle = ({ currentTarget }) => currentTarget.open && load();
  return html`<details class="why" onToggle=${onToggle}>
    <summary aria-label="${label} ${of}">${label}</summary>
    ${answer?.error && html`<p class="error" dir="auto">${answer.error}</p>`}
    ${answer?.why && html`<${Lines} why=${answer.why} leftOut=${answer.left_out} onMore=${() => load({ limit: ALL_LINES })} />`}
  </details>`;
}

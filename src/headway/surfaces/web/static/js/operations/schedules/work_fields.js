// The work of a schedule: send a message to an agent, set a goal, or call a tool.
import { get } from "../../core/api.js";
import { html, useEffect, useState } from "../../core/lib.js";
import { Choice } from "../../core/ui.js";

const KINDS = [
  ["message", "Send a message"],
  ["goal", "Set a goal"],
  ["tool", "Call a tool"],
];

/** The fields of the form, from a schedule or for a new one. */
export function readWork(schedule) {
  const { message, goal, tool } = schedule ?? {};
  return {
    kind: goal ? "goal" : tool ? "tool" : "message",
    conversation: message ? String(message.conversation_id) : "",
    content: message?.content ?? "",
    description: goal?.description ?? "",
    criteria: goal?.success_criteria ?? "",
    priority: goal?.priority,
    tool: tool?.name ?? "",
    toolConversation: tool?.conversation_id ?? 0,
    arguments: JSON.stringify(tool?.arguments ?? {}, null, 2),
  };
}

function parseArguments(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("The arguments must be a JSON object.");
  return value;
}

/** The part of the request that says what the schedule does. Throws an Error if a field is not valid. */
export function buildWork(work) {
  if (work.kind === "message") return { message: { conversation_id: Number(work.conversation), content: work.content } };
  if (work.kind === "tool") {
    const tool = { name: work.tool.trim(), arguments: parseArguments(work.arguments), conversation_id: work.toolConversation };
    return { tool };
  }
  const goal = { description: work.description, success_criteria: work.criteria };
  return { goal: work.priority === undefined ? goal : { ...goal, priority: work.priority } };
}

function MessageFields({ work, set, conversations }) {
  const isListed = conversations.some(({ id }) => String(id) === work.conversation);
  return html`<label class="field">Conversation<select required value=${work.conversation} onChange=${set("conversation")}>
      <option value="">Choose one</option>
      ${work.conversation && !isListed && html`<option value=${work.conversation}>Conversation ${work.conversation}</option>`}
      ${conversations.map(({ id, title }) => html`<option key=${id} value=${String(id)}>${title || `Conversation ${id}`}</option>`)}
    </select></label>
    <label class="field">Message<textarea
      required
      rows="4"
      dir="auto"
      value=${work.content}
      onInput=${set("content")}
    ></textarea></label>`;
}

const GoalFields = ({ work, set }) => html`<label class="field">Goal<textarea
    required
    rows="3"
    dir="auto"
    value=${work.description}
    onInput=${set("description")}
  ></textarea></label>
  <label class="field">Success criteria, optional<textarea
    rows="2"
    dir="auto"
    value=${work.criteria}
    onInput=${set("criteria")}
  ></textarea></label>
  <p class="hint">If the last goal of the schedule has not ended, the time is skipped.</p>`;

const ToolFields = ({ work, set, tools }) => html`<label class="field">Tool<input
    required
    maxlength="200"
    list="schedule-tools"
    value=${work.tool}
    onInput=${set("tool")}
  /></label>
  <datalist id="schedule-tools">${tools.map(({ name }) => html`<option key=${name} value=${name}></option>`)}</datalist>
  <label class="field">Arguments, as JSON<textarea
    class="mono"
    rows="4"
    spellcheck=${false}
    value=${work.arguments}
    onInput=${set("arguments")}
  ></textarea></label>`;

export function WorkFields({ work, change }) {
  const [conversations, setConversations] = useState([]);
  const [tools, setTools] = useState([]);
  useEffect(() => {
    get("/v1/conversations", { sort: "activity", limit: 100 }).then(
      (answer) => setConversations(answer.conversations),
      () => {},
    );
    get("/v1/tools").then(
      (answer) => setTools(answer.tools),
      () => {},
    );
  }, []);
  const set = (name) => (event) => change({ [name]: event.currentTarget.value });
  return html`<${Choice} label="Kind of work" value=${work.kind} options=${KINDS} onChoose=${(kind) => change({ kind })} />
    ${work.kind === "message" && html`<${MessageFields} work=${work} set=${set} conversations=${conversations} />`}
    ${work.kind === "goal" && html`<${GoalFields} work=${work} set=${set} />`}
    ${work.kind === "tool" && html`<${ToolFields} work=${work} set=${set} tools=${tools} />`}`;
}

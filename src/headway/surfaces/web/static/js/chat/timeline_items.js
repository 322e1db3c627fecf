// The items of a conversation, each as {key, type, …}: user, assistant, tool, agent, compacted, refusal, fork, changes, end, files,
// usage. A call that started a sub-agent has it as its `run`.
import { toRequest } from "../core/waiting.js";
import { placeEnding } from "./turn_ending.js";
import { placeUsage } from "./turn_usage.js";
import { createTurnFiles } from "./written_files.js";

const ASK_TOOL = "ask_person";
const STARTING_TOOLS = ["delegate", "spawn_agent"];
const NOTED_OUTCOMES = ["filtered", "limit", "needs_live"]; // even if the list is done

/** Replace the item with the same key, or append the item. */
function upsert(list, item) {
  const at = list.findIndex(({ key }) => key === item.key);
  if (at < 0) return [...list, item];
  return list.with(at, { ...list[at], ...item });
}

/** The call that a request is about, if it is shown. Agents choose the ids of calls and may repeat them. */
const findCall = (list, request, call) =>
  list.findLastIndex(
    (item) =>
      item.type === "tool" &&
      !item.request &&
      item.result === undefined &&
      (request.kind === "approval" ? item.call === call : item.tool === ASK_TOOL && item.runId === request.run_id),
  );

/** Put a request at the place of its call, or at the end if the call is a sub-agent's. */
function placeRequest(list, request) {
  const call = request.kind === "approval" ? `${request.run_id}/${request.call_id}` : undefined;
  const known = list.findIndex(({ key }) => key === request.key);
  const at = known < 0 ? findCall(list, request, call) : known;
  const before = list[at] ?? { type: "tool", call, runId: request.run_id, tool: request.tool ?? ASK_TOOL, state: "running" };
  const given = request.arguments ?? before.arguments ?? { question: request.question, choices: request.choices };
  const isEdited = request.state === "approved" && before.request && JSON.stringify(given) !== JSON.stringify(before.arguments);
  const item = { ...before, key: request.key, turnId: request.turn_id, arguments: given, request };
  if (isEdited) item.proposed = before.arguments;
  return at < 0 ? [...list, item] : list.with(at, item);
}

const isAnswerOf = (item, turnId) => item?.type === "assistant" && item.turnId === turnId;

/** Set the state of the calls of a turn that have no result. */
const setUnfinished = (list, turnId, state) =>
  list.map((item) =>
    item.type === "tool" && item.turnId === turnId && item.result === undefined && item.state !== state ? { ...item, state } : item,
  );

/** Show a sub-agent at the call that started it, or as a separate item: a writ is no call. */
function placeAgent(list, run) {
  const known = list.findIndex((item) => item.run?.id === run.id);
  if (known >= 0) {
    const before = list[known];
    return list.with(known, { ...before, run: { ...before.run, ...run } }); // later events leave out a long task
  }
  const isCall = ({ type, tool, runId, run: other, result }) =>
    type === "tool" && STARTING_TOOLS.includes(tool) && runId === run.parent_run_id && !other && result === undefined;
  const at = list.findLastIndex(isCall);
  if (at >= 0) return list.with(at, { ...list[at], run });
  return [...list, { key: `a${run.id}`, type: "agent", turnId: run.turn_id, run }];
}

export function createReducer() {
  const runs = new Map(); // turn → the run that answers it
  const requested = new Set(); // turns whose first message is known
  const turnFiles = createTurnFiles();

  const isOfSubAgent = (turn_id, run_id) => runs.has(turn_id) && runs.get(turn_id) !== run_id;
  const endTurn = (list, turn_id, end, details) =>
    upsert(list, { key: `e${turn_id}`, type: "end", turnId: turn_id, end, ...details });
  const onApproval = (list, { approval }) => placeRequest(list, toRequest("approval", approval));
  const onQuestion = (list, { question }) => placeRequest(list, toRequest("question", question));
  const reducers = {
    turn_started(list, { turn_id, run_id, forked_from: origin }) {
      runs.set(turn_id, run_id);
      return origin ? upsert(list, { key: `f${turn_id}`, type: "fork", turnId: turn_id, origin }) : list;
    },
    message(list, { id, turn_id, role, content, created_at, attachments = [] }) {
      // The first message of a turn starts it. The agent reads further ones while it works.
      const isFirst = role === "user" && !requested.has(turn_id) && (runs.has(turn_id) || !list.length);
      if (isFirst) requested.add(turn_id);
      const item = { key: `m${id}`, id, type: role, text: content, at: created_at, turnId: turn_id, attachments };
      return upsert(list, role === "user" && !isFirst ? { ...item, isSteering: true, isRead: false } : item);
    },
    // An agent reads all its messages at once. Messages of a sub-agent are not shown.
    messages_read: (list, { turn_id, run_id }) =>
      isOfSubAgent(turn_id, run_id)
        ? list
        : list.map((item) => (item.isSteering && item.turnId === turn_id ? { ...item, isRead: true } : item)),
    tool_call(list, { turn_id, run_id, depth, step, has_text, call_id, tool, arguments: given, at }) {
      if (depth > 0 || isOfSubAgent(turn_id, run_id)) return list; // it is in the transcript; here only if it needs approval
      const call = `${run_id}/${call_id}`;
      const key = list.some((item) => item.key === call) ? `${call}/${list.length}` : call;
      const made = { tool, arguments: given, state: "running", step, at };
      const said = has_text && isAnswerOf(list.at(-1), turn_id) ? [{ ...list.at(-1), step }] : list.slice(-1);
      return [...list.slice(0, -1), ...said, { key, call, runId: run_id, turnId: turn_id, type: "tool", ...made }];
    },
    tool_result(list, { run_id, call_id, result, is_error, state, files, at: endedAt }) {
      const call = `${run_id}/${call_id}`;
      const at = list.findIndex((item) => item.call === call && item.result === undefined);
      const ended = { result, files, state: is_error || state === "unknown" ? "failed" : "done", endedAt };
      return at < 0 ? list : list.with(at, { ...list[at], ...ended });
    },
    approval_requested: onApproval,
    approval_decided: onApproval,
    question_asked: onQuestion,
    question_answered(list, data) {
      const placed = onQuestion(list, data);
      // The result of a sub-agent's question is an event of a call that is not shown.
      return placed.map((item) => (item.key === `question${data.question.id}` && !item.call ? { ...item, state: "done" } : item));
    },
    compacted: (list, { turn_id, run_id, tokens_before, tokens_after }) =>
      runs.get(turn_id) === run_id
        ? upsert(list, { key: `c${run_id}/${tokens_before}/${tokens_after}`, type: "compacted", tokens_before, tokens_after })
        : list,
    // Agents that Headway does not run are sent back when they stop too early. Its own go on in the same answer.
    refused: (list, { turn_id, reason, refusals }) =>
      refusals ? [...list, { key: `r${turn_id}/${list.length}`, type: "refusal", turnId: turn_id, reason }] : list,
    // Sub-agents of sub-agents are in the transcripts of those that started them.
    agent_changed: (list, { run }) => (run.parent_run_id && !(run.depth > 1) ? placeAgent(list, run) : list),
    turn_resumed: (list, { turn_id }) =>
      setUnfinished(
        list.filter(({ key }) => key !== `e${turn_id}`),
        turn_id,
        "running",
      ),
    turn_finished(list, { turn_id, outcome, incomplete, changes }) {
      // A fork that needs the real world has not made its last calls.
      let after = setUnfinished(list, turn_id, "skipped");
      if (changes?.files.length) after = upsert(after, { key: `d${turn_id}`, type: "changes", turnId: turn_id, changes });
      return incomplete.length || NOTED_OUTCOMES.includes(outcome) ? endTurn(after, turn_id, outcome, { incomplete }) : after;
    },
    turn_failed: (list, { turn_id, error, code }) =>
      endTurn(setUnfinished(list, turn_id, "canceled"), turn_id, "failed", { error, code, runId: runs.get(turn_id) }),
    turn_canceled: (list, { turn_id, incomplete = [] }) =>
      endTurn(setUnfinished(list, turn_id, "canceled"), turn_id, "canceled", { incomplete }),
  };
  const reset = () => {
    runs.clear();
    requested.clear();
    turnFiles.reset();
  };
  const reduce = (list, kind, data) => {
    const after = placeEnding(reducers[kind]?.(list, data) ?? list, kind, data);
    return placeUsage(turnFiles.place(after, kind, data), kind, data);
  };
  return { runs, reset, reduce };
}

// The effects of calls of plan tools, in sentences. The plan itself is in the todo panel.
import { pluralize } from "../../core/ui.js";

const REPLACING_TOOLS = new Set(["write_todos", "TodoWrite", "update_plan"]);
const PLAN_TOOLS = new Set(["create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos", ...REPLACING_TOOLS]);
const NAMED_LIMIT = 2; // more todos of a kind are counted
const LOOKED = "Looked at the plan";

export const isPlanCall = ({ tool, state }) => PLAN_TOOLS.has(tool) && state !== "failed";
export const startsPlan = ({ tool }) => tool === "create_todo";

const getTitle = (result) => (typeof result?.title === "string" ? result.title : "a todo");
const wasDone = ({ status }) => status === "completed" || status === "done";

/** One entry per todo that the calls finished, canceled or started: {verb, title}. */
function listChanges(calls) {
  const changes = [];
  for (const { tool, result } of calls) {
    if (tool === "start_todo") changes.push({ verb: "Started", title: getTitle(result) });
    if (tool !== "complete_todo") continue;
    changes.push({ verb: result?.status === "cancelled" ? "Canceled" : "Finished", title: getTitle(result) });
    if (result?.started) changes.push({ verb: "Started", title: getTitle(result.started) });
  }
  return changes;
}

/** A todo that was started and then ended has only ended. Of several that were started, the last one counts. */
function describeChanges(changes) {
  const sentences = ["Finished", "Canceled"].flatMap((verb) => {
    const titles = changes.filter((change) => change.verb === verb).map(({ title }) => title);
    return titles.length > NAMED_LIMIT
      ? [`${verb} ${pluralize(titles.length, "todo")}`]
      : titles.map((title) => `${verb}: ${title}`);
  });
  const last = changes.findLast(({ verb }) => verb === "Started");
  const hasEnded = last && changes.some(({ verb, title }) => verb !== "Started" && title === last.title);
  return last && !hasEnded ? [...sentences, `Started: ${last.title}`] : sentences;
}

function describeQueue({ add, delete: removed }) {
  const sentences = [];
  if (Array.isArray(add) && add.length) sentences.push(`Planned ${pluralize(add.length, "todo")}`);
  if (Array.isArray(removed) && removed.length) sentences.push(`Removed ${pluralize(removed.length, "todo")}`);
  return sentences.length ? sentences : [LOOKED];
}

function describeReplacement({ todos, plan }) {
  const items = todos ?? plan;
  if (!Array.isArray(items)) return [];
  const done = items.filter(wasDone).length;
  return [done ? `Updated the plan: ${done} of ${items.length} done` : `Planned ${pluralize(items.length, "todo")}`];
}

function describeList({ tool, arguments: given, result }) {
  if (tool === "create_todo") return [`Planned ${pluralize(result?.created?.length ?? 0, "todo")}`];
  if (tool === "manage_todos") return describeQueue(given ?? {});
  if (REPLACING_TOOLS.has(tool)) return describeReplacement(given ?? {});
  return tool === "list_todo" ? [LOOKED] : [];
}

/** The sentences for calls of plan tools. */
export function describePlanCalls(calls) {
  const ended = calls.filter(({ state }) => state === "done");
  if (!ended.length) return ["Updating the plan"];
  const lastReplacement = ended.findLast(({ tool }) => REPLACING_TOOLS.has(tool));
  const counted = ended.filter((call) => !REPLACING_TOOLS.has(call.tool) || call === lastReplacement);
  const sentences = [...new Set([...counted.flatMap(describeList), ...describeChanges(listChanges(ended))])];
  return sentences.length > 1 ? sentences.filter((sentence) => sentence !== LOOKED) : sentences;
}

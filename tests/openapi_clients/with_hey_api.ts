// A program with the client that @hey-api/openapi-ts generates. The compiler checks that every union narrows to nothing.
import { client } from "./hey_api/client.gen.js";
import { changeTodo, changeTodos, createGoal, createTodo, getGoal, getTodo, listAgents, listTodos } from "./hey_api/sdk.gen.js";
import type { Agent, BatchResult, Check, Todo, TodoStatus } from "./hey_api/types.gen.js";

declare const process: { argv: string[] };

const [baseUrl = "", auth = ""] = process.argv.slice(2);
client.setConfig({ baseUrl, auth });

function never(value: never): never {
  throw new Error(`unexpected: ${JSON.stringify(value)}`);
}

function describeCheck(check: Check): string {
  switch (check.kind) {
    case "command":
      return `${check.run} ends with ${check.exit ?? 0}`;
    case "file":
      return check.path;
    case "http":
      return check.url;
    case "outcome":
      return "the outcome";
    case "tool":
      return check.name;
    case "judge":
      return check.rubric;
    default:
      return never(check);
  }
}

function describeRow(row: BatchResult["results"][number]): string {
  return row.ok ? row.todo.subject : row.error;
}

function describeResult(result: Agent["result"]): string {
  if (result === null) return "none";
  return typeof result === "string" ? result : result.summary;
}

function isOpen(status: TodoStatus): boolean {
  switch (status) {
    case "pending":
    case "in_progress":
      return true;
    case "completed":
    case "canceled":
      return false;
    default:
      return never(status);
  }
}

const checks: Check[] = [{ kind: "outcome", schema: { type: "string" } }];
const created = await createTodo({ body: { subject: "write", checks } });
if (!created.data || !("todo" in created.data)) throw new Error("one todo was sent");
const todo: Todo = created.data.todo;

const several = await createTodo({ body: { todos: [{ subject: "print" }, { subject: "read" }] } });
const others: Todo[] = several.data && "todos" in several.data ? several.data.todos : [];

const listed = await listTodos({ query: { limit: 2, status: todo.status } });
const changed = await changeTodo({ path: { todo_id: todo.id }, body: { status: "in_progress", checks: todo.checks } });
const batch = await changeTodos({ body: [{ id: todo.id, subject: "write twice" }, { id: 404, subject: "nothing" }] });
const goal = await createGoal({ body: { description: "Tidy the attic." } });
const read = await getGoal({ path: { goal_id: goal.data?.goal.id ?? 0 } });
const agents = await listAgents();
const missing = await getTodo({ path: { todo_id: 404 } });

console.log(
  JSON.stringify({
    checks: todo.checks.map(describeCheck),
    others: others.map((other) => other.subject),
    listed: listed.data?.todos.length,
    open: changed.data && isOpen(changed.data.todo.status),
    rows: batch.data?.results.map(describeRow).map((text) => text.slice(0, 11)),
    goal: read.data?.goal.description,
    agents: agents.data?.agents.map((agent) => typeof describeResult(agent.result)),
    error: missing.error?.code,
  }),
);

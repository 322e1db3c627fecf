// A program with the types that openapi-typescript generates. The compiler checks that every union narrows to nothing.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];

const [baseUrl = "", token = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

function never(value: never): never {
  throw new Error(`unexpected: ${JSON.stringify(value)}`);
}

function describeCheck(check: Schemas["Check"]): string {
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

function describeRow(row: Schemas["BatchResult"]["results"][number]): string {
  return row.ok ? row.todo.subject : row.error;
}

function describeResult(result: Schemas["Agent"]["result"]): string {
  if (result === null) return "none";
  return typeof result === "string" ? result : result.summary;
}

function isOpen(status: Schemas["TodoStatus"]): boolean {
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

const checks: Schemas["Check"][] = [{ kind: "outcome", schema: { type: "string" } }];
const created = await client.POST("/v1/todos", { body: { subject: "write", checks } });
if (!created.data || !("todo" in created.data)) throw new Error("one todo was sent");
const todo: Schemas["Todo"] = created.data.todo;

const several = await client.POST("/v1/todos", { body: { todos: [{ subject: "print" }, { subject: "read" }] } });
const others: Schemas["Todo"][] = several.data && "todos" in several.data ? several.data.todos : [];

const listed = await client.GET("/v1/todos", { params: { query: { limit: 2, status: todo.status } } });
const changed = await client.PATCH("/v1/todos/{todo_id}", {
  params: { path: { todo_id: todo.id } },
  body: { status: "in_progress", checks: todo.checks },
});
const batch = await client.PATCH("/v1/todos", { body: [{ id: todo.id, subject: "write twice" }, { id: 404, subject: "nothing" }] });
const goal = await client.POST("/v1/goals", { body: { description: "Tidy the attic." } });
const read = await client.GET("/v1/goals/{goal_id}", { params: { path: { goal_id: goal.data?.goal.id ?? 0 } } });
const agents = await client.GET("/v1/agents");
const missing = await client.GET("/v1/todos/{todo_id}", { params: { path: { todo_id: 404 } } });

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

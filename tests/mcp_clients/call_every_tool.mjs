// Calls every tool with the TypeScript SDK, which compares each result with the tool's output schema.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = JSON.parse(process.argv[2]);
const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command, args, cwd: process.argv[3] }));
const { tools } = await client.listTools();

const results = {};
const call = async (name, values = {}) => {
  const result = await client.callTool({ name, arguments: values });
  results[name] = result;
  return result.structuredContent;
};

await call("todo_add", { subject: "look", description: null });
await call("todo_list", { limit: 5, cursor: null });
await call("todo_ready");
const { todo, lease } = await call("todo_claim");
await call("todo_update", { id: todo.id, status: "completed", outcome: "seen", lease_token: lease.token });
const { created } = await call("create_todo", { items: [{ title: "a", context: null }, { title: "b" }] });
await call("list_todo", { status: null });
await call("start_todo", { todoId: created[0].id });
await call("complete_todo", { todoId: created[0].id, outcome: "done", startNext: true });
await call("manage_todos", { add: ["c"], delete: [] });
await call("write_todos", { todos: [{ content: "b" }] });
await call("TodoWrite", { todos: [{ content: "b", status: "in_progress" }] });
await call("update_plan", { plan: [{ step: "b", status: "completed" }] });
const task = await call("AddTask", { title: "t" });
await call("CompleteTask", { taskId: task.id });
await call("UncompleteTask", { taskId: task.id });
await call("ListTasks");
await call("DeleteTask", { taskId: task.id });
const refused = await client.callTool({ name: "start_todo", arguments: { todoId: "nothing" } });

console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results, refused }));
await client.close();

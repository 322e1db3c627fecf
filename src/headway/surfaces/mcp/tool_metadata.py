"""Metadata of tools for MCP clients, besides the arguments: a title, whether its calls are harmless, and the form of its results.

Only `hatch_build.py` and a test use this module.
"""

import json
from typing import Any, Final

from headway.agents.instructions.roles import READING_TOOLS, REMOTE_FAMILIES
from headway.agents.tools.catalogue import build_toolbox

TITLES: Final = {
    "create_todo": "Plan the task",
    "list_todo": "Show the plan",
    "start_todo": "Start a step",
    "complete_todo": "Complete a step",
    "manage_todos": "Manage the queue",
    "write_todos": "Replace the plan",
    "TodoWrite": "Replace the plan",
    "update_plan": "Replace the plan",
    "ListTasks": "List tasks",
    "AddTask": "Add a task",
    "CompleteTask": "Complete a task",
    "UncompleteTask": "Reopen a task",
    "DeleteTask": "Delete a task",
    "todo_add": "Add a todo",
    "todo_list": "List todos",
    "todo_update": "Update a todo",
    "todo_ready": "List ready todos",
    "todo_claim": "Claim a todo",
}
# Calling these again with the same arguments changes nothing more.
REPEATABLE: Final = frozenset(
    (*READING_TOOLS, "start_todo", "todo_update", "write_todos", "TodoWrite", "update_plan", "CompleteTask", "UncompleteTask")
)
DESTRUCTIVE: Final = frozenset(("DeleteTask",))  # todos are kept: they are completed or canceled

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
FLAG: Final = {"type": "boolean"}
OBJECT: Final = {"type": "object"}


def describe_object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def describe_list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TODO: Final = describe_object({"id": NUMBER, "subject": TEXT, "status": TEXT}, "id", "subject", "status")
STEP: Final = describe_object({"id": TEXT, "title": TEXT, "status": TEXT}, "id", "title")
TASK: Final = describe_object({"id": TEXT, "title": TEXT, "done": FLAG}, "id", "title")
CONTENT: Final = describe_object({"id": NUMBER, "content": TEXT, "status": TEXT}, "id", "content")
REPLACED_LIST: Final = describe_object({"todos": describe_list(CONTENT), "canceled": describe_list(CONTENT)})
TASK_RESULT: Final = describe_object({"ok": FLAG, "task": OBJECT})
# No field of a result is required, because a refusal has only `error`.
OUTPUT_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "create_todo": describe_object({"created": describe_list(STEP), "totalPending": NUMBER}),
    "list_todo": describe_object({"items": describe_list(STEP), "summary": OBJECT}),
    "start_todo": describe_object(STEP["properties"]),
    "complete_todo": describe_object({**STEP["properties"], "remaining": NUMBER, "started": OBJECT}),
    "manage_todos": describe_object({"success": FLAG, "state": OBJECT}),
    "write_todos": REPLACED_LIST,
    "TodoWrite": REPLACED_LIST,
    "update_plan": REPLACED_LIST,
    "ListTasks": describe_object({"tasks": describe_list(TASK)}),
    "AddTask": describe_object(TASK["properties"]),
    "CompleteTask": TASK_RESULT,
    "UncompleteTask": TASK_RESULT,
    "DeleteTask": describe_object({"ok": FLAG}),
    "todo_add": describe_object({"todo": TODO}),
    "todo_list": describe_object({"todos": describe_list(TODO), "next_cursor": TEXT}),
    "todo_update": describe_object({"todo": TODO}),
    "todo_ready": describe_object({"todos": describe_list(TODO)}),
    "todo_claim": describe_object({"todo": TODO, "lease": OBJECT}),
}


def describe_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool of the toolbox in the form of MCP."""
    name = tool["name"]
    annotations = {
        "readOnlyHint": name in READING_TOOLS,
        "destructiveHint": name in DESTRUCTIVE,
        **({"idempotentHint": True} if name in REPEATABLE else {}),
        "openWorldHint": False,
    }
    return {
        "name": name,
        "title": TITLES[name],
        "description": tool["description"],
        "inputSchema": mark_optional(tool["input_schema"]),
        "outputSchema": OUTPUT_SCHEMAS[name],
        "annotations": annotations,
    }


def mark_optional(schema: dict[str, Any]) -> dict[str, Any]:
    """Say of optional arguments that they may be null. Some clients, such as smolagents, do not look at `required`. What may be a
    number or text is text here, because a schema is nullable only beside a type."""
    required, properties = schema.get("required", ()), {}
    for name, argument in schema["properties"].items():
        kind = {"type": argument.get("type", "string"), "nullable": True}
        rest = {key: value for key, value in argument.items() if key != "anyOf"}
        properties[name] = argument if name in required else {**rest, **kind}
    return {**schema, "properties": properties}


def render_catalogue() -> str:
    """Return the content of catalogue.json."""
    tools = [describe_tool(tool) for tool in build_toolbox().only(REMOTE_FAMILIES).catalogue()]
    return json.dumps(tools, indent=1, ensure_ascii=False) + "\n"

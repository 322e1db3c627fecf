"""The offer of the MCP server: its tools, instructions, prompts and resource templates, as plain data.

Clients wait about a second for a new server, so `headway mcp` answers its first requests from this data. This module must not
import the MCP library or the model layer. `hatch_build.py` writes the descriptions of the tools.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway import __version__
from headway.ledger.errors import Invalid

CATALOGUE_FILE: Final = Path(__file__).with_name("catalogue.json")
TODO_URI_PREFIX: Final = "headway://todos/"
JSON_MEDIA_TYPE: Final = "application/json"
ALL_GROUPS: Final = "all"
DEFAULT_GROUPS: Final = "ledger,plan"
TOOL_GROUPS: Final = {
    "ledger": ("todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim"),
    "plan": ("create_todo", "list_todo", "start_todo", "complete_todo"),
    "tasks": ("ListTasks", "AddTask", "CompleteTask", "UncompleteTask", "DeleteTask"),
    "queue": ("manage_todos",),
    ALL_GROUPS: ("write_todos", "TodoWrite", "update_plan"),  # and the tools of the other groups
}
GROUP_INSTRUCTIONS: Final = {
    "ledger": (
        "Headway keeps a todo list that outlives this session. Add work with todo_add, list it with todo_list, mark progress with "
        "todo_update. todo_ready lists what can start now, and todo_claim takes the next of it."
    ),
    "plan": (
        "For the steps of the current task, call create_todo once with all of them, then start_todo and complete_todo for each. "
        "list_todo shows what is open, also after a restart."
    ),
    "tasks": "ListTasks, AddTask and CompleteTask keep a task list of this conversation.",
    "queue": "manage_todos uses the steps of the current task as a queue.",
    ALL_GROUPS: "write_todos, TodoWrite and update_plan replace all steps at once.",
}
PROMPTS: Final = [
    {
        "name": "plan",
        "title": "Plan and work",
        "description": "Plan an objective as todos and work through them",
        "arguments": [{"name": "objective", "description": "What to achieve", "required": True}],
    }
]
PLANNING_PROMPT: Final = """Plan and carry out this objective: {objective}

1. Break it into distinct steps and call create_todo once with all of them.
2. Work through them in order: start_todo, do it, complete_todo with the outcome.
3. Answer only when list_todo shows no open items; cancel unnecessary items with a reason.
Skip the plan if a single step is enough."""
RESOURCES: Final = [
    {
        "name": f"{name} todos",
        "uri": f"{TODO_URI_PREFIX}{name}",
        "title": title,
        "description": description,
        "mimeType": JSON_MEDIA_TYPE,
    }
    for name, title, description in (
        ("open", "Open todos", "Todos in progress or pending"),
        ("ready", "Ready todos", "Todos that can start now"),
    )
]
TEMPLATES: Final = [
    {
        "name": "todo",
        "uriTemplate": f"{TODO_URI_PREFIX}{{id}}",
        "title": "Todo",
        "description": "A todo by its id",
        "mimeType": JSON_MEDIA_TYPE,
    }
]
SERVER_INFO: Final = {"name": "headway", "title": "Headway", "version": __version__}


class ToolOffer(NamedTuple):
    """The part of the catalogue that a client gets."""

    groups: tuple[str, ...]

    @property
    def tools(self) -> list[dict[str, Any]]:
        names = {name for group in self.groups for name in TOOL_GROUPS[group]}
        return [tool for tool in load_catalogue() if tool["name"] in names]

    @property
    def instructions(self) -> str:
        return " ".join(GROUP_INSTRUCTIONS[group] for group in self.groups)

    @property
    def prompts(self) -> list[dict[str, Any]]:
        return PROMPTS if "plan" in self.groups else []  # its text names the tools of the plan

    def has_tool(self, name: str) -> bool:
        return any(name in TOOL_GROUPS[group] for group in self.groups)


def choose_offer(groups: str) -> ToolOffer:
    """Parse a list like `ledger,plan`. Raises Invalid."""
    chosen = {name.strip() for name in groups.split(",")}
    if unknown := sorted(chosen - TOOL_GROUPS.keys()):
        raise Invalid(f"There is no group of tools {unknown[0][:80]!r}. The groups are {', '.join(TOOL_GROUPS)}.")
    return ToolOffer(tuple(group for group in TOOL_GROUPS if group in chosen or ALL_GROUPS in chosen))


@cache
def load_catalogue() -> list[dict[str, Any]]:
    """Return all tools, in display order and in the form of MCP."""
    tools: list[dict[str, Any]] = json.loads(CATALOGUE_FILE.read_text(encoding="utf-8"))
    return tools


def describe_todo_resource(todo: dict[str, Any]) -> dict[str, Any]:
    name = f"todo {todo['id']}"
    return {"name": name, "uri": f"{TODO_URI_PREFIX}{todo['id']}", "title": todo["subject"], "mimeType": JSON_MEDIA_TYPE}

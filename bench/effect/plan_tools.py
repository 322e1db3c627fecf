"""How the simulated model uses tools for plans, whatever framework they come from: it fills their schema."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

PLAN_TOOL: Final = re.compile(r"create_todo|write_todos|TodoWrite|update_plan|submit_\w*plan")
FILE_TOOLS: Final = frozenset(("read_file", "write_file", "edit_file"))
OPEN_LINE: Final = re.compile(r"^\W*#?([\w-]+)\W+\[(?:pending|in_progress|open)\]\s*(.+)$", re.MULTILINE)
ID_NAMES: Final = ("id", "todoId")
TITLE_NAMES: Final = ("title", "subject", "content", "description")
STATUSES: Final = ("pending", "completed")


class Demand(NamedTuple):
    """An answer that must have a form: the arguments of a tool, or the whole answer."""

    schema: dict[str, Any]
    tool: str = ""


def find_plan_tool(tools: dict[str, dict[str, Any]]) -> str:
    return next((name for name in tools if PLAN_TOOL.fullmatch(name)), "")


def demand_plan(tools: dict[str, dict[str, Any]], schema: dict[str, Any] | None) -> Demand | None:
    """Return what the request demands, if it asks for a form and offers no files to work on."""
    if schema and not tools:
        return Demand(schema)
    if tools and not FILE_TOOLS & tools.keys():
        tool = next((name for name in tools if name.startswith("submit") or find_list(tools[name])), "")
        return Demand(tools[tool], tool) if tool else None
    return None


def find_list(schema: dict[str, Any]) -> str:
    """Return the first property that is a list: that of the items."""
    return next((name for name, value in schema.get("properties", {}).items() if value.get("type") == "array"), "")


def fill_plan(schema: dict[str, Any], items: Sequence[tuple[str, bool]]) -> dict[str, Any]:
    """Fill a schema with one entry per item, as (words, whether it is done)."""
    place = find_list(schema)
    if not place:
        return {name: fill_field(name, value, "; ".join(words for words, _ in items), 1) for name, value in list_required(schema)}
    inner = resolve(schema, schema["properties"][place].get("items", {}))
    return {place: [fill_entry(inner, words, number, is_done=is_done) for number, (words, is_done) in enumerate(items, 1)]}


def fill_entry(schema: dict[str, Any], words: str, number: int, *, is_done: bool) -> Any:
    if schema.get("type") == "string":
        return words
    properties = schema.get("properties", {})
    wanted = [*schema.get("required", ()), *(name for name in (*TITLE_NAMES, "id", "expected_outcome") if name in properties)]
    entry = {name: fill_field(name, properties[name], words, number) for name in dict.fromkeys(wanted)}
    if "status" in properties:
        entry["status"] = STATUSES[is_done]
    return entry


def fill_field(name: str, schema: dict[str, Any], words: str, number: int) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "array":
            return []
        case "object":
            return {}
    return f"item-{number}" if name == "id" else words


def list_required(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    properties = schema.get("properties", {})
    return [(name, properties[name]) for name in schema.get("required", ()) if name in properties]


def resolve(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    reference = value.get("$ref", "").rpartition("/")[2]
    resolved: dict[str, Any] = schema.get("$defs", {}).get(reference, value)
    return resolved


def fill_outcome(words: str, *, is_success: bool) -> dict[str, Any]:
    return {"summary": words, "success": is_success}


def find_open_todos(texts: Sequence[str]) -> dict[str, str]:
    """Return the open todos that a context shows, as {id: words}: lines with a status, and the results of tools as JSON."""
    todos: dict[str, str] = {}
    for text in texts:
        todos |= dict(OPEN_LINE.findall(text))
        for entry in list_entries(text):
            number = next((entry[name] for name in ID_NAMES if name in entry), None)
            title = next((entry[name] for name in TITLE_NAMES if isinstance(entry.get(name), str)), "")
            if number is not None and title and entry.get("status", "pending") in ("pending", "in_progress"):
                todos[str(number)] = title
    return todos


def list_entries(text: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a JSON document."""
    try:
        document = json.loads(text) if text.startswith(("{", "[")) else None
    except ValueError:
        return []
    values = document.values() if isinstance(document, dict) else [document]
    return [entry for value in values if isinstance(value, list) for entry in value if isinstance(entry, dict)]

"""Gives the copied messages of a fork the numbers of the copied todos, where the runtime and the tools have written them.

Numbers in free text, of people or of models, are left as they are. A fork knows its todos by these numbers, too.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from headway.ledger.events import to_json
from headway.ledger.todo import PlanDigest

# An item as the runtime shows it: 14 [pending] buy milk
SHOWN_ITEM: Final = re.compile(r"(?<![\w.])(\d{1,19})(?= \[(?:pending|in_progress|completed|canceled)\] )")
ID_KEYS: Final = frozenset(("id", "todoId"))
ID_LIST_KEYS: Final = frozenset(("delete", "depends_on"))
DELEGATE: Final = "delegate"
TODO_TOOLS: Final = frozenset(
    (
        *("create_todo", "list_todo", "complete_todo", "start_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
        *("todo_add", "todo_update", "todo_list", "todo_ready", "todo_claim"),
    )
)


def renumber_messages(stored: list[str], numbers: Mapping[str, int], plan: PlanDigest) -> list[str]:
    """Rewrite the messages of one run. The last one that shows the whole plan gets the digest of the copied plan."""
    renumbering = Renumbering(numbers)
    messages = [renumbering.rewrite(json.loads(message)[0]) for message in stored]
    shown = [facts for message in messages if "plan_digest" in (facts := (message.get("metadata") or {}).get("headway") or {})]
    if shown:
        shown[-1] |= {"plan_digest": plan.plan, "item_digests": plan.items}
    return [to_json([message]) for message in messages]


class Renumbering:
    """Rewrites the messages of one run, in order."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers  # of the copies, by the numbers and UUIDs of the originals
        self.todo_calls: set[str] = set()  # the ids of calls whose results name todos

    def rewrite(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message with the new numbers."""
        facts = (message.get("metadata") or {}).get("headway")
        for part in message["parts"]:
            match part["part_kind"]:
                case "tool-call":
                    self.rewrite_call(part)
                case "tool-return" if part["tool_call_id"] in self.todo_calls and isinstance(part["content"], str):
                    part["content"] = self.rewrite_result(part["content"])
                case "user-prompt" if facts is not None and isinstance(part["content"], str):
                    part["content"] = self.rewrite_text(part["content"])
        if facts and "plan" in facts:
            facts["plan"] = [{**item, "id": str(self.find(item["id"]))} for item in facts["plan"]]
            facts["item_digests"] = {str(self.find(name)): digest for name, digest in facts.get("item_digests", {}).items()}
        return message

    def rewrite_call(self, part: dict[str, Any]) -> None:
        arguments = part.get("args")
        try:
            values = json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments
        except ValueError:
            return  # the model wrote no valid JSON
        if not isinstance(values, dict):
            return
        name = values.get("name") if part["tool_name"] == "use_tool" else part["tool_name"]
        if name in TODO_TOOLS or name == DELEGATE:
            values = self.rewrite_value(values)
            part["args"] = encode_like(arguments, values) if isinstance(arguments, str) else values
        if name in TODO_TOOLS:
            self.todo_calls.add(part["tool_call_id"])

    def rewrite_result(self, content: str) -> str:
        try:
            return json.dumps(self.rewrite_value(json.loads(content)), ensure_ascii=False)
        except ValueError:
            return self.rewrite_text(content)

    def rewrite_value(self, value: Any, key: str = "") -> Any:
        """Rewrite the numbers in a JSON value: those of the keys that hold ids, and those of shown items."""
        match value:
            case dict():
                return {name: self.rewrite_value(member, name) for name, member in value.items()}
            case list():
                return [self.rewrite_value(member, "id" if key in ID_LIST_KEYS else "") for member in value]
            case int() if key in ID_KEYS and not isinstance(value, bool):
                return self.find(value)
            case str() if key in ID_KEYS:
                return str(self.find(value))
            case str():
                return self.rewrite_text(value)
        return value

    def rewrite_text(self, text: str) -> str:
        return SHOWN_ITEM.sub(lambda match: str(self.find(match[1])), text)

    def find(self, name: Any) -> Any:
        return self.numbers.get(str(name).removeprefix("#"), name)


def encode_like(original: str, values: dict[str, Any]) -> str:
    """Encode arguments with or without spaces, as the model did."""
    separators = None if '": ' in original else (",", ":")
    return json.dumps(values, ensure_ascii=False, separators=separators)

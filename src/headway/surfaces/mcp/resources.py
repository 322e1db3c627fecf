"""Todos as MCP resources and short results. `headway mcp` answers with them before the MCP library is loaded."""

import json
from typing import TYPE_CHECKING, Any, Final

from headway.actions.todos import todo_lists, todos
from headway.ledger.errors import NotFound
from headway.ledger.parsing.todo_fields import DEFAULT_PRIORITY
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import OPEN_STATUSES
from headway.storage.transaction import Transaction
from headway.surfaces.mcp.offer import RESOURCES, TODO_URI_PREFIX, describe_todo_resource

if TYPE_CHECKING:
    from headway.agents.tools.toolbox import Result

# Lists are in order, and a model has no use for the rest.
UNNEEDED_FIELDS: Final = frozenset(("position", "turn_id", "updated_at"))
UNSAID: Final = frozenset((("proof", "none"), DEFAULT_PRIORITY))
VERBATIM: Final = "checks"  # a zero in a check was written by somebody


def compact_result(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out nulls, zeros and empty texts. The result's own lists and numbers stay: an empty list says that there is nothing."""
    return {
        name: compact_value(value)
        for name, value in result.items()
        if value is not None and value != "" and name not in UNNEEDED_FIELDS
    }


def compact_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [compact_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {
        name: member if name == VERBATIM else compact_value(member) for name, member in value.items() if name not in UNNEEDED_FIELDS
    }
    return {name: member for name, member in fields.items() if (member or member is False) and not is_unsaid(name, member)}


def is_unsaid(name: str, member: Any) -> bool:
    return isinstance(member, str) and (name, member) in UNSAID


def build_call_result(result: "Result") -> dict[str, Any]:
    """Return a tool's result as structured content and as text, for clients that read only text."""
    value = compact_result(result.value) if isinstance(result.value, dict) else None
    text = result.as_text if value is None else encode_text(value)
    structured = {} if value is None else {"structuredContent": value}
    return {"content": [{"text": text, "type": "text"}], "isError": result.is_error, **structured}


def encode_text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# The todos as MCP resources. `headway mcp` lists them before the MCP library is loaded, so nothing here imports it.


PAGE_LENGTH: Final = 50
LISTS: Final = frozenset(("open", "ready"))


def list_resources(tx: Transaction, scope: Scope, cursor: str | None = None) -> dict[str, Any]:
    """List a page of the resources: the lists, then each open todo. Raises BadCursor."""
    selection = Selection(scope.conversation_id or None, statuses=OPEN_STATUSES)
    page = todo_lists.list_todos(tx, scope.tenant_id, selection, PAGE_LENGTH, cursor)
    resources = [*(() if cursor else RESOURCES), *(describe_todo_resource(todo.as_json()) for todo in page.todos)]
    return {"resources": resources, **({"nextCursor": page.next_cursor} if page.next_cursor else {})}


def load_resource(tx: Transaction, scope: Scope, uri: str) -> dict[str, Any]:
    """Return the content of a resource, or raise NotFound."""
    name = find_name(uri)
    conversation_id = scope.conversation_id or None
    if name == "open":
        page = todo_lists.list_todos(tx, scope.tenant_id, Selection(conversation_id, statuses=OPEN_STATUSES), 100)
        return compact_result({"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor})
    if name == "ready":
        ready_todos = todo_lists.list_ready_todos(tx, scope.tenant_id, conversation_id, 100)
        return compact_result({"todos": [todo.as_json() for todo in ready_todos]})
    return compact_result({"todo": todos.get_todo(tx, scope.tenant_id, int(name)).as_json()})


def find_name(uri: str) -> str:
    """Return the name of a list or the number of a todo. Raises NotFound for a URI that is not ours."""
    name = uri.removeprefix(TODO_URI_PREFIX)
    is_number = name.isascii() and name.isdigit() and len(name) <= 18
    if not uri.startswith(TODO_URI_PREFIX) or not (name in LISTS or is_number):
        raise NotFound(f"There is no resource {uri[:120]!r}.")
    return name

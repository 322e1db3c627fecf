"""The todos as MCP resources. `headway mcp` lists them before the MCP library is loaded, so nothing here imports it."""

from typing import Any, Final

from headway.actions import todos, views
from headway.ledger.errors import NotFound
from headway.ledger.scope import Scope, Selection
from headway.ledger.todo import OPEN_STATUSES
from headway.storage.transaction import Transaction
from headway.surfaces.mcp.compact_results import compact_result
from headway.surfaces.mcp.offer import RESOURCES, TODO_URI_PREFIX, describe_todo_resource

PAGE_LENGTH: Final = 50
LISTS: Final = frozenset(("open", "ready"))


def list_resources(tx: Transaction, scope: Scope, cursor: str | None = None) -> dict[str, Any]:
    """List a page of the resources: the lists, then each open todo. Raises BadCursor."""
    selection = Selection(scope.conversation_id or None, statuses=OPEN_STATUSES)
    page = views.list_todos(tx, scope.tenant_id, selection, PAGE_LENGTH, cursor)
    resources = [*(() if cursor else RESOURCES), *(describe_todo_resource(todo.as_json()) for todo in page.todos)]
    return {"resources": resources, **({"nextCursor": page.next_cursor} if page.next_cursor else {})}


def load_resource(tx: Transaction, scope: Scope, uri: str) -> dict[str, Any]:
    """Return the content of a resource, or raise NotFound."""
    name = find_name(uri)
    conversation_id = scope.conversation_id or None
    if name == "open":
        page = views.list_todos(tx, scope.tenant_id, Selection(conversation_id, statuses=OPEN_STATUSES), 100)
        return compact_result({"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor})
    if name == "ready":
        ready_todos = views.list_ready(tx, scope.tenant_id, conversation_id, 100)
        return compact_result({"todos": [todo.as_json() for todo in ready_todos]})
    return compact_result({"todo": todos.get(tx, scope.tenant_id, int(name)).as_json()})


def find_name(uri: str) -> str:
    """Return the name of a list or the number of a todo. Raises NotFound for a URI that is not ours."""
    name = uri.removeprefix(TODO_URI_PREFIX)
    is_number = name.isascii() and name.isdigit() and len(name) <= 18
    if not uri.startswith(TODO_URI_PREFIX) or not (name in LISTS or is_number):
        raise NotFound(f"There is no resource {uri[:120]!r}.")
    return name

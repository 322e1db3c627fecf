"""Lists of todos, read straight from queries."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.actions.todos import finding
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.scope import Selection
from headway.ledger.todo import STATUSES, Status, Todo
from headway.ledger.wording import parse_words
from headway.storage.stores import todo_pages
from headway.storage.stores.todo_pages import TodoListPage
from headway.storage.stores.todos import IDS_PER_QUERY
from headway.storage.transaction import Transaction

PAGE_LIMIT = 500


class TodoListView(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None
    counts: dict[Status, int]


def list_todos(tx: Transaction, tenant_id: int, selection: Selection, limit: int = 50, cursor: str | None = None) -> TodoListPage:
    check_selection(tx, tenant_id, selection)
    check_limit(limit)
    if is_contradictory(tx, tenant_id, selection):
        return TodoListPage([], None)
    return todo_pages.list_todo_page(tx, tenant_id, selection, limit, cursor)


def search_todos(
    tx: Transaction, tenant_id: int, selection: Selection, query: str, limit: int = 50, cursor: str | None = None
) -> TodoListPage:
    """List the selected todos that contain every word of the query, in any case; without one, all selected todos."""
    words = parse_words(query)
    if not words:
        return list_todos(tx, tenant_id, selection, limit, cursor)
    check_selection(tx, tenant_id, selection)
    if is_contradictory(tx, tenant_id, selection):
        return TodoListPage([], None)
    return todo_pages.search_page(tx, tenant_id, selection, words, check_limit(limit), cursor)


def list_open_dependencies(tx: Transaction, tenant_id: int, todos: Sequence[Todo]) -> list[int]:
    """Return the ids of the todos that the open ones among these wait for."""
    waited_for = sorted({todo_id for todo in todos if todo.depends_on and not todo.ended for todo_id in todo.depends_on})
    starts = range(0, len(waited_for), IDS_PER_QUERY)
    return [one for at in starts for one in todo_pages.list_open_ids(tx, tenant_id, waited_for[at : at + IDS_PER_QUERY])]


def count_todos(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Count the selected todos by status."""
    check_selection(tx, tenant_id, selection)
    if is_contradictory(tx, tenant_id, selection):
        return dict.fromkeys(STATUSES, 0)
    if selection.is_list:
        return todo_pages.count_by_status(tx, tenant_id, selection)
    return todo_pages.count_rows_by_status(tx, tenant_id, selection)


def is_contradictory(tx: Transaction, tenant_id: int, selection: Selection) -> bool:
    """Whether the selection names a turn that is not in the conversation it names, so that nothing can match."""
    if selection.turn_id is None or selection.conversation_id is None:
        return False
    return finding.get_turn(tx, tenant_id, selection.turn_id).conversation_id != selection.conversation_id


def get_todo_list(tx: Transaction, tenant_id: int, selection: Selection, limit: int) -> TodoListView:
    """Return up to `limit` todos with the counts of the whole list, all from one snapshot."""
    page = list_todos(tx, tenant_id, selection, min(limit, PAGE_LIMIT))
    rows, cursor = page.todos, page.next_cursor
    while cursor and len(rows) < limit:
        page = todo_pages.list_todo_page(tx, tenant_id, selection, min(limit - len(rows), PAGE_LIMIT), cursor)
        rows, cursor = rows + page.todos, page.next_cursor
    return TodoListView(rows, cursor, todo_pages.count_by_status(tx, tenant_id, selection))


def count_all_todos(tx: Transaction) -> dict[Status, int]:
    """Count todos by status across all tenants, for the operator."""
    return todo_pages.count_all_by_status(tx)


def list_ready_todos(tx: Transaction, tenant_id: int, conversation_id: int | None = None, limit: int = 50) -> list[Todo]:
    check_selection(tx, tenant_id, Selection(conversation_id))
    return todo_pages.list_ready_todos(tx, tenant_id, conversation_id, check_limit(limit))


def check_selection(tx: Transaction, tenant_id: int, selection: Selection) -> None:
    """Raise an error if the selected conversation or turn does not exist, instead of showing an empty list."""
    if selection.conversation_id:
        finding.get_conversation(tx, tenant_id, selection.conversation_id)
    if selection.turn_id is not None:
        finding.get_turn(tx, tenant_id, selection.turn_id)
    if selection.agent_id is not None:
        text.check_name(selection.agent_id, "agent_id")


def check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_LIMIT:
        raise Invalid(f"limit must be between 1 and {PAGE_LIMIT}.")
    return limit

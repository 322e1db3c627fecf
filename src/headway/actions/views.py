"""Reads: what a surface shows, straight from queries."""

from typing import NamedTuple

from headway.actions import conversations
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.scope import Selection
from headway.ledger.tenancy import Conversation
from headway.ledger.todo import Status, Todo
from headway.storage import conversation_store, todo_pages
from headway.storage.todo_pages import Page
from headway.storage.transaction import Transaction

PAGE_LIMIT = 500


class TodoList(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None
    counts: dict[Status, int]


def todos(tx: Transaction, tenant_id: int, selection: Selection, limit: int = 50, cursor: str | None = None) -> Page:
    check_selection(tx, tenant_id, selection)
    check_limit(limit)
    if shuts_out(tx, tenant_id, selection):
        return Page([], None)
    return todo_pages.page(tx, tenant_id, selection, limit, cursor)


def shuts_out(tx: Transaction, tenant_id: int, selection: Selection) -> bool:
    """Filters narrow each other down: whether the turn asked for is not in the conversation asked for."""
    if selection.turn_id is None or selection.conversation_id is None:
        return False
    return conversations.get_turn(tx, tenant_id, selection.turn_id).conversation_id != selection.conversation_id


def todo_list(tx: Transaction, tenant_id: int, selection: Selection, limit: int) -> TodoList:
    """As much of the list as asked for, with the counts of the whole, as of one moment."""
    page = todos(tx, tenant_id, selection, min(limit, PAGE_LIMIT))
    found, cursor = page.todos, page.next_cursor
    while cursor and len(found) < limit:
        page = todo_pages.page(tx, tenant_id, selection, min(limit - len(found), PAGE_LIMIT), cursor)
        found, cursor = found + page.todos, page.next_cursor
    return TodoList(found, cursor, todo_pages.counts(tx, tenant_id, selection))


def ready(tx: Transaction, tenant_id: int, conversation_id: int | None = None, limit: int = 50) -> list[Todo]:
    check_selection(tx, tenant_id, Selection(conversation_id))
    return todo_pages.ready(tx, tenant_id, conversation_id, check_limit(limit))


def conversation_page(tx: Transaction, tenant_id: int, limit: int = 50, before: int = text.MAX_INTEGER) -> list[Conversation]:
    return conversation_store.page(tx, tenant_id, before, check_limit(limit))


def check_selection(tx: Transaction, tenant_id: int, selection: Selection) -> None:
    """A list that does not exist is not an empty list."""
    if selection.conversation_id:
        conversations.get(tx, tenant_id, selection.conversation_id)
    if selection.turn_id is not None:
        conversations.get_turn(tx, tenant_id, selection.turn_id)
    if selection.agent_id is not None:
        text.name(selection.agent_id, "agent_id")


def check_limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_LIMIT:
        raise Invalid(f"limit must be between 1 and {PAGE_LIMIT}.")
    return limit

"""Paged lists of todos: in progress, then pending by position, then ended by most recent.

Each part of a list is read in order through an index, with a limit, so a page costs the same in a list of twenty and in one of a
hundred thousand.
"""

from functools import cache
from typing import Any, NamedTuple

from headway.ledger.cursors import CursorCodec
from headway.ledger.scope import TENANT_WIDE, Selection
from headway.ledger.todo import STATUSES, Status, Todo
from headway.storage.stores.todos import COLUMNS, load_todo
from headway.storage.transaction import Transaction

CURSORS = CursorCodec("todos", (0, 0, 0))  # the part of the list, the sort key in it and the id


class TodoListPage(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None


class SelectedLists(NamedTuple):
    """The lists that a selection covers, the conversation's own first: the columns that select rows, and each list's values."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


class ListPart(NamedTuple):
    """One part of a list: the queries that read it from its start or from a cursor, and the lists it covers. Ended rows of several
    lists are merged by time."""

    from_start: str
    from_cursor: str
    lists: tuple[int, ...]


def select_lists(tenant_id: int, selection: Selection) -> SelectedLists:
    columns_or_none = {"tenant_id": tenant_id, "turn_id": selection.turn_id, "agent_id": selection.agent_id}
    if selection.turn_id is None:  # a turn already identifies its list
        columns_or_none["conversation_id"] = selection.conversation_id
    filters = {column: value for column, value in columns_or_none.items() if value is not None}
    columns, values = tuple(filters), tuple(filters.values())
    return SelectedLists(columns, (values, (*values[:-1], TENANT_WIDE)) if filters.get("conversation_id") else (values,))


@cache
def build_parts(columns: tuple[str, ...], lists: int, statuses: tuple[Status, ...]) -> list[ListPart]:
    """Build the queries for a selection of this shape. There are few shapes, so the results are cached."""
    where = " AND ".join(f"{column} = ?" for column in columns)
    parts = [
        build_open_part(where, status, list_index)
        for status in ("in_progress", "pending")
        if status in statuses
        for list_index in range(lists)
    ]
    ended = [status for status in ("completed", "canceled") if status in statuses]
    if len(ended) == 1:
        where += f" AND status = '{ended[0]}'"
    return [*parts, build_ended_part(where, tuple(range(lists)))] if ended else parts


def build_open_part(where: str, status: Status, list_index: int) -> ListPart:
    select = f"SELECT {COLUMNS} FROM todos WHERE {where} AND completed_at = 0 AND status = '{status}'"
    order = "ORDER BY position, id LIMIT ?"
    return ListPart(f"{select} {order}", f"{select} AND (position, id) > (?, ?) {order}", (list_index,))


def build_ended_part(where: str, lists: tuple[int, ...]) -> ListPart:
    select = f"SELECT {COLUMNS} FROM todos WHERE {where} AND completed_at <> 0"
    order = "ORDER BY completed_at DESC, id DESC LIMIT ?"
    return ListPart(f"{select} {order}", f"{select} AND (completed_at, id) < (?, ?) {order}", lists)


def list_page(tx: Transaction, tenant_id: int, selection: Selection, limit: int, cursor: str | None = None) -> TodoListPage:
    columns, lists = select_lists(tenant_id, selection)
    statuses = tuple(status for status in STATUSES if status in selection.statuses) if selection.statuses else STATUSES
    parts = build_parts(columns, len(lists), statuses)
    first_part, *last_keys = CURSORS.decode(cursor)
    todos: list[Todo] = []
    last_part = 0
    for number in range(first_part, len(parts)):
        after = last_keys if cursor and number == first_part else None
        room = limit - len(todos)
        rows = read_part(tx, parts[number], lists, room + 1, after)  # one more, to see whether there is a next page
        if rows and room:
            last_part = number
        todos += rows[:room]
        if len(rows) > room:
            last = todos[-1]
            sort_key = last.completed_at if last.ended else last.position
            return TodoListPage(todos, CURSORS.encode((last_part, sort_key, last.id)))
    return TodoListPage(todos, None)


def read_part(
    tx: Transaction, part: ListPart, lists: tuple[tuple[Any, ...], ...], limit: int, after: list[int] | None
) -> list[Todo]:
    todos: list[Todo] = []
    for list_index in part.lists:
        rows = (
            tx.all(part.from_cursor, *lists[list_index], *after, limit)
            if after
            else tx.all(part.from_start, *lists[list_index], limit)
        )
        todos += map(load_todo, rows)
    if len(part.lists) > 1:
        todos.sort(key=lambda todo: (-todo.completed_at, -todo.id))
    return todos[:limit]


@cache
def build_ready_sql(columns: tuple[str, ...]) -> str:
    where = " AND ".join(f"{column} = ?" for column in columns)
    return f"""SELECT {COLUMNS} FROM todos WHERE {where} AND status = 'pending' AND blocked_by = 0 AND turn_id IS NULL
        ORDER BY position, id LIMIT ?"""


def list_ready(tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int) -> list[Todo]:
    """List todos that can start, in order: pending, without open dependencies and not part of a turn's plan."""
    columns, lists = select_lists(tenant_id, Selection(conversation_id))
    todos: list[Todo] = []
    for values in lists:
        todos += map(load_todo, tx.all(build_ready_sql(columns), *values, limit - len(todos)))
    return todos


def count_by_status(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Count todos by status, from the stored counters."""
    where, values = "tenant_id = ?", list[Any]((tenant_id,))
    if selection.turn_id is not None:
        # Todo lists are indexed by conversation; without it, all lists of the tenant would be scanned.
        where += " AND conversation_id = (SELECT conversation_id FROM turns WHERE tenant_id = ? AND id = ?) AND turn_id = ?"
        values += [tenant_id, selection.turn_id, selection.turn_id]
    elif selection.conversation_id is not None:
        where, values = where + " AND conversation_id IN (?, ?)", [*values, selection.conversation_id, TENANT_WIDE]
    row = tx.one(f"SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists WHERE {where}", *values)
    assert row is not None
    return {status: int(n or 0) for status, n in zip(STATUSES, row, strict=True)}


def count_all_by_status(tx: Transaction) -> dict[Status, int]:
    """Count todos by status across all tenants, for the operator."""
    row = tx.one("SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists")
    assert row is not None
    return {status: int(n or 0) for status, n in zip(STATUSES, row, strict=True)}

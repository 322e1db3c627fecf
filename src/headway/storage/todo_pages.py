"""Lists of todos: in progress, then pending by position, then ended by most recent, a page at a time.

Every part of a list is read through an index that already has its order, with a limit, so a page costs the same
in a list of twenty and in one of a hundred thousand.
"""

import base64
import binascii
import heapq
import json
from itertools import islice
from typing import Any, NamedTuple

from headway.ledger.errors import BadCursor
from headway.ledger.scope import TENANT_WIDE, Selection
from headway.ledger.text import MAX_INTEGER
from headway.ledger.todo import STATUSES, Status, Todo
from headway.storage.todo_store import COLUMNS, from_row
from headway.storage.transaction import Transaction


class Page(NamedTuple):
    todos: list[Todo]
    next_cursor: str | None


class Place(NamedTuple):
    """Where a page ended: in which part of the list, at which sort key, at which id."""

    part: int
    key: int
    id: int


class Part(NamedTuple):
    """A stretch of the list that one kind of query reads. Ended rows of several lists are merged by time."""

    status: Status | None  # None: everything that has ended
    conversations: tuple[int | None, ...]


def parts_of(selection: Selection) -> list[Part]:
    wanted = selection.statuses or STATUSES
    lists: tuple[int | None, ...] = (selection.conversation_id,)
    if selection.conversation_id:
        lists = (selection.conversation_id, TENANT_WIDE)  # a conversation's own rows come first
    if selection.turn_id is not None:
        lists = (None,)  # a turn names its list by itself
    ended = [status for status in wanted if status in ("completed", "canceled")]
    parts = [Part(status, (one,)) for status in ("in_progress", "pending") if status in wanted for one in lists]
    if ended:
        parts.append(Part(ended[0] if len(ended) == 1 else None, lists))
    return parts


def page(tx: Transaction, tenant_id: int, selection: Selection, limit: int, cursor: str | None = None) -> Page:
    parts = parts_of(selection)
    start = decode(cursor, len(parts)) if cursor else None
    todos: list[Todo] = []
    last: Place | None = None
    wanted = limit + 1  # one more than asked for tells whether there is a next page
    for number in range(start.part if start else 0, len(parts)):
        after = start if start and start.part == number else None
        for todo in read_part(tx, tenant_id, selection, parts[number], wanted - len(todos), after):
            if len(todos) == limit:
                assert last is not None
                return Page(todos, encode(last))
            todos.append(todo)
            last = Place(number, todo.completed_at if todo.ended else todo.position, todo.id)
    return Page(todos, None)


def read_part(tx: Transaction, tenant_id: int, selection: Selection, part: Part, limit: int, after: Place | None) -> list[Todo]:
    ended = part.status not in ("pending", "in_progress")
    lists = [
        open_rows(tx, tenant_id, selection, part, conversation_id, limit, after)
        if not ended
        else ended_rows(tx, tenant_id, selection, part, conversation_id, limit, after)
        for conversation_id in part.conversations
    ]
    if len(lists) == 1:
        return lists[0]
    return list(islice(heapq.merge(*lists, key=lambda todo: (-todo.completed_at, -todo.id)), limit))


def open_rows(
    tx: Transaction,
    tenant_id: int,
    selection: Selection,
    part: Part,
    conversation_id: int | None,
    limit: int,
    after: Place | None,
) -> list[Todo]:
    where, values = conditions(tenant_id, selection, conversation_id)
    where += " AND completed_at = 0 AND status = ?"
    values.append(part.status)
    if after:
        where += " AND (position, id) > (?, ?)"
        values += [after.key, after.id]
    rows = tx.all(f"SELECT {COLUMNS} FROM todos WHERE {where} ORDER BY position, id LIMIT ?", *values, limit)
    return [from_row(row) for row in rows]


def ended_rows(
    tx: Transaction,
    tenant_id: int,
    selection: Selection,
    part: Part,
    conversation_id: int | None,
    limit: int,
    after: Place | None,
) -> list[Todo]:
    where, values = conditions(tenant_id, selection, conversation_id)
    where += " AND completed_at <> 0"
    if part.status:
        where += " AND status = ?"
        values.append(part.status)
    if after:
        where += " AND (completed_at, id) < (?, ?)"
        values += [after.key, after.id]
    rows = tx.all(f"SELECT {COLUMNS} FROM todos WHERE {where} ORDER BY completed_at DESC, id DESC LIMIT ?", *values, limit)
    return [from_row(row) for row in rows]


def conditions(tenant_id: int, selection: Selection, conversation_id: int | None) -> tuple[str, list[Any]]:
    where, values = "tenant_id = ?", list[Any]((tenant_id,))
    chosen = {"conversation_id": conversation_id, "turn_id": selection.turn_id, "agent_id": selection.agent_id}
    for column, value in chosen.items():
        if value is not None:
            where += f" AND {column} = ?"
            values.append(value)
    return where, values


def ready(tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int) -> list[Todo]:
    """Pending, not waiting for anything, not part of a turn's plan, in order."""
    lists: tuple[int | None, ...] = (conversation_id, TENANT_WIDE) if conversation_id else (conversation_id,)
    todos: list[Todo] = []
    for one in lists:
        where, values = conditions(tenant_id, Selection(), one)
        rows = tx.all(
            f"""SELECT {COLUMNS} FROM todos WHERE {where} AND status = 'pending' AND blocked_by = 0 AND turn_id IS NULL
                ORDER BY position, id LIMIT ?""",
            *values,
            limit - len(todos),
        )
        todos += [from_row(row) for row in rows]
    return todos


def counts(tx: Transaction, tenant_id: int, selection: Selection) -> dict[Status, int]:
    """Rows by status, from the kept counters."""
    where, values = "tenant_id = ?", list[Any]((tenant_id,))
    if selection.turn_id is not None:
        where, values = where + " AND turn_id = ?", [*values, selection.turn_id]
    elif selection.conversation_id is not None:
        where, values = where + " AND conversation_id IN (?, ?)", [*values, selection.conversation_id, TENANT_WIDE]
    row = tx.one(f"SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists WHERE {where}", *values)
    assert row is not None
    return {status: int(n or 0) for status, n in zip(STATUSES, row, strict=True)}


def encode(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str, parts: int) -> Place:
    try:
        fields = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = Place(*(int(field) for field in fields))
    except (ValueError, TypeError, binascii.Error, UnicodeError, RecursionError):
        raise BadCursor from None
    if not 0 <= place.part < parts or not all(-MAX_INTEGER <= number <= MAX_INTEGER for number in place):
        raise BadCursor
    return place

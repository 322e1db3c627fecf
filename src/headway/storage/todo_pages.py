"""Lists of todos: in progress, then pending by position, then ended by most recent, a page at a time.

Every part of a list is read through an index that already has its order, with a limit, so a page costs the same
in a list of twenty and in one of a hundred thousand.
"""

import base64
import binascii
import json
from functools import cache
from itertools import chain
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


class Conditions(NamedTuple):
    """Columns, and the values they must have."""

    columns: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    def plus(self, column: str, value: str | int | None) -> "Conditions":
        """One more, unless any value will do."""
        return self if value is None else Conditions((*self.columns, column), (*self.values, value))


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
    where = Conditions().plus("tenant_id", tenant_id).plus("turn_id", selection.turn_id).plus("agent_id", selection.agent_id)
    start = decode(cursor, len(parts)) if cursor else None
    todos: list[Todo] = []
    last_part = 0
    for number in range(start.part if start else 0, len(parts)):
        after = start if start and start.part == number else None
        room = limit - len(todos)
        found = read_part(tx, where, parts[number], room + 1, after)  # one more: is there a next page?
        if found and room:
            last_part = number
        todos += found[:room]
        if len(found) > room:
            last = todos[-1]
            return Page(todos, encode(Place(last_part, last.completed_at if last.ended else last.position, last.id)))
    return Page(todos, None)


def read_part(tx: Transaction, where: Conditions, part: Part, limit: int, after: Place | None) -> list[Todo]:
    lists = [read_list(tx, where, part.status, one, limit, after) for one in part.conversations]
    if len(lists) == 1:
        return lists[0]
    return sorted(chain.from_iterable(lists), key=lambda todo: (-todo.completed_at, -todo.id))[:limit]


def read_list(
    tx: Transaction, where: Conditions, status: Status | None, conversation_id: int | None, limit: int, after: Place | None
) -> list[Todo]:
    columns, values = where.plus("conversation_id", conversation_id).plus("status", status)
    if after:
        values = (*values, after.key, after.id)
    sql = open_sql if status in ("in_progress", "pending") else ended_sql
    return [from_row(row) for row in tx.all(sql(columns, after=after is not None), *values, limit)]


# There are few shapes of these queries: the text of each is put together once.


@cache
def open_sql(columns: tuple[str, ...], *, after: bool) -> str:
    rest = " AND (position, id) > (?, ?)" if after else ""
    return f"SELECT {COLUMNS} FROM todos WHERE {equal(columns)} AND completed_at = 0{rest} ORDER BY position, id LIMIT ?"


@cache
def ended_sql(columns: tuple[str, ...], *, after: bool) -> str:
    rest = " AND (completed_at, id) < (?, ?)" if after else ""
    return f"""SELECT {COLUMNS} FROM todos WHERE {equal(columns)} AND completed_at <> 0{rest}
        ORDER BY completed_at DESC, id DESC LIMIT ?"""


@cache
def ready_sql(columns: tuple[str, ...]) -> str:
    return f"""SELECT {COLUMNS} FROM todos WHERE {equal(columns)} AND status = 'pending' AND blocked_by = 0 AND turn_id IS NULL
        ORDER BY position, id LIMIT ?"""


def equal(columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{column} = ?" for column in columns)


def ready(tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int) -> list[Todo]:
    """Pending, not waiting for anything, not part of a turn's plan, in order."""
    lists: tuple[int | None, ...] = (conversation_id, TENANT_WIDE) if conversation_id else (conversation_id,)
    todos: list[Todo] = []
    for one in lists:
        columns, values = Conditions().plus("tenant_id", tenant_id).plus("conversation_id", one)
        rows = tx.all(ready_sql(columns), *values, limit - len(todos))
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


def all_counts(tx: Transaction) -> dict[Status, int]:
    """Rows by status over all tenants, for whoever runs the server."""
    row = tx.one("SELECT SUM(pending), SUM(in_progress), SUM(completed), SUM(canceled) FROM todo_lists")
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

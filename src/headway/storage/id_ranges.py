"""Ids for new rows. They come from ranges that belong to one tenant, so that a tenant's ids tell it nothing about the others.
Within a tenant they grow, and they are unique across tenants.

The first tenant that stores a kind of row gets the lowest range, and counts 1, 2, 3. All other ranges start at random places."""

import os
from functools import cache
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.storage import stored_bytes
from headway.storage.columns import Columns, ValueT
from headway.storage.stored_bytes import StatementRunner
from headway.storage.transaction import Query

NumberedKind = Literal[
    "comments",
    "conversations",
    "events",
    "goals",
    "guard_rules",
    "memory_entries",
    "messages",
    "notices",
    "receipts",
    "requests",
    "saved_views",
    "schedules",
    "steering",
    "sub_goals",
    "todos",
    "tokens",
]
RANGE_SIZE: Final = 1_000  # small, so that ids stay short: models and people write them
EVENT_RANGE_SIZE: Final = 1_000_000
SPREAD: Final = 1_000  # a new range is at most this many ranges above the last one


# The row stays locked until commit: on Postgres, transactions of one tenant that insert the same kind of row wait for each other.
TAKE = "UPDATE id_ranges SET next = next + ? WHERE tenant_id = ? AND kind = ? AND next + ? <= ends RETURNING next - ?"


def take(tx: StatementRunner, tenant_id: int, kind: NumberedKind, count: int = 1) -> int:
    """Return the first of `count` consecutive new ids. There may be at most as many as a range has."""
    query = build_take(tenant_id, kind, count)
    while (row := tx.one(query.sql, *query.parameters)) is None:
        open_range(tx, tenant_id, kind)
    return int(row[0])


def build_take(tenant_id: int, kind: NumberedKind, count: int) -> Query:
    """Build the statement that returns the first of `count` new ids. It returns nothing if the range has too few."""
    return Query(TAKE, (count, tenant_id, kind, count, count))


@cache
def build_insert(kind: NumberedKind, columns: Columns[Any], others: tuple[str, ...]) -> tuple[str, str]:
    """Build the statement that inserts a value with its id, and the one for Postgres that takes the id too, in one round trip."""
    names = ", ".join((*columns.names[1:], *others))
    marks = ", ".join("?" * (len(columns.names) - 1 + len(others)))
    plain = f"INSERT INTO {kind} (id, {names}) VALUES (?, {marks})"
    with_id = f"""WITH taken AS (
            UPDATE id_ranges SET next = next + 1 WHERE tenant_id = ? AND kind = '{kind}' AND next < ends RETURNING next - 1 AS id)
        INSERT INTO {kind} (id, {names}) SELECT taken.id, {marks} FROM taken RETURNING id"""
    return plain, with_id


def insert(
    tx: StatementRunner, tenant_id: int, kind: NumberedKind, columns: Columns[ValueT], value: ValueT, **others: Any
) -> ValueT:
    """Insert a value under a new id, and return it with that. `others` are columns that the value does not have."""
    if "tenant_id" not in columns.names:
        others["tenant_id"] = tenant_id
    plain, with_id = build_insert(kind, columns, tuple(others))
    values = (*columns.dump(value)[1:], *others.values())
    if tx.dialect.name == "sqlite":
        row_id = take(tx, tenant_id, kind)
        tx.run(plain, row_id, *values)
    else:
        while (row := tx.one(with_id, tenant_id, *values)) is None:
            open_range(tx, tenant_id, kind)
        row_id = int(row[0])
    return columns.value_class._make((row_id, *value[1:]))


TAKE_EVENTS = """UPDATE id_ranges SET next = next + ?, bytes = bytes + ?
    WHERE tenant_id = ? AND kind = 'events' AND next + ? <= ends RETURNING next - ?, bytes"""


class NewBytes(NamedTuple):
    """The bytes that a transaction stores for a tenant: in rows that it has written already, and in the events that follow."""

    rows: int = 0
    events: int = 0


def take_events(tx: StatementRunner, tenant_id: int, count: int, new: NewBytes) -> tuple[int, int]:
    """Return the first of `count` consecutive numbers of events, and how many bytes the tenant has stored, with the new ones."""
    while (row := tx.one(TAKE_EVENTS, count, sum(new), tenant_id, count, count)) is None:
        open_range(tx, tenant_id, "events", new.rows)
    return int(row[0]), int(row[1])


def open_range(tx: StatementRunner, tenant_id: int, kind: NumberedKind, new_bytes: int = 0) -> None:
    """Give the tenant a new range, above the one that it has used up."""
    size = EVENT_RANGE_SIZE if kind == "events" else RANGE_SIZE
    used = tx.one("SELECT next, ends FROM id_ranges WHERE tenant_id = ? AND kind = ?", tenant_id, kind)
    lowest = None if used else tx.one("UPDATE id_blocks SET taken = 1 WHERE kind = ? AND taken = 0 RETURNING block, next", kind)
    if lowest:
        block, first = map(int, lowest)
    else:
        block = take_block(tx, kind, used[1] // size - 1 if used else 0)
        first = block * size + 1
    if used:  # a transaction that has opened a range in the meantime keeps its own
        sql = "UPDATE id_ranges SET next = ?, ends = ? WHERE tenant_id = ? AND kind = ? AND next = ?"
        tx.run(sql, first, (block + 1) * size, tenant_id, kind, used[0])
    else:
        stored = stored_bytes.count(tx, tenant_id) - new_bytes if kind == "events" else 0
        sql = "INSERT INTO id_ranges (tenant_id, kind, next, ends, bytes) VALUES (?, ?, ?, ?, ?)"
        tx.run(sql, tenant_id, kind, first, (block + 1) * size, stored)


def take_block(tx: StatementRunner, kind: NumberedKind, above: int) -> int:
    """Reserve a random block that is above a given one."""
    spread = SPREAD
    while True:
        block = above + 1 + int.from_bytes(os.urandom(8)) % spread
        sql = "INSERT INTO id_blocks (kind, block, next, taken) VALUES (?, ?, 0, 1) ON CONFLICT DO NOTHING RETURNING block"
        if tx.one(sql, kind, block):
            return block
        spread *= 2


def adopt(tx: StatementRunner, tenant_id: int) -> None:
    """Continue the ranges of a tenant whose rows were copied from another database.

    Their blocks count as taken here. Another tenant may have the same block: ids are unique within a tenant, not between those that
    come from different databases.
    """
    for kind in get_args(NumberedKind):
        size = EVENT_RANGE_SIZE if kind == "events" else RANGE_SIZE
        own = tx.one("SELECT ends FROM id_ranges WHERE tenant_id = ? AND kind = ?", tenant_id, kind)
        if own:
            sql = """INSERT INTO id_blocks (kind, block, next, taken) VALUES (?, ?, 0, 1)
                ON CONFLICT (kind, block) DO UPDATE SET taken = 1"""
            tx.run(sql, kind, own[0] // size - 1)

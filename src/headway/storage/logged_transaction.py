"""A transaction that writes the log: ids in ranges per tenant, counted bytes, and events in the order of their commits."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

from headway.ledger.check import Author, ReceiptDraft
from headway.ledger.errors import HeadwayError
from headway.ledger.text import count_bytes
from headway.storage.columns import Columns, ValueT
from headway.storage.transaction import ALL_TENANTS, AgentRights, Dialect, DriftReader, ProcessState, Query, Row, Work, get_logger

if TYPE_CHECKING:
    from headway.ledger.events import Event


class StatementRunner(Protocol):
    """The part of a transaction that numbers ids and counts bytes. Transactions use both for their events."""

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None: ...

    def run(self, sql: str, *parameters: Any) -> None: ...

    @property
    def dialect(self) -> Any: ...


SUMS = (
    "SUM(octet_length(data)) FROM events WHERE tenant_id = ?",
    """SUM(octet_length(message)) FROM runs r JOIN transcript t ON t.tenant_id = r.tenant_id AND t.run_id = r.id
        WHERE r.tenant_id = ?""",
    """SUM(octet_length(e.arguments) + octet_length(e.result) + octet_length(e.images))
        FROM runs r JOIN effects e ON e.tenant_id = r.tenant_id AND e.run_id = r.id
        WHERE r.tenant_id = ? AND e.state NOT IN ('proposed', 'started')""",
    "SUM(octet_length(content)) FROM messages WHERE tenant_id = ?",
    "SUM(octet_length(data)) FROM attachments WHERE tenant_id = ?",
    "SUM(octet_length(context) + octet_length(client_tools)) FROM turns WHERE tenant_id = ?",
    "SUM(octet_length(text)) FROM memory_entries WHERE tenant_id = ?",
    "SUM(octet_length(data)) FROM file_versions WHERE tenant_id = ?",
    "SUM(octet_length(text)) FROM comments WHERE tenant_id = ?",
    "SUM(octet_length(name) + octet_length(filters)) FROM saved_views WHERE tenant_id = ?",
    "SUM(octet_length(folder) + octet_length(subject) + octet_length(checks)) FROM guard_rules WHERE tenant_id = ?",
    """SUM(octet_length(subject) + octet_length(description) + octet_length(completion_criteria)
        + octet_length(COALESCE(outcome, '')) + octet_length(checks)) FROM todos WHERE tenant_id = ?""",
)


def count(tx: StatementRunner, tenant_id: int) -> int:
    """Count by reading all rows of the tenant, which is where its running count begins."""
    sums = ", ".join(f"(SELECT {part})" for part in SUMS)
    return sum(int(number or 0) for number in tx.one(f"SELECT {sums}", *[tenant_id] * len(SUMS)) or ())


def add(tx: StatementRunner, tenant_id: int, number: int) -> None:
    """Add to the running count, for a change without an event."""
    tx.run("UPDATE id_ranges SET bytes = bytes + ? WHERE tenant_id = ? AND kind = 'events'", number, tenant_id)


# Ids for new rows. They come from ranges that belong to one tenant, so that a tenant's ids tell it nothing about the
# others. Within a tenant they grow, and they are unique across tenants.


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
        stored = count(tx, tenant_id) - new_bytes if kind == "events" else 0
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

    Their blocks count as taken here. Another tenant may have the same block: ids are unique within a tenant, not between tenants
    from different databases.
    """
    for kind in get_args(NumberedKind):
        size = EVENT_RANGE_SIZE if kind == "events" else RANGE_SIZE
        own = tx.one("SELECT ends FROM id_ranges WHERE tenant_id = ? AND kind = ?", tenant_id, kind)
        if own:
            sql = """INSERT INTO id_blocks (kind, block, next, taken) VALUES (?, ?, 0, 1)
                ON CONFLICT (kind, block) DO UPDATE SET taken = 1"""
            tx.run(sql, kind, own[0] // size - 1)


# The part of a transaction that both databases share: events collected until commit, and attempts that can be undone.


T = TypeVar("T")

EVENT_COLUMNS = "seq, tenant_id, conversation_id, turn_id, subject, actor, kind, data, at"
INSERT_EVENT = f"INSERT INTO events ({EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
ANOTHER_EVENT = ", (?, ?, ?, ?, ?, ?, ?, ?, ?)"
EVENTS_PER_INSERT = 32  # per statement; low enough that prepared statements of every length stay cached


@cache
def list_changed_tables(sql: str) -> list[str]:
    return re.findall(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", sql)


def is_read_statement(sql: str) -> bool:
    """Whether a statement certainly changes nothing."""
    return sql.startswith("SELECT")


class LoggedTransaction(ABC):
    """The part of a transaction that both databases share: events collected until commit, and attempts that can be undone."""

    __slots__ = (
        "_drift",
        "_drift_of",
        "actor",
        "agent",
        "author",
        "closing",
        "credential",
        "events",
        "now",
        "process",
        "read_only",
        "receipts",
        "stored",
        "unset",
        "visible",
        "writes",
    )

    dialect: Dialect

    def __init__(self, now: int, drift_of: DriftReader, process: ProcessState, *, read_only: bool) -> None:
        self.now = now
        self.read_only = read_only
        self._drift_of = drift_of
        self._drift: int | None = None
        self.events: list[Event] = []
        self.closing: dict[Hashable, Work[None]] = {}
        self.process = process
        self.stored: dict[int, int] = {}  # bytes by tenant
        self.actor = ""
        self.visible = ""
        self.credential = ""
        self.author: Author = "operator"
        self.receipts: dict[int, ReceiptDraft] = {}
        self.agent: AgentRights | None = None
        self.writes: dict[str, int] = {}  # the number of statements by the table that they change
        self.unset = 0  # innermost attempts that have not written yet, so their savepoints are not set

    @property
    def drift(self) -> int:
        if self._drift is None:  # most transactions never need it
            self._drift = self._drift_of(self)
        return self._drift

    @abstractmethod
    def one(self, sql: str, *parameters: Any) -> Row | None: ...

    @abstractmethod
    def all(self, sql: str, *parameters: Any) -> list[Row]: ...

    @abstractmethod
    def run(self, sql: str, *parameters: Any) -> None: ...

    @abstractmethod
    def stream(self, sql: str, *parameters: Any) -> Iterator[Row]: ...

    def fetch(self, *queries: Query) -> list[list[Row]]:
        return [self.all(query.sql, *query.parameters) for query in queries]

    def run_together(self, *queries: Query) -> None:
        for query in queries:
            self.run(query.sql, *query.parameters)

    def count_writes(self, *tables: str) -> int:
        return sum(self.writes.get(table, 0) for table in tables)

    def before_write(self, sql: str) -> None:
        """Prepare for a statement that changes something: count it, and set the savepoints that are due."""
        for table in list_changed_tables(sql):
            self.writes[table] = self.writes.get(table, 0) + 1
        if self.unset:
            self.set_savepoints()

    def enter_tenant(self, tenant_id: int) -> None:
        self.show(str(tenant_id))

    def enter_all_tenants(self) -> None:
        self.show(ALL_TENANTS)

    def show(self, visible: str) -> None:
        """Change whose rows are visible. SQLite has no row-level security, so there this is only noted."""
        self.visible = visible

    def emit(self, event: "Event") -> None:
        self.events.append(event._replace(actor=self.actor) if self.actor else event)

    def count_stored(self, tenant_id: int, number: int) -> None:
        self.stored[tenant_id] = self.stored.get(tenant_id, 0) + number

    def before_commit(self, key: Hashable, work: Work[None]) -> None:
        self.closing[key] = work

    def finish(self) -> None:
        """Run the `before_commit` work, write the events, and add up the stored bytes."""
        self.run_closing_work()
        self.write_log()

    def run_closing_work(self) -> None:
        for work in self.closing.values():
            work(self)

    def write_log(self) -> None:
        """Append the events to the logs of their tenants, in a fixed order of tenants, to prevent deadlocks."""
        by_tenant: dict[int, list[Event]] = {}
        for event in self.events:
            by_tenant.setdefault(event.tenant_id, []).append(event)
        for tenant_id, events in sorted(by_tenant.items()):
            self.append_events(tenant_id, events)
        for tenant_id, number in sorted(self.stored.items()):  # of tenants without an event
            add(self, tenant_id, number)

    def append_events(self, tenant_id: int, events: "list[Event]") -> None:
        """Number and insert events of one tenant."""
        for start in range(0, len(events), EVENTS_PER_INSERT):
            batch = events[start : start + EVENTS_PER_INSERT]
            first, self.process.stored[tenant_id] = take_events(self, tenant_id, len(batch), self.take_bytes(tenant_id, batch))
            rows = ((first + index, *row) for index, row in enumerate(self.build_event_rows(batch)))
            self.run(INSERT_EVENT + ANOTHER_EVENT * (len(batch) - 1), *chain.from_iterable(rows))

    def take_bytes(self, tenant_id: int, events: "list[Event]") -> NewBytes:
        """Return the bytes to add to the tenant's count together with these events."""
        return NewBytes(self.stored.pop(tenant_id, 0), sum(count_bytes(event.data) for event in events))

    def build_event_rows(self, events: "list[Event]") -> Iterator[Row]:
        """Return the columns of each event, without its sequence number."""
        return (
            (event.tenant_id, event.conversation_id, event.turn_id, event.subject, event.actor, event.kind, event.data, self.now)
            for event in events
        )

    def attempt(self, work: Work[T]) -> T:
        """Run work that can be undone. The savepoint is set at its first write, because reads leave nothing to undo."""
        event_count, closing_work, stored, visible = len(self.events), dict(self.closing), dict(self.stored), self.visible
        self.unset += 1
        try:
            value = work(self)
        except HeadwayError:  # other errors, above all the database's, abort the whole transaction
            del self.events[event_count:]
            self.closing, self.stored = closing_work, stored
            self.visible = visible  # as the savepoint restores it
            self.writes = {table: count + 1 for table, count in self.writes.items()}  # undoing a change is also a change
            self._leave("ROLLBACK TO SAVEPOINT attempt", "RELEASE SAVEPOINT attempt")
            raise
        self._leave("RELEASE SAVEPOINT attempt")
        return value

    def _leave(self, *statements: str) -> None:
        """Leave the innermost savepoint, if it was set."""
        if self.unset:
            self.unset -= 1
            return
        for statement in statements:
            self.run(statement)

    def set_savepoints(self) -> None:
        due, self.unset = self.unset, 0
        for _ in range(due):
            self.run("SAVEPOINT attempt")

    def try_read(self, work: Work[T]) -> T | None:
        self.run("SAVEPOINT glance")
        try:
            return work(self)
        except Exception:  # noqa: BLE001  if returning to the savepoint fails too, that error propagates
            get_logger().warning("an optional lookup failed", exc_info=True)
            return None
        finally:
            self.run("ROLLBACK TO SAVEPOINT glance")
            self.run("RELEASE SAVEPOINT glance")

    def run_with_lock_timeout(self, wait_ms: int, work: Work[T], timeout_error: HeadwayError) -> T:
        return work(self)  # with a single writer there is no lock to wait for

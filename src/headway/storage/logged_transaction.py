"""The part of a transaction that both databases share: events collected until commit, and attempts that can be undone."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from headway.ledger.check import Author, ReceiptDraft
from headway.ledger.errors import HeadwayError
from headway.ledger.events import Event
from headway.ledger.text import count_bytes
from headway.storage import id_ranges, stored_bytes
from headway.storage.id_ranges import NewBytes
from headway.storage.transaction import (
    ALL_TENANTS,
    AgentRights,
    Dialect,
    DriftReader,
    Query,
    Row,
    UsageMeter,
    Work,
    get_logger,
)

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
        "meter",
        "now",
        "read_only",
        "receipts",
        "stored",
        "unset",
        "visible",
        "writes",
    )

    dialect: Dialect

    def __init__(self, now: int, drift_of: DriftReader, *, read_only: bool) -> None:
        self.now = now
        self.read_only = read_only
        self._drift_of = drift_of
        self._drift: int | None = None
        self.events: list[Event] = []
        self.closing: dict[Hashable, Work[None]] = {}
        self.meter = UsageMeter()
        self.stored: dict[int, int] = {}  # bytes by tenant
        self.actor = ""
        self.visible = ""
        self.credential = ""
        self.author: Author = "operator"
        self.receipts: dict[int, ReceiptDraft] = {}
        self.agent: AgentRights | None = None
        self.writes: Counter[str] = Counter()  # statements by the table that they change
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
        return sum(self.writes[table] for table in tables)

    def before_write(self, sql: str) -> None:
        """Prepare for a statement that changes something: count it, and set the savepoints that are due."""
        for table in list_changed_tables(sql):
            self.writes[table] += 1
        if self.unset:
            self.set_savepoints()

    def enter_tenant(self, tenant_id: int) -> None:
        self.show(str(tenant_id))

    def enter_all_tenants(self) -> None:
        self.show(ALL_TENANTS)

    def show(self, visible: str) -> None:
        """Change whose rows are visible. SQLite has no row-level security, so there this is only noted."""
        self.visible = visible

    def emit(self, event: Event) -> None:
        self.events.append(event._replace(actor=self.actor) if self.actor else event)

    def count_stored(self, tenant_id: int, number: int) -> None:
        self.stored[tenant_id] = self.stored.get(tenant_id, 0) + number

    def before_commit(self, key: Hashable, work: Work[None]) -> None:
        self.closing[key] = work

    def finish(self) -> None:
        """Run the `before_commit` work, write the events, and add up the stored bytes."""
        for work in self.closing.values():
            work(self)
        if self.events:
            self.write_log()
        for tenant_id, number in sorted(self.stored.items()):  # of tenants without an event
            stored_bytes.add(self, tenant_id, number)

    def write_log(self) -> None:
        """Append the events to the logs of their tenants, in a fixed order of tenants, to prevent deadlocks."""
        tenant_ids = {event.tenant_id for event in self.events}
        if len(tenant_ids) == 1:
            self.append_events(self.events[0].tenant_id, self.events)
            return
        for tenant_id in sorted(tenant_ids):
            self.append_events(tenant_id, [event for event in self.events if event.tenant_id == tenant_id])

    def append_events(self, tenant_id: int, events: list[Event]) -> None:
        """Number and insert events of one tenant."""
        for start in range(0, len(events), EVENTS_PER_INSERT):
            batch = events[start : start + EVENTS_PER_INSERT]
            first, self.meter.stored[tenant_id] = id_ranges.take_events(
                self, tenant_id, len(batch), self.take_bytes(tenant_id, batch)
            )
            rows = ((first + place, *row) for place, row in enumerate(self.build_event_rows(batch)))
            self.run(INSERT_EVENT + ANOTHER_EVENT * (len(batch) - 1), *chain.from_iterable(rows))

    def take_bytes(self, tenant_id: int, events: list[Event]) -> NewBytes:
        """Return the bytes to add to the tenant's count together with these events."""
        return NewBytes(self.stored.pop(tenant_id, 0), sum(count_bytes(event.data) for event in events))

    def build_event_rows(self, events: list[Event]) -> Iterator[Row]:
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
            self.writes.update(list(self.writes))  # undoing a change is a change, too
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

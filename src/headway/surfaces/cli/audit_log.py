"""Reads and follows the audit log, of one database or of all cells."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions.access import audit, tenants
from headway.ledger.cells import Cell
from headway.ledger.errors import HeadwayError
from headway.ledger.tenancy import AuditFilter, Tenant
from headway.storage.direct import DirectDatabase

Entry = dict[str, Any]
INTERVAL_S: Final = 1.0
OVERLAP: Final = 200  # numbers that are read again: on Postgres, a lower one can be committed later
PAGE_SIZE: Final = 1_000

OpenCell = Callable[[Cell], DirectDatabase]
CellNews = tuple[str, Entry | HeadwayError]  # an entry of a cell, or the reason why its entries cannot be read


class AuditLog(NamedTuple):
    """The entries that the flags of a command chose."""

    tenant: Tenant | None
    chosen: AuditFilter

    def read_page(self, database: DirectDatabase, limit: int) -> dict[str, Any]:
        """Return the newest entries."""
        return database.read(lambda tx: audit.list_newest(tx, self.tenant.id if self.tenant else None, self.chosen, limit))

    def read_after(self, database: DirectDatabase, seq: int) -> list[Entry]:
        tenant_id = self.tenant.id if self.tenant else None
        return database.read(lambda tx: audit.list_after(tx, tenant_id, self.chosen, seq, PAGE_SIZE))

    def follow(self, database: DirectDatabase, known: set[int]) -> Iterator[Entry]:
        """Yield each entry whose number is not known, and then each one that is written. `known` has the newest numbers, at least
        OVERLAP, and is kept up to date. Raises WrongCell if the tenant moves to another cell."""
        while True:
            last = max(known, default=0)
            entries = self.read_after(database, last - OVERLAP)
            for entry in entries:
                if entry["seq"] not in known:
                    known.add(entry["seq"])
                    yield entry
            known.difference_update([seq for seq in known if seq <= last - OVERLAP])
            if self.tenant:
                database.read(partial(tenants.get_by_name, name=self.tenant.name))
            if len(entries) < PAGE_SIZE:
                time.sleep(INTERVAL_S)


def follow_cells(log: AuditLog, cells: Sequence[Cell], open_cell: OpenCell, known: dict[str, set[int]]) -> Iterator[CellNews]:
    """Yield the new entries of all cells as they are found, and once per outage why a cell cannot be read. `known` has the newest
    numbers of each cell that was read before."""
    from queue import SimpleQueue  # noqa: PLC0415  only needed with cells
    from threading import Thread  # noqa: PLC0415

    news: SimpleQueue[CellNews] = SimpleQueue()
    for cell in cells:
        target = (log, cell, open_cell, known.get(cell.name), news.put)
        Thread(target=follow_cell, args=target, daemon=True).start()
    while True:
        yield news.get()


def follow_cell(log: AuditLog, cell: Cell, open_cell: OpenCell, known: set[int] | None, report: Callable[[CellNews], None]) -> None:
    """Report the new entries of one cell, until the process ends. If none is known, those from now on are new."""
    if known is None:
        since = max(log.chosen.since, int(time.time() * 1000))
        log, known = log._replace(chosen=log.chosen._replace(since=since)), set()
    is_down = False
    while True:
        try:
            with open_cell(cell) as database:
                is_down = False
                for entry in log.follow(database, known):
                    report((cell.name, entry))
        except HeadwayError as error:
            if not is_down:
                report((cell.name, error))
            is_down = True
            time.sleep(INTERVAL_S)

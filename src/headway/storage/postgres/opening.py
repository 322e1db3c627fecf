"""Opens connections to Postgres, also through a pooler, within the limits of the pooler."""

from secrets import token_hex
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from headway.ledger.errors import SettingsError
from headway.storage.postgres.failures import Outage, describe_reason, to_headway_error
from headway.storage.transaction import Row

# Used unless the URL says otherwise. The timeouts detect a server that vanished silently within ten seconds: `connect_timeout`
# while connecting (for each host), `tcp_user_timeout` while sending, and the keepalives while waiting for a result.
DEFAULT_OPTIONS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 8_000,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",  # of several hosts, use the one that accepts writes
}
# The server detects within 30 seconds that a client vanished silently. Its own default is two hours, and sessions that clients have
# given up after a network fault would use up its connections for that long.
SERVER_KEEPALIVES: Final = """SELECT set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '4', false)"""


def open_connection(url: str) -> psycopg.Connection[Row]:
    """Open a connection on which psycopg prepares nothing: behind a pooler, processes share the names of prepared statements."""
    connection = psycopg.connect(autocommit=True, prepare_threshold=None, **build_options(url))
    connection.execute(SERVER_KEEPALIVES)
    return connection


def open_in_turn(url: str, outage: Outage) -> psycopg.Connection[Row]:
    """Open a connection that other threads share an outage with. Raise DatabaseUnreachable if one of them should try first."""
    outage.before_connecting()
    try:
        connection = open_connection(url)
    except BaseException as error:
        outage.record_failure(describe_reason(error))
        raise
    outage.record_success()
    return connection


def build_options(url: str) -> dict[str, Any]:
    """Return the options of the URL, and the default of each option that it does not set."""
    return {**DEFAULT_OPTIONS, **conninfo_to_dict(url), "client_encoding": "utf8"}


def limit_connect_time(url: str, seconds: int) -> str:
    """Return the URL with a time limit for connecting, unless it has one."""
    if "connect_timeout" in conninfo_to_dict(check_url(url)):
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout={seconds}"


def check_url(url: str, variable: str = "HEADWAY_DATABASE_URL") -> str:
    """Check the URL, without quoting it in the error. If a password is not escaped, libpq parses parts of it as a host, port or
    database name and would reveal them."""
    try:
        parts = conninfo_to_dict(url)
        readable = not any("@" in str(parts.get(name, "")) for name in ("host", "port", "dbname"))
    except psycopg.ProgrammingError:
        readable = False
    if not readable:
        raise SettingsError(f"{variable} is not a valid URL. In the password, write @ as %40, / as %2F and % as %25.")
    return url


# Finds out what a pooler between Headway and Postgres allows.


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

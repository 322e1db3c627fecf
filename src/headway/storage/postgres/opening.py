"""Opens connections to Postgres."""

from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headway.ledger.errors import SettingsError
from headway.storage.postgres.failures import describe_reason
from headway.storage.postgres.outage import Outage
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
    """Open a connection on which psycopg prepares nothing: behind a pooler, its names would be those of other processes, too."""
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

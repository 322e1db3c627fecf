"""Opens connections to Postgres."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headway.ledger.errors import SettingsError
from headway.storage.transaction import Row

# Detect a server that vanished silently within half a minute, instead of the usual two hours.
CONNECT_OPTIONS: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}


def open_connection(url: str) -> psycopg.Connection[Row]:
    return psycopg.connect(url, autocommit=True, **CONNECT_OPTIONS)


def check_url(url: str) -> str:
    """Check the URL, without quoting it in the error. If a password is not escaped, libpq parses parts of it as a host, port or
    database name and would reveal them."""
    try:
        parts = conninfo_to_dict(url)
        readable = not any("@" in str(parts.get(name, "")) for name in ("host", "port", "dbname"))
    except psycopg.ProgrammingError:
        readable = False
    if not readable:
        raise SettingsError("HEADWAY_DATABASE_URL is not a valid URL. In the password, write @ as %40, / as %2F and % as %25.")
    return url

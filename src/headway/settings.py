"""The one reader of the environment. Flags win, then HEADWAY_* variables, then a .env file in the current folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headway.ledger.errors import SettingsError

PREFIX = "HEADWAY_"
REHEARSAL = "rehearsal"


class Settings(NamedTuple):
    home: Path
    database_url: str
    model: str
    host: str
    port: int


def load(flags: Mapping[str, str | None] | None = None) -> Settings:
    """Settings by name without the prefix, e.g. {"home": "/var/lib/headway"}; None means the flag was not given."""
    chosen = {name: value for name, value in (flags or {}).items() if value is not None}
    stored = dotenv()

    def get(name: str, default: str) -> str:
        variable = PREFIX + name.upper()
        # An empty variable means "not set", as everywhere on the command line.
        return chosen.get(name) or os.environ.get(variable) or stored.get(variable) or default

    home = Path(get("home", ".headway")).expanduser().absolute()
    return Settings(
        home=home,
        database_url=get("database_url", f"sqlite:///{home / 'headway.db'}"),
        model=get("model", REHEARSAL),
        host=get("host", "127.0.0.1"),
        port=port(get("port", "8484")),
    )


def port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise SettingsError(f"HEADWAY_PORT must be a port number from 0 to 65535, not {text[:40]!r}.")
    return int(text)


def dotenv() -> Mapping[str, str | None]:
    if not os.path.isfile(".env"):
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  most folders have no .env, and every command would pay for it

    return dotenv_values(".env", interpolate=False)


def shown(database_url: str) -> str:
    """The URL without its password, for people and logs."""
    scheme, mark, rest = database_url.partition("://")
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{mark}{user}{colon and ':…'}{at}{place}"

"""The one reader of the environment. Flags win, then HEADWAY_* variables, then a .env file in the current folder."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headway.ledger import text
from headway.ledger.errors import SettingsError

PREFIX = "HEADWAY_"
REHEARSAL = "rehearsal"


class Settings(NamedTuple):
    home: Path
    database_url: str
    model: str
    host: str
    port: int

    @property
    def task_folder(self) -> str:
        """Where conversations keep their task lists."""
        return str(self.home / ".agents" / "tasks")


def load(flags: Mapping[str, str | None] | None = None) -> Settings:
    """Settings by name without the prefix, e.g. {"home": "/var/lib/headway"}; None means the flag was not given."""
    chosen = {name: value for name, value in (flags or {}).items() if value is not None}
    stored = dotenv()

    def get(name: str, default: str) -> str:
        variable = PREFIX + name.upper()
        # An empty variable means "not set", as everywhere on the command line.
        value = chosen.get(name) or os.environ.get(variable) or stored.get(variable) or default
        return text.safe(value, variable)

    home = folder(get("home", ".headway"))
    return Settings(
        home=home,
        database_url=get("database_url", f"sqlite:///{home / 'headway.db'}"),
        model=get("model", REHEARSAL),
        host=get("host", "127.0.0.1"),
        port=port(get("port", "8484")),
    )


def folder(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # the current folder is gone, or ~somebody is nobody
        raise SettingsError(f"HEADWAY_HOME is {name[:200]!r}, which cannot be found: {error}") from None


def port(number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) <= 65535):
        raise SettingsError(f"HEADWAY_PORT must be a port number from 0 to 65535, not {number[:40]!r}.")
    return int(number)


def dotenv() -> Mapping[str, str | None]:
    if not os.path.isfile(".env"):
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  most folders have no .env, and every command would pay for it

    try:
        return dotenv_values(".env", interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The file .env cannot be read: {error}") from None


def shown(database_url: str) -> str:
    """The URL for people and logs, without anything that could be a password, wherever it stands."""
    scheme, mark, rest = database_url.partition("://")
    if scheme == "sqlite":
        return database_url
    head, question, options = rest.partition("?")
    if "@" in options:  # a password with a question mark in it, perhaps
        return f"{scheme}{mark}…"
    credentials, at, place = head.rpartition("@")
    user = re.split("[:@/]", credentials)[0]
    return f"{scheme}{mark}{user}{':…' if credentials != user else ''}{at}{place}{question and '?…'}"

"""Where each setting comes from, and how it is shown: without any secret."""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from headway.ledger import text
from headway.settings_parsing import parse_integer, parse_list, parse_number

PREFIX: Final = "HEADWAY_"

Source = Literal["flag", "environment", ".env", "models.toml", "default"]


class SettingInForce(NamedTuple):
    """What a setting is, for display: without any secret. Empty: not set."""

    value: str
    source: Source


class SettingReader(NamedTuple):
    """Reads settings by their names in lower case, and notes what is in force."""

    flags: Mapping[str, str]
    environment: Mapping[str, str]
    dotenv: Mapping[str, str | None]
    in_force: dict[str, SettingInForce]

    def get(self, name: str, default: str, default_source: Source = "default") -> str:
        variable = PREFIX + name.upper()
        # An empty variable means "not set", as is usual on the command line.
        given: tuple[tuple[Source, str | None], ...] = (
            ("flag", self.flags.get(name)),
            ("environment", self.environment.get(variable)),
            (".env", self.dotenv.get(variable)),
        )
        source, value = next(((source, value) for source, value in given if value), (default_source, default))
        self.in_force[name] = SettingInForce(hide_secrets(name, value), source)
        return text.check_text(value, variable)

    def read_count(self, name: str, default: int, minimum: int = 1) -> int:
        if given := self.get(name, ""):
            return parse_integer(PREFIX + name.upper(), given, minimum, 1_000)
        self.in_force[name] = SettingInForce(str(default or ""), "default")
        return default

    def read_amount(self, name: str, default: float, minimum: float = 0) -> float:
        return parse_number(PREFIX + name.upper(), self.get(name, f"{default:g}"), minimum, 1_000_000)


def hide_secrets(name: str, value: str) -> str:
    """Return a setting for display: a secret only as `set`, channels only by their number, and URLs without passwords."""
    if name == "bootstrap_token":
        return "set" if value else ""
    if name == "notify":
        channels = len(parse_list(value))
        return f"{channels} channel{'s' if channels != 1 else ''}" if channels else ""
    return redact_database_url(value) if name == "dispatch" or name.endswith("url") else value


def redact_database_url(database_url: str) -> str:
    """Return the URL for display and logs, without any part that could be a password."""
    scheme, mark, rest = database_url.partition("://")
    if scheme == "sqlite":
        return database_url
    head, question, options = rest.partition("?")
    if "@" in options:  # perhaps a password that contains a question mark
        return f"{scheme}{mark}…"
    credentials, at, location = head.rpartition("@")
    user = re.split("[:@/]", credentials)[0]
    return f"{scheme}{mark}{user}{':…' if credentials != user else ''}{at}{location}{question and '?…'}"

"""Parses settings, and shows the ones that may contain secrets. A parser takes the variable's name, for its error, and the text."""

import os
import re
from collections.abc import Callable
from math import nan
from typing import Any

from headway.ledger.errors import SettingsError
from headway.ledger.tenancy import SECRET_LENGTH, TOKEN_PREFIX

Parser = Callable[[str, str], Any]


def parse_text(_variable: str, spelling: str) -> str:
    return spelling


def parse_list(_variable: str, spelling: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in spelling.split(",") if item.strip())


def parse_hosts(variable: str, spelling: str) -> tuple[str, ...]:
    hosts = parse_list(variable, spelling)
    if wrong := [host for host in hosts if "/" in host or host.count(":") == 1]:  # two or more colons are an IPv6 address
        form = "must be a comma-separated list of hosts, such as example.org, without https:// and ports"
        raise SettingsError(f"{variable} {form}; {wrong[0][:80]!r} is not one.")
    return hosts


def parse_number(variable: str, spelling: str, minimum: float, maximum: float, *, integer_only: bool = False) -> float:
    try:
        value = float(spelling)
    except ValueError:
        value = nan
    if not minimum <= value <= maximum or (integer_only and not value.is_integer()):
        kind = "a whole number" if integer_only else "a number"
        raise SettingsError(f"{variable} must be {kind} from {minimum:.10g} to {maximum:.10g}, not {spelling[:40]!r}.")
    return value


def amount(minimum: float = 0) -> Parser:
    return lambda variable, spelling: parse_number(variable, spelling, minimum, 1_000_000)


def count(minimum: int = 1, maximum: int = 1_000) -> Parser:
    return lambda variable, spelling: int(parse_number(variable, spelling, minimum, maximum, integer_only=True))


def word(words: tuple[str, ...]) -> Parser:
    def parse(variable: str, spelling: str) -> str:
        if spelling not in words:
            raise SettingsError(f"{variable} must be {', '.join(words[:-1])} or {words[-1]}, not {spelling[:40]!r}.")
        return spelling

    return parse


def optional(parse: Parser) -> Parser:
    """Return a parser for a setting without a default: None means that it is not set."""
    return lambda variable, spelling: parse(variable, spelling) if spelling else None


def parse_path(variable: str, name: str) -> str:
    """Return the absolute path. pathlib is not used, because it takes longer to load than a short command takes to run."""
    path = os.path.expanduser(name)
    try:
        if path.startswith("~"):
            raise OSError("there is no such user")
        return os.path.abspath(path)
    except OSError as error:  # also raised if the current folder was deleted
        raise SettingsError(f"{variable}={name[:200]!r} cannot be resolved: {error}") from None


def parse_absolute_paths(variable: str, spelling: str) -> tuple[str, ...]:
    paths = parse_list(variable, spelling)
    if wrong := [path for path in paths if not os.path.isabs(path)]:
        raise SettingsError(f"{variable} must be a comma-separated list of absolute paths; {wrong[0][:80]!r} is not one.")
    return tuple(map(os.path.normpath, paths))


def parse_port(variable: str, number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) <= 65535):
        raise SettingsError(f"{variable} must be a port number from 0 to 65535, not {number[:40]!r}.")
    return int(number)


def parse_public_url(variable: str, url: str) -> str:
    """Check the URL and strip trailing slashes, because links are built by appending a path."""
    if not re.match(r"https?://[^/?#\s]", url):
        quoted = re.sub(r"://[^/?#\s:]*:[^/?#\s]*@", "://…@", url)[:80]
        raise SettingsError(f"{variable} must be a URL like https://headway.example.org, not {quoted!r}.")
    return url.rstrip("/")


def parse_postgres_url(variable: str, url: str) -> str:
    if url and not url.startswith(("postgresql://", "postgres://")):  # not quoted, because it may contain a password
        raise SettingsError(f"{variable} must start with postgresql://.")
    return url


def parse_dispatch(_variable: str, address: str) -> str:
    """Check the address. Whatever connects to it parses it again."""
    if address:
        from headway.dispatch.restate_address import parse_address  # noqa: PLC0415  most installations do not need it

        parse_address(address)
    return address


def parse_bootstrap_token(variable: str, secret: str) -> str:
    """Check the form of a token, without quoting it in the error."""
    random_part = secret.removeprefix(TOKEN_PREFIX)
    if secret and (len(secret) != len(TOKEN_PREFIX) + SECRET_LENGTH or not re.fullmatch(r"[\w-]{43}", random_part, re.ASCII)):
        raise SettingsError(
            f"{variable} must be {TOKEN_PREFIX} and {SECRET_LENGTH} letters, digits, - or _. Generate one: "
            f"python3 -c \"import secrets; print('{TOKEN_PREFIX}' + secrets.token_urlsafe(32))\""
        )
    return secret


def parse_channels(variable: str, spelling: str) -> tuple[str, ...]:
    urls = parse_list(variable, spelling)
    for number, url in enumerate(urls, 1):
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url):  # the message does not quote the URL, which may contain a password
            raise SettingsError(f"{variable} must be a comma-separated list of URLs; entry {number} is not a URL.")
    return urls


# Display


def hide(secret: str) -> str:
    return "set" if secret else ""


def count_channels(urls: tuple[str, ...]) -> str:
    return f"{len(urls)} channel{'s' if len(urls) != 1 else ''}" if urls else ""


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

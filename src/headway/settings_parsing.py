"""Parses single settings. Each function names the variable in its error."""

import re
from math import nan

from headway.ledger.cells import SECRET_LENGTH, TOKEN_PREFIX
from headway.ledger.errors import SettingsError
from headway.ledger.goal import DiscoveryPolicy


def parse_list(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def parse_number(variable: str, spelling: str, minimum: float, maximum: float, *, integer_only: bool = False) -> float:
    try:
        value = float(spelling)
    except ValueError:
        value = nan
    if not minimum <= value <= maximum or (integer_only and not value.is_integer()):
        kind = "a whole number" if integer_only else "a number"
        raise SettingsError(f"{variable} must be {kind} from {minimum:.10g} to {maximum:.10g}, not {spelling[:40]!r}.")
    return value


def parse_integer(variable: str, spelling: str, minimum: int, maximum: int) -> int:
    return int(parse_number(variable, spelling, minimum, maximum, integer_only=True))


def parse_port(number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) <= 65535):
        raise SettingsError(f"HEADWAY_PORT must be a port number from 0 to 65535, not {number[:40]!r}.")
    return int(number)


def parse_direct_url(url: str) -> str:
    if url and not url.startswith(("postgresql://", "postgres://")):  # not quoted, because it may contain a password
        raise SettingsError("HEADWAY_DATABASE_DIRECT_URL must start with postgresql://.")
    return url


def parse_directory_url(url: str) -> str:
    if url and not url.startswith(("postgresql://", "postgres://")):  # not quoted, because it may contain a password
        raise SettingsError("HEADWAY_DIRECTORY_URL must start with postgresql://.")
    return url


def parse_bootstrap_token(secret: str) -> str:
    """Check the form of a token, without quoting it in the error."""
    random_part = secret.removeprefix(TOKEN_PREFIX)
    if secret and (len(secret) != len(TOKEN_PREFIX) + SECRET_LENGTH or not re.fullmatch(r"[\w-]{43}", random_part, re.ASCII)):
        raise SettingsError(
            f"HEADWAY_BOOTSTRAP_TOKEN must be {TOKEN_PREFIX} and {SECRET_LENGTH} letters, digits, - or _. Generate one: "
            f"python3 -c \"import secrets; print('{TOKEN_PREFIX}' + secrets.token_urlsafe(32))\""
        )
    return secret


def parse_dispatch(address: str) -> str:
    if address:
        from headway.dispatch.restate.address import parse_address  # noqa: PLC0415  most installations do not need it

        parse_address(address)
    return address


def parse_discovery(name: str) -> DiscoveryPolicy:
    match name:
        case "ask" | "auto":
            return name
    raise SettingsError(f"HEADWAY_GOAL_DISCOVERY must be ask or auto, not {name[:40]!r}.")


def check_channels(urls: tuple[str, ...]) -> tuple[str, ...]:
    for number, url in enumerate(urls, 1):
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url):  # the message does not quote the URL, which may contain a password
            raise SettingsError(f"HEADWAY_NOTIFY must be a comma-separated list of URLs; entry {number} is not a URL.")
    return urls

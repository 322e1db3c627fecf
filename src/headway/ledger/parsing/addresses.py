"""Addresses of web servers."""

from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from headway.ledger.errors import Invalid

URL_LIMIT: Final = 4_000
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
SAFE_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=~?"


class Target(NamedTuple):
    """A URL that passed the checks, split into its parts."""

    scheme: str
    host: str
    port: int
    path: str


def parse_url(url: str, field: str = "url") -> Target:
    if len(url) > URL_LIMIT or not url.isprintable() or " " in url or "\\" in url:
        raise Invalid(f"{field} must be a web address of at most {URL_LIMIT:,} characters, without spaces.")
    try:
        parts = urlsplit(url)
        host, port = to_ascii_host(parts), parts.port
    except ValueError:
        raise Invalid(f"{field} is not a web address.") from None
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise Invalid(f"{field} must begin with http:// or https://, and name a host.")
    if "@" in parts.netloc:
        raise Invalid(f"{field} must not contain a user name or a password.")
    path = quote(parts.path or "/", SAFE_PATH_CHARACTERS) + (f"?{quote(parts.query, SAFE_PATH_CHARACTERS)}" if parts.query else "")
    return Target(parts.scheme, host, DEFAULT_PORTS[parts.scheme] if port is None else port, path)


def to_ascii_host(parts: SplitResult) -> str:
    """Return the host in the form in which it is compared and resolved: ASCII, without a trailing dot."""
    host = (parts.hostname or "").rstrip(".")
    return host if host.isascii() else host.encode("idna").decode()

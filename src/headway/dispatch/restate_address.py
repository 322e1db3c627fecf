"""Parses the address of Restate: `restate://INGRESS[,INGRESS…][?listen=…&admin=…&endpoint=…&identity_key=…&service=…]`."""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qsl

from headway.ledger.errors import SettingsError

VARIABLE = "HEADWAY_DISPATCH"
SCHEME = "restate://"
EXAMPLE = "restate://127.0.0.1:8080?listen=127.0.0.1:9080&admin=127.0.0.1:9070"
INGRESS_PORT, ADMIN_PORT, LISTEN = 8080, 9070, "127.0.0.1:9080"
OPTIONS = ("listen", "admin", "endpoint", "identity_key", "service")
NO_KEY = "none"
HOST_PORT_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::([0-9]{1,5}))?")
ENDPOINT_PATTERN = re.compile(r"https?://[A-Za-z0-9_.:\[\]-]{1,300}(?:/[A-Za-z0-9_./~-]{0,300})?")
KEY_PATTERN = re.compile(r"publickeyv1_[1-9A-HJ-NP-Za-km-z]{32,44}")
SERVICE_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


class HostPort(NamedTuple):
    host: str  # an IPv6 address without brackets
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_wildcard(self) -> bool:
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


class RestateAddress(NamedTuple):
    ingress: tuple[HostPort, ...]  # where Restate accepts announcements
    listen: HostPort  # where this process accepts deliveries
    admin: tuple[HostPort, ...]  # where Restate accepts registrations; empty: an operator registers the endpoint
    endpoint: str  # the URL at which Restate reaches the workers
    identity_key: str  # the public key that verifies Restate's requests; empty: they are not verified
    service: str  # the name of Restate's service; each database has its own

    @property
    def needs_secret(self) -> bool:
        """Whether a secret in the endpoint's URL guards deliveries: requests are not signed, and workers can register the URL."""
        return bool(self.admin) and not self.identity_key


def parse_address(address: str) -> RestateAddress:
    """Parse the setting. Raises SettingsError with a sentence that says what to change."""
    if not address.startswith(SCHEME):
        raise SettingsError(f"{VARIABLE} must be empty or start with {SCHEME}.")
    hosts, _, query = address.removeprefix(SCHEME).partition("?")
    if "@" in hosts:  # not quoted, because it may contain a password
        raise SettingsError(f"{VARIABLE} must not contain a user name or a password. An example is {EXAMPLE}.")
    options = parse_options(query)
    listen = parse_host_port("listen", options.get("listen", LISTEN), None)
    return RestateAddress(
        ingress=parse_host_ports("the address of the ingress", hosts.rstrip("/"), INGRESS_PORT),
        listen=listen,
        admin=parse_host_ports("admin", options["admin"], ADMIN_PORT) if "admin" in options else (),
        endpoint=parse_endpoint(options, listen),
        identity_key=parse_key(options, listen),
        service=parse_service(options.get("service", "Headway")),
    )


def parse_options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    if unknown := [name for name, _ in pairs if name not in OPTIONS]:
        raise SettingsError(f"{VARIABLE} has an unknown option {unknown[0][:40]!r}. The options are {', '.join(OPTIONS)}.")
    options = dict(pairs)
    if len(options) < len(pairs):
        raise SettingsError(f"{VARIABLE} has an option twice. Give each of them once.")
    return options


def parse_host_ports(name: str, value: str, default_port: int) -> tuple[HostPort, ...]:
    return tuple(parse_host_port(name, part, default_port) for part in value.split(","))


def parse_host_port(name: str, value: str, default_port: int | None) -> HostPort:
    found = HOST_PORT_PATTERN.fullmatch(value)
    port = int(found[2] or default_port or 0) if found else 0
    if not found or not 1 <= port <= 65535:
        raise SettingsError(f"{VARIABLE}: {name} must be HOST:PORT, not {value[:80]!r}. An example is {EXAMPLE}.")
    return HostPort(found[1].strip("[]"), port)


def parse_endpoint(options: dict[str, str], listen: HostPort) -> str:
    endpoint = options.get("endpoint", f"http://{listen}").rstrip("/")
    if not ENDPOINT_PATTERN.fullmatch(endpoint):
        raise SettingsError(f"{VARIABLE}: endpoint must be a URL like http://workers.internal:9080, not {endpoint[:80]!r}.")
    if "endpoint" not in options and "admin" in options and listen.is_wildcard:
        raise SettingsError(
            f"{VARIABLE}: with listen={listen}, say at which address Restate reaches the workers: &endpoint=http://HOST:{listen.port}"
        )
    return endpoint


def parse_key(options: dict[str, str], listen: HostPort) -> str:
    key = options.get("identity_key", "")
    if not key and not listen.is_loopback:
        raise SettingsError(
            f"{VARIABLE}: listen={listen} would accept deliveries from other machines. Add identity_key=publickeyv1_…, the public "
            f"key that verifies Restate's requests, or identity_key={NO_KEY} if only Restate can reach this address."
        )
    if not key and "admin" not in options:
        raise SettingsError(
            f"{VARIABLE}: every program on this machine could deliver jobs. Add admin=HOST:{ADMIN_PORT}, so that workers register "
            f"a secret URL, or identity_key=publickeyv1_…, or identity_key={NO_KEY} if only Restate can reach {listen}."
        )
    if key == NO_KEY:
        return ""
    if key and not KEY_PATTERN.fullmatch(key):
        raise SettingsError(
            f"{VARIABLE}: identity_key must be {NO_KEY} or start with publickeyv1_, as Restate logs it at its start."
        )
    return key


def parse_service(name: str) -> str:
    if not SERVICE_PATTERN.fullmatch(name):
        raise SettingsError(f"{VARIABLE}: service must be up to 63 letters, digits and underscores, not {name[:80]!r}.")
    return name

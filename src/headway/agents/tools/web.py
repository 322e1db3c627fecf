"""Fetch web pages, only from allowlisted hosts on public addresses.

A name is resolved once, all its addresses are checked, and the connection uses a checked address, so a DNS change in between has no
effect. Every redirect is checked from the start.
"""

import io
import re
import socket
import ssl
import time
from collections.abc import Collection
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final
from urllib.parse import urljoin

from headway.ledger.errors import Invalid, OutOfReach
from headway.ledger.parsing.addresses import DEFAULT_PORTS, Target, parse_url
from headway.ledger.text import to_one_line
from headway.outbound import Address, AddressCheck, HostResolver, check_addresses, check_host, is_public, resolve_host

SOCKET_TIMEOUT_S: Final = 10.0
TOTAL_TIMEOUT_S: Final = 20.0
BODY_LIMIT: Final = 1_000_000  # bytes
TEXT_LIMIT: Final = 50_000  # characters
MAX_REDIRECTS: Final = 5
REDIRECT_STATUSES: Final = (301, 302, 303, 307, 308)
OVERLOAD_STATUSES: Final = (429, 502, 503, 504)  # worth retrying later
TEXT_TYPE: Final = re.compile(r"text/|application/([\w.+-]*\+)?(json|xml|javascript|yaml|toml|x-ndjson|x-yaml|x-sh)$")
CHARSET: Final = re.compile(r"charset=\W?((utf-?(8|16)|iso-?8859|windows-125|gb|big5|euc|shift|koi8)[\w-]*)", re.IGNORECASE)
HEADERS: Final = {"User-Agent": "headway", "Accept": "text/*, application/json, application/xml;q=0.9", "Connection": "close"}


def fetch(
    url: str,
    hosts: Collection[str],
    allowed_address: AddressCheck = is_public,
    look_up: HostResolver = resolve_host,
    total_s: float = TOTAL_TIMEOUT_S,
) -> dict[str, Any]:
    deadline = time.monotonic() + total_s
    for _ in range(MAX_REDIRECTS + 1):
        target = parse_url(url)
        check_host(target.host, hosts)
        addresses = check_addresses(target.host, look_up(target.host, target.port), allowed_address)
        try:
            with connect_to_any(target, addresses, deadline) as line:
                response = send_request(target, line)
                if response.status in OVERLOAD_STATUSES:
                    raise OutOfReach(f"{target.host} answered with status {response.status}.")
                location = response.getheader("Location")
                if response.status not in REDIRECT_STATUSES or location is None:
                    return encode_page(url, response)
        except TimeoutError:
            raise OutOfReach(f"{target.host} took too long to answer.") from None
        except (OSError, HTTPException, ValueError) as error:
            kind = Invalid if isinstance(error, ValueError) else OutOfReach
            raise kind(f"{target.host} could not be fetched: {to_one_line(str(error))[:200] or type(error).__name__}.") from None
        url = urljoin(url, location.encode("latin-1", "replace").decode("utf-8", "replace"))
    raise Invalid(f"The page redirects more than {MAX_REDIRECTS} times.")


class DeadlineSocket:
    """A connection with one overall deadline, which holds even if data trickles in."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self.socket = connected
        self.deadline = deadline

    def __enter__(self) -> "DeadlineSocket":
        return self

    def __exit__(self, *_error: object) -> None:
        self.socket.close()

    def sendall(self, data: bytes) -> None:
        self.socket.settimeout(compute_timeout(self.deadline))
        self.socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(DeadlineReader(self))

    def close(self) -> None:
        """Do nothing: http.client closes the connection after the headers, while the body is still to be read."""


class DeadlineReader(io.RawIOBase):
    def __init__(self, line: DeadlineSocket) -> None:
        self.line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.line.socket.settimeout(compute_timeout(self.line.deadline))
        return self.line.socket.recv_into(buffer)


class VettedConnection(HTTPConnection):
    """An HTTP connection that never connects by itself, because that would resolve the name again."""

    auto_open = 0


def connect_to_any(target: Target, addresses: list[Address], deadline: float) -> DeadlineSocket:
    """Connect to the first address that answers."""
    for address in addresses[:-1]:
        with suppress(OSError):
            return connect(target, address, deadline)
    return connect(target, addresses[-1], deadline)


def connect(target: Target, address: Address, deadline: float) -> DeadlineSocket:
    plain = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        plain.settimeout(compute_timeout(deadline))
        plain.connect(address.sockaddr)
        if target.scheme == "http":
            return DeadlineSocket(plain, deadline)
        plain.settimeout(compute_timeout(deadline))
        return DeadlineSocket(ssl.create_default_context().wrap_socket(plain, server_hostname=target.host), deadline)
    except BaseException:
        plain.close()
        raise


def send_request(target: Target, line: DeadlineSocket) -> HTTPResponse:
    connection = VettedConnection(target.host, target.port)
    connection.default_port = DEFAULT_PORTS[target.scheme]
    connection.sock = line
    connection.request("GET", target.path, headers=HEADERS)
    return connection.getresponse()


def compute_timeout(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return min(remaining, SOCKET_TIMEOUT_S)


def encode_page(url: str, response: HTTPResponse) -> dict[str, Any]:
    content_type = to_one_line(response.getheader("Content-Type", "text/plain"))[:200]
    if not TEXT_TYPE.match(content_type.partition(";")[0].strip().lower()):
        raise Invalid(f"The page is not text but {content_type}.")
    if response.getheader("Content-Encoding", "identity").lower() != "identity":
        raise Invalid("The page is compressed although it was requested uncompressed.")
    body = response.read(BODY_LIMIT)
    charset = CHARSET.search(content_type)
    page = decode_body(body, charset[1] if charset else "utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")
    answer = {"status": response.status, "url": url, "content_type": content_type, "text": page[:TEXT_LIMIT]}
    if len(page) <= TEXT_LIMIT and len(body) < BODY_LIMIT:
        return answer
    return answer | {"truncated": f"This is the beginning of the page: at most {TEXT_LIMIT:,} characters are shown."}


def decode_body(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")

"""Decides whether a request is handled at all, before anything of it is parsed.

Callers with a valid token have the rate of their token. All others share the rate of their address.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from starlette.types import Scope

from headway.actions.access import tokens
from headway.ledger.errors import Unauthorized, WrongCell
from headway.ledger.tenancy import Token
from headway.process.assembly import Headway

TOKEN_RATE = 600  # requests per second: stops abuse, and does not slow down ordinary clients
STRANGER_BURST_S = 100  # how many seconds' worth an address may send at once: by default about thirty loads of the page
PROXY_FACTOR = 10  # for all clients that one proxy names
HEALTH_RATE = 10  # health checks per second of an address that is over its limit
MAX_CALLERS = 10_000
MAX_DELAYED = 1_000
FRESH_S = 5.0


class RateLimiter:
    """A token bucket for each caller. Only the most recent callers are kept."""

    def __init__(self, rate: int, burst: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = float(burst or rate)
        self.now = now
        self.level: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> int:
        """Take one request from the caller's bucket and return how many are left. Negative: this one is over the limit."""
        now = self.now()
        level, since = self.level.pop(caller, (self.burst, now))
        level = min(self.burst, level + (now - since) * self.rate)
        self.level[caller] = (level - 1 if level >= 1 else level, now)
        if len(self.level) > MAX_CALLERS:
            self.level.popitem(last=False)
        return int(level) - 1

    def give_back(self, caller: Hashable) -> None:
        if found := self.level.get(caller):
            self.level[caller] = (min(self.burst, found[0] + 1), found[1])


class CallerAddress(NamedTuple):
    peer: str  # who opened the connection
    client: str  # whom the peer names in X-Forwarded-For, if it is a proxy


class KnownToken(NamedTuple):
    token: Token
    checked_at: float


class Admission:
    """The limits on callers, and the tokens that were valid when they were last looked up.

    The transaction that acts checks the token again, so one that was revoked in between changes and reads nothing.
    """

    refusal_delay_s = 5.0  # how long a stranger over the limit waits for the refusal
    delayed = 0  # how many of them wait

    def __init__(self, headway: Headway) -> None:
        self.headway = headway
        self.known: OrderedDict[str, KnownToken] = OrderedDict()
        self.tokens = RateLimiter(TOKEN_RATE)
        rate = headway.settings.anonymous_rate
        self.clients = RateLimiter(rate, rate * STRANGER_BURST_S)
        self.peers = RateLimiter(rate * PROXY_FACTOR, rate * STRANGER_BURST_S * PROXY_FACTOR)
        self.health_checks = RateLimiter(HEALTH_RATE)

    def is_known(self, digest: str | None) -> bool:
        """Whether the token was valid when it was last looked up. If not, the request counts as a stranger's."""
        return digest in self.known

    def take_as_stranger(self, address: CallerAddress) -> bool:
        """Count a request without a known token, and return whether the address may make it.

        A caller can invent the client that it names, so the peer has a limit as well."""
        return self.clients.take(address) >= 0 and self.peers.take(address.peer) >= 0

    async def delay_refusal(self) -> None:
        """Wait before a refusal, so that it costs the caller more than it costs us."""
        if self.delayed >= MAX_DELAYED:
            return
        self.delayed += 1
        try:
            await asyncio.sleep(self.refusal_delay_s)
        finally:
            self.delayed -= 1

    def give_back(self, address: CallerAddress) -> None:
        """Do not count a request whose token was valid."""
        self.clients.give_back(address)
        self.peers.give_back(address.peer)

    async def authenticate(self, digest: str, issuer: str) -> Token:
        """Return the token with this hash, from the database if it was not looked up just now. Raises Unauthorized, or WrongCell if
        another database has its tenant; `issuer` is the one that the token's prefix names."""
        now = time.monotonic()
        found = self.known.get(digest)
        if found and now - found.checked_at < FRESH_S:
            return found.token
        try:
            token = await self.headway.database.read(lambda tx: tokens.authenticate(tx, digest, issuer))
        except (Unauthorized, WrongCell):
            self.forget(digest)
            raise
        self.known[digest] = KnownToken(token, now)
        self.known.move_to_end(digest)
        if len(self.known) > MAX_CALLERS:
            self.known.popitem(last=False)
        return token

    def forget(self, digest: str | None) -> None:
        if digest:
            self.known.pop(digest, None)


def find_address(scope: Scope) -> CallerAddress:
    """Return who sends the request. Only a proxy on this machine or in its network may name a client, and of the addresses in
    X-Forwarded-For only the last was added by that proxy."""
    client = scope.get("client")
    peer: str = client[0] if client else ""
    forwarded = find_header(reversed(scope["headers"]), b"x-forwarded-for")
    if not forwarded or not is_near(peer):
        return CallerAddress(group_address(peer), "")
    return CallerAddress(group_address(peer), group_address(forwarded.rpartition(b",")[2].strip()[:64].decode("latin-1")))


def is_near(address: str) -> bool:
    try:
        return ip_address(address).is_private
    except ValueError:  # a Unix socket
        return True


def group_address(address: str) -> str:
    """Return an IPv6 address as its network of 64 bits, because one client usually has all of them."""
    if ":" not in address:
        return address
    try:
        return IPv6Address(address.partition("%")[0]).exploded[:19]
    except ValueError:
        return address


def find_header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for key, value in headers if key == name), None)

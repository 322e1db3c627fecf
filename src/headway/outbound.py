"""Which hosts and addresses Headway may connect to, for agents and for the webhooks of tenants."""

import socket
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any, Final, NamedTuple

from headway.ledger.errors import Invalid, OutOfReach
from headway.ledger.parsing.addresses import Target, parse_url

NAT64: Final = IPv6Network("64:ff9b::/96")
# IPv6 ranges that embed an IPv4 address (compatible, mapped, translated, 6to4, Teredo), and the deprecated site-local range. No
# public website needs one, and the host behind such an address is ambiguous.
AMBIGUOUS_NETWORKS: Final = tuple(
    map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16", "2001::/32", "fec0::/10"))
)


class Address(NamedTuple):
    """A socket address, in the form that the system calls expect."""

    family: socket.AddressFamily
    sockaddr: tuple[Any, ...]


AddressCheck = Callable[[str], bool]
HostResolver = Callable[[str, int], list[Address]]


def is_public(address: str) -> bool:
    ip = ip_address(address.partition("%")[0])
    if ip.version == 6:
        if ip in NAT64:  # NAT64 embeds an IPv4 address; the embedded address decides
            return is_public(str(IPv4Address(int(ip) & 0xFFFF_FFFF)))
        if any(ip in network for network in AMBIGUOUS_NETWORKS):
            return False
    return ip.is_global and not (ip.is_private or ip.is_reserved or ip.is_multicast)


def is_host_allowed(host: str, hosts: Collection[str]) -> bool:
    """Return whether a list allows the host. `example.org` allows that host, `*.example.org` its subdomains, and `*` every host."""
    return any(
        host == pattern or pattern == "*" or (pattern.startswith("*.") and host.endswith(pattern[1:]))
        for pattern in (name.strip().rstrip(".").lower() for name in hosts)
    )


def resolve_host(host: str, port: int) -> list[Address]:
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # also raised when the name server is temporarily unreachable
        raise OutOfReach(f"There is no host {host[:200]}.") from None
    return [Address(family, sockaddr) for family, _, _, _, sockaddr in results]


def check_addresses(host: str, addresses: list[Address], allowed: AddressCheck) -> list[Address]:
    """Return the host's addresses if all of them are allowed.

    A single private address rejects the host, because a legitimate public host has none.
    """
    if not addresses or not all(allowed(str(address.sockaddr[0])) for address in addresses):
        raise Invalid(f"{host[:200]} does not resolve to a public address.")
    return addresses


def check_host(host: str, hosts: Collection[str]) -> None:
    """Raise Invalid unless the list allows the host."""
    if not is_host_allowed(host, hosts):
        raise Invalid(f"{host[:200]} is not an allowed host. Allowed: {', '.join(hosts)}.")


# Which receivers webhooks may be sent to.


def check_receiver(url: str, hosts: Collection[str]) -> Target:
    """Parse the address of a receiver, or raise Invalid."""
    target = parse_url(url)
    check_host(target.host, hosts)
    if target.scheme != "https" and not is_named(target.host, hosts):
        raise Invalid(
            "url must begin with https://. The operator can allow http:// for a host by naming it in HEADWAY_WEBHOOK_HOSTS."
        )
    return target


def is_named(host: str, hosts: Collection[str]) -> bool:
    """Whether the list names the host itself, rather than by a pattern."""
    return host in {name.strip().rstrip(".").lower() for name in hosts}


def get_address_check(host: str, hosts: Collection[str]) -> AddressCheck:
    """Return the rule for the addresses that the host may have."""
    return (lambda _address: True) if is_named(host, hosts) else is_public

"""Which receivers webhooks may be sent to.

The operator's list has the same form as that of `http_get`. A host that it names exactly is trusted: it may have a private address,
and be reached without TLS.
"""

from collections.abc import Collection

from headway.ledger.errors import Invalid
from headway.ledger.parsing.web_address import Target, parse_url
from headway.outbound.addresses import AddressCheck, check_host, is_public


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

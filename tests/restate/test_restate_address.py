"""The setting HEADWAY_DISPATCH."""

import pytest

from headway.dispatch.restate_address import HostPort, parse_address
from headway.ledger.errors import SettingsError
from headway.settings.parsing import parse_dispatch

KEY = "publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp"


def test_an_ingress_and_a_way_to_verify_deliveries_are_enough() -> None:
    address = parse_address("restate://restate.internal?identity_key=none")
    assert address.ingress == (HostPort("restate.internal", 8080),)
    assert address.listen == HostPort("127.0.0.1", 9080)
    assert address.endpoint == "http://127.0.0.1:9080"
    assert (address.admin, address.identity_key, address.service) == ((), "", "Headway")
    assert not address.needs_secret


def test_every_option_is_read() -> None:
    address = parse_address(
        f"restate://r1:1,[::1]:2/?listen=0.0.0.0:7000&admin=r1,r2:3&endpoint=http://workers:7000/&identity_key={KEY}&service=Blue"
    )
    assert address.ingress == (HostPort("r1", 1), HostPort("::1", 2))
    assert [str(place) for place in address.ingress] == ["r1:1", "[::1]:2"]
    assert address.listen == HostPort("0.0.0.0", 7000)
    assert address.admin == (HostPort("r1", 9070), HostPort("r2", 3))
    assert address.endpoint == "http://workers:7000"
    assert (address.identity_key, address.service) == (KEY, "Blue")


def test_an_address_of_other_machines_needs_a_key_or_a_decision() -> None:
    with pytest.raises(SettingsError, match="would accept deliveries from other machines"):
        parse_address("restate://r1?listen=0.0.0.0:9080")
    assert parse_address("restate://r1?listen=10.0.0.4:9080&identity_key=none").identity_key == ""


def test_workers_that_register_themselves_have_a_secret_url_unless_restate_signs() -> None:
    assert parse_address("restate://r1?admin=r1").needs_secret
    assert parse_address("restate://r1?admin=r1&identity_key=none").needs_secret
    assert not parse_address(f"restate://r1?admin=r1&identity_key={KEY}").needs_secret


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("temporal://r1", "must be empty or start with restate://"),
        ("restate://r1", "every program on this machine could deliver jobs"),
        ("restate://?admin=r1", "ingress must be HOST:PORT, not ''"),
        ("restate://r1,?admin=r1", "ingress must be HOST:PORT, not ''"),
        ("restate://r1:70000?admin=r1", "must be HOST:PORT"),
        ("restate://r1/path?admin=r1", "must be HOST:PORT"),
        ("restate://r1?listen=9080", "listen must be HOST:PORT"),
        ("restate://r1?listen=127.0.0.1", "listen must be HOST:PORT"),
        ("restate://r1?admin=", "admin must be HOST:PORT"),
        ("restate://r1?workers=3", "unknown option 'workers'"),
        ("restate://r1?service=a&service=b", "an option twice"),
        ("restate://r1?admin=r1&service=a-b", "service must be"),
        ("restate://r1?endpoint=workers:9080", "endpoint must be a URL"),
        ("restate://r1?identity_key=abc", "identity_key must be"),
        ("restate://r1?listen=0.0.0.0:9080&identity_key=none&admin=r1", "endpoint=http://HOST:9080"),
    ],
)
def test_a_wrong_address_is_refused_with_a_reason(address: str, problem: str) -> None:
    with pytest.raises(SettingsError, match="HEADWAY_DISPATCH") as caught:
        parse_dispatch("HEADWAY_DISPATCH", address)
    assert problem in str(caught.value)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_dispatch("HEADWAY_DISPATCH", "restate://me:hunter2@r1")
    assert "hunter2" not in str(caught.value)

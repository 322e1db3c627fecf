"""Tenants, and the tokens that authenticate their clients."""

import re
from functools import partial

import pytest

from headway.actions.access import tenants, tokens
from headway.ledger.errors import Invalid, NameTaken, NotFound, TextTooLong, Unauthorized, UnsafeText
from headway.ledger.tenancy import LOCAL_TENANT, Token
from headway.storage.direct import DirectDatabase
from headway.storage.stores import tenants as tenant_store
from headway.testing import FixedClock, TenantHarness


def authenticate(desk: TenantHarness, secret: str) -> Token | None:
    """Return the token that a secret authenticates, or None."""
    try:
        return desk.database.read(partial(tokens.authenticate, secret_digest=tokens.hash_secret(secret)))
    except Unauthorized:
        return None


def test_a_new_token_lets_its_tenant_in(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create, "laptop")

    assert re.fullmatch(r"hw_[A-Za-z0-9_-]{43}", created.secret)
    assert authenticate(desk, created.secret) == created.token
    assert (created.token.tenant_id, created.token.label, created.token.created_at) == (desk.tenant.id, "laptop", clock.now)


def test_tokens_are_unique(desk: TenantHarness) -> None:
    secrets = {desk.write(tokens.create).secret for _ in range(20)}

    assert len(secrets) == 20


def test_the_secret_is_kept_nowhere(desk: TenantHarness) -> None:
    secret = desk.write(tokens.create, "laptop").secret
    stored = desk.database.read(lambda tx: tx.all("SELECT * FROM tokens"))

    assert secret not in repr(stored)
    assert secret.removeprefix("hw_") not in repr(stored)


@pytest.mark.parametrize("wrong", ["", "hw_", "hw_" + "A" * 43])
def test_a_wrong_secret_is_refused(desk: TenantHarness, wrong: str) -> None:
    desk.write(tokens.create)

    assert authenticate(desk, wrong) is None


def test_a_revoked_token_is_refused_and_stays_listed_as_revoked(desk: TenantHarness, clock: FixedClock) -> None:
    valid, revoked = desk.write(tokens.create), desk.write(tokens.create)
    clock.advance(5)
    answer = desk.write(tokens.revoke, revoked.token.id)

    assert authenticate(desk, revoked.secret) is None
    assert authenticate(desk, valid.secret) == valid.token
    assert answer.revoked_at == clock.now
    assert desk.read(tenant_store.list_tokens) == [valid.token, answer]


def test_a_token_can_be_revoked_once(desk: TenantHarness) -> None:
    token = desk.write(tokens.create).token
    desk.write(tokens.revoke, token.id)

    for token_id in (token.id, 404):
        with pytest.raises(NotFound, match=f"No active token {token_id} in this tenant"):
            desk.write(tokens.revoke, token_id)


def test_a_token_remembers_when_it_was_last_used(desk: TenantHarness, clock: FixedClock) -> None:
    token = desk.write(tokens.create).token
    clock.advance(5)
    desk.database.write(lambda tx: tenant_store.touch_token(tx, token.id))

    assert desk.read(tenant_store.list_tokens) == [token._replace(last_used_at=clock.now)]


def test_an_expired_token_is_refused(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create, "an hour", 3600)
    clock.advance(3599)
    assert authenticate(desk, created.secret) == created.token

    clock.advance(1)
    assert authenticate(desk, created.secret) is None


@pytest.mark.parametrize(("label", "error"), [("nul\0", UnsafeText), ("\udfff", UnsafeText), ("x" * 201, TextTooLong)])
def test_a_bad_label_makes_no_token(desk: TenantHarness, label: str, error: type[Invalid]) -> None:
    with pytest.raises(error, match="label"):
        desk.write(tokens.create, label)
    assert desk.count("tokens") == 0


def test_a_tenants_name_is_taken_once(database: DirectDatabase) -> None:
    tenant = database.write(partial(tenants.add, name="acme"))

    assert tenant.name == "acme"
    with pytest.raises(NameTaken, match="'acme'"):
        database.write(partial(tenants.add, name="acme"))
    assert database.read(tenant_store.list_all) == [tenant]


@pytest.mark.parametrize(("name", "error"), [("", Invalid), ("a\nb", Invalid), ("\0", UnsafeText), ("x" * 201, TextTooLong)])
def test_a_bad_name_makes_no_tenant(database: DirectDatabase, name: str, error: type[Invalid]) -> None:
    with pytest.raises(error, match="tenant name"):
        database.write(partial(tenants.add, name=name))
    assert database.read(tenant_store.list_all) == []


@pytest.mark.parametrize("name", ["nobody", "", "x" * 100_000])
def test_an_unknown_tenant_name_is_not_found_in_a_short_line(database: DirectDatabase, name: str) -> None:
    with pytest.raises(NotFound, match=r"^No tenant named ") as refusal:
        database.read(partial(tenants.get_by_name, name=name))
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("name", ["nul\0", "half \ud800"])
def test_looking_for_a_tenant_whose_name_cannot_be_stored_is_refused(database: DirectDatabase, name: str) -> None:
    with pytest.raises(UnsafeText, match="tenant name"):
        database.read(partial(tenants.get_by_name, name=name))


def test_the_local_tenant_is_made_once(database: DirectDatabase) -> None:
    first, second = database.write(tenants.ensure_local), database.write(tenants.ensure_local)

    assert first == second
    assert [tenant.name for tenant in database.read(tenant_store.list_all)] == [LOCAL_TENANT]


def test_a_session_that_ends_by_itself_does_not_count_as_a_way_in_for_programs(desk: TenantHarness) -> None:
    desk.write(tokens.create, "browser session", 3600)
    assert not desk.database.read(tenant_store.has_permanent_token)

    desk.write(tokens.create)
    assert desk.database.read(tenant_store.has_permanent_token)

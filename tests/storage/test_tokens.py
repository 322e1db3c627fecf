"""Tenants, and the tokens that authenticate their clients."""

import json
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from headway.actions.access import local_tenant, tokens
from headway.actions.access.tokens import NewToken
from headway.actions.installation import tenants
from headway.ledger.errors import Conflict, Forbidden, Invalid, NameTaken, NotFound, TextTooLong, Unauthorized, UnsafeText
from headway.ledger.tenancy import LOCAL_TENANT, Token, TokenScope
from headway.storage.direct import DirectDatabase
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction
from headway.testing import FixedClock, TenantHarness
from tests.surfaces.server_harness import PATIENCE_S, wait_until
from tests.tables import each_row


def authenticate(desk: TenantHarness, secret: str) -> Token | None:
    """Return the token that a secret authenticates, or None."""
    try:
        return desk.database.read(partial(tokens.authenticate, secret_digest=tokens.hash_secret(secret)))
    except Unauthorized:
        return None


def test_a_new_token_lets_its_tenant_in(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create_token, "laptop")

    assert re.fullmatch(r"hw_[A-Za-z0-9_-]{43}", created.secret)
    assert authenticate(desk, created.secret) == created.token
    assert (created.token.tenant_id, created.token.label, created.token.created_at) == (desk.tenant.id, "laptop", clock.now)


def test_tokens_are_unique(desk: TenantHarness) -> None:
    secrets = {desk.write(tokens.create_token).secret for _ in range(20)}

    assert len(secrets) == 20


def test_the_secret_is_kept_nowhere(desk: TenantHarness) -> None:
    secret = desk.write(tokens.create_token, "laptop").secret
    stored = desk.database.read(lambda tx: tx.all("SELECT * FROM tokens"))

    assert secret not in repr(stored)
    assert secret.removeprefix("hw_") not in repr(stored)


@each_row("wrong", ["", "hw_", "hw_" + "A" * 43])
def test_a_wrong_secret_is_refused(desk: TenantHarness, wrong: str) -> None:
    desk.write(tokens.create_token)

    assert authenticate(desk, wrong) is None


def test_a_revoked_token_is_refused_and_stays_listed_as_revoked(desk: TenantHarness, clock: FixedClock) -> None:
    valid, revoked = desk.write(tokens.create_token), desk.write(tokens.create_token)
    clock.advance(5)
    answer = desk.write(tokens.revoke, revoked.token.id)

    assert authenticate(desk, revoked.secret) is None
    assert authenticate(desk, valid.secret) == valid.token
    assert answer.revoked_at == clock.now
    assert desk.read(tenant_store.list_tokens) == [valid.token, answer]


def test_a_token_can_be_revoked_once(desk: TenantHarness) -> None:
    token = desk.write(tokens.create_token).token
    desk.write(tokens.revoke, token.id)

    for token_id in (token.id, 404):
        with pytest.raises(NotFound, match=f"No active token {token_id} in this tenant"):
            desk.write(tokens.revoke, token_id)


def test_a_token_remembers_when_it_was_last_used(desk: TenantHarness, clock: FixedClock) -> None:
    token = desk.write(tokens.create_token).token
    clock.advance(5)
    desk.database.write(lambda tx: tenant_store.touch_token(tx, token))

    assert desk.read(tenant_store.list_tokens) == [token._replace(last_used_at=clock.now)]


def test_an_expired_token_is_refused(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create_token, "an hour", 3600)
    clock.advance(3599)
    assert authenticate(desk, created.secret) == created.token

    clock.advance(1)
    assert authenticate(desk, created.secret) is None


@each_row(("label", "error"), [("nul\0", UnsafeText), ("\udfff", UnsafeText), ("x" * 201, TextTooLong)])
def test_a_bad_label_makes_no_token(desk: TenantHarness, label: str, error: type[Invalid]) -> None:
    with pytest.raises(error, match="label"):
        desk.write(tokens.create_token, label)
    assert desk.count("tokens") == 0


def test_a_tenants_name_is_taken_once(database: DirectDatabase) -> None:
    tenant = database.write(partial(tenants.add_tenant, name="acme"))

    assert tenant.name == "acme"
    with pytest.raises(NameTaken, match="'acme'"):
        database.write(partial(tenants.add_tenant, name="acme"))
    assert database.read(tenant_store.list_all_tenants) == [tenant]


@each_row(("name", "error"), [("", Invalid), ("a\nb", Invalid), ("\0", UnsafeText), ("x" * 201, TextTooLong)])
def test_a_bad_name_makes_no_tenant(database: DirectDatabase, name: str, error: type[Invalid]) -> None:
    with pytest.raises(error, match="tenant name"):
        database.write(partial(tenants.add_tenant, name=name))
    assert database.read(tenant_store.list_all_tenants) == []


@each_row("name", ["nobody", "", "x" * 100_000])
def test_an_unknown_tenant_name_is_not_found_in_a_short_line(database: DirectDatabase, name: str) -> None:
    with pytest.raises(NotFound, match=r"^No tenant named ") as refusal:
        database.read(partial(tenants.get_by_name, name=name))
    assert len(str(refusal.value)) < 200


@each_row("name", ["nul\0", "half \ud800"])
def test_looking_for_a_tenant_whose_name_cannot_be_stored_is_refused(database: DirectDatabase, name: str) -> None:
    with pytest.raises(UnsafeText, match="tenant name"):
        database.read(partial(tenants.get_by_name, name=name))


def test_the_local_tenant_is_made_once(database: DirectDatabase) -> None:
    first, second = database.write(local_tenant.ensure_local), database.write(local_tenant.ensure_local)

    assert first == second
    assert [tenant.name for tenant in database.read(tenant_store.list_all_tenants)] == [LOCAL_TENANT]


def test_a_session_does_not_count_as_a_way_in_for_programs_and_neither_does_an_expired_token(
    desk: TenantHarness, clock: FixedClock
) -> None:
    desk.write(tokens.open_link_session)
    assert not desk.database.read(tokens.has_active)

    desk.write(tokens.create_token, "", 3600)
    assert desk.database.read(tokens.has_active)
    clock.advance(3600)
    assert not desk.database.read(tokens.has_active)


# Scopes


@each_row(("scope", "scopes"), [("read", ["read"]), ("write", ["read", "write"]), ("admin", ["read", "write", "admin"])])
def test_a_scope_includes_the_smaller_ones(desk: TenantHarness, scope: TokenScope, scopes: list[str]) -> None:
    assert desk.write(tokens.create_token, scope=scope).token.as_json()["scopes"] == scopes


@each_row("lifetime_s", [0, -1, 0.5, 1e12])
def test_a_lifetime_that_makes_no_sense_is_refused(desk: TenantHarness, lifetime_s: float) -> None:
    with pytest.raises(Invalid, match=r"1 second to 3,650 days"):
        desk.write(tokens.create_token, "", lifetime_s)
    assert desk.count("tokens") == 0


# Sessions


def open_session(desk: TenantHarness, secret: str) -> NewToken:
    return desk.database.write(partial(tokens.open_session, secret_digest=tokens.hash_secret(secret)))


@each_row("end", [tokens.revoke, partial(tokens.rotate, overlap_s=0)])
def test_sessions_end_with_their_token_and_with_no_other(desk: TenantHarness, end: Callable[..., object]) -> None:
    ended, other = desk.write(tokens.create_token), desk.write(tokens.create_token)
    sessions = [open_session(desk, ended.secret), open_session(desk, ended.secret)]
    stays = open_session(desk, other.secret)
    desk.write(end, token_id=ended.token.id)

    assert [authenticate(desk, session.secret) for session in sessions] == [None, None]
    assert authenticate(desk, stays.secret) == stays.token


def test_a_session_expires_with_its_token_and_has_its_scopes(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create_token, "a week", 7 * 86400, "read")
    session = open_session(desk, created.secret).token

    assert (session.expires_at, session.scopes, session.session_of) == (created.token.expires_at, "read", created.token.id)
    unlimited = open_session(desk, desk.write(tokens.create_token).secret).token
    assert unlimited.expires_at == clock.now + 30 * 86400 * 1000


def test_a_session_cannot_be_renewed_or_rotated(desk: TenantHarness) -> None:
    sessions = [open_session(desk, desk.write(tokens.create_token).secret), desk.write(tokens.open_link_session)]
    rows = desk.count("tokens")
    for session in sessions:
        with pytest.raises(Forbidden, match="Sign in with a token"):
            open_session(desk, session.secret)
        with pytest.raises(Invalid, match="is a browser session"):
            desk.write(tokens.rotate, session.token.id)
    assert desk.count("tokens") == rows


def test_the_use_of_a_session_is_the_use_of_its_token(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create_token)
    session = open_session(desk, created.secret).token
    assert desk.read(tokens.list_all_tokens)[0].last_used_at == clock.now
    clock.advance(600)
    desk.database.write(lambda tx: tokens.record_use(tx, session))

    assert [token.last_used_at for token in desk.read(tokens.list_all_tokens)] == [clock.now, clock.now]


def test_sessions_that_have_ended_are_not_listed_and_are_deleted_by_the_next_one(desk: TenantHarness, clock: FixedClock) -> None:
    created = desk.write(tokens.create_token)
    signed_out, _expired = open_session(desk, created.secret), open_session(desk, created.secret)
    desk.database.write(partial(tokens.sign_out, secret_digest=tokens.hash_secret(signed_out.secret)))
    assert len(desk.read(tokens.list_all_tokens)) == 2
    clock.advance(31 * 86400)
    assert [token.id for token in desk.read(tokens.list_all_tokens)] == [created.token.id]

    open_session(desk, created.secret)
    assert desk.count("tokens") == 2


def test_a_token_has_a_limited_number_of_sessions(sqlite_url: str) -> None:
    with DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database, "acme")
        created, other = desk.write(tokens.create_token), desk.write(tokens.create_token)
        stays = open_session(desk, other.secret)
        opened = database.write(
            lambda tx: [tokens.open_session(tx, tokens.hash_secret(created.secret)) for _ in range(tokens.MAX_SESSIONS + 1)]
        )

        assert desk.count("tokens") == 3 + tokens.MAX_SESSIONS
        assert [bool(authenticate(desk, session.secret)) for session in (opened[0], opened[1], opened[-1], stays)] == [
            False,
            True,
            True,
            True,
        ]


def test_a_session_that_is_opened_while_its_token_is_revoked_ends_too(postgres_url: str) -> None:
    """The revocation waits for the session's transaction, and must then see the session."""
    with DirectDatabase(postgres_url) as ours, DirectDatabase(postgres_url) as theirs, ThreadPoolExecutor(1) as pool:
        desk = TenantHarness(ours, "acme")
        created = desk.write(tokens.create_token)
        ours.write(lambda tx: tokens.record_use(tx, created.token))  # so that the session's transaction does not
        revocations: list[Future[Token]] = []

        def begin(tx: Transaction) -> NewToken:
            session = tokens.open_session(tx, tokens.hash_secret(created.secret))
            revocations.append(pool.submit(theirs.write, lambda tx: tokens.revoke(tx, desk.tenant.id, created.token.id)))
            waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            wait_until(lambda: tx.one("SELECT pg_stat_clear_snapshot()") is not None and tx.one(waiting) is not None, "the lock")
            return session

        session = ours.write(begin)
        revocations[0].result(PATIENCE_S)
        assert authenticate(desk, session.secret) is None


# Rotation


def test_a_rotated_token_and_its_sessions_work_until_the_overlap_is_over(desk: TenantHarness, clock: FixedClock) -> None:
    old = desk.write(tokens.create_token, "ci", 90 * 86400, "admin")
    session = open_session(desk, old.secret)
    clock.advance(86400)
    new, replaced = desk.write(tokens.rotate, old.token.id, 600)

    assert (new.token.label, new.token.scopes, replaced.replaced_by) == ("ci", "read,write,admin", new.token.id)
    assert new.token.expires_at == clock.now + 90 * 86400 * 1000
    clock.advance(599)
    assert all(authenticate(desk, secret) for secret in (old.secret, session.secret, new.secret))
    clock.advance(1)
    assert [bool(authenticate(desk, secret)) for secret in (old.secret, session.secret, new.secret)] == [False, False, True]


def test_an_overlap_never_extends_a_token(desk: TenantHarness) -> None:
    token = desk.write(tokens.create_token, "", 60).token

    assert desk.write(tokens.rotate, token.id, 3600).replaced.expires_at == token.expires_at


def test_a_token_is_rotated_once(desk: TenantHarness) -> None:
    token = desk.write(tokens.create_token).token
    successor = desk.write(tokens.rotate, token.id).created.token

    with pytest.raises(Conflict, match=f"token {successor.id} replaces it"):
        desk.write(tokens.rotate, token.id)
    with pytest.raises(Invalid, match="0 seconds to 30 days"):
        desk.write(tokens.rotate, successor.id, 31 * 86400)
    assert desk.count("tokens") == 2


# Everything at once, and the audit log


def test_revoking_all_ends_every_token_and_session_of_the_tenant_alone(desk: TenantHarness) -> None:
    rival = TenantHarness(desk.database, "rival")
    theirs = rival.write(tokens.create_token)
    ours = [desk.write(tokens.create_token), desk.write(tokens.create_token, "", 3600), desk.write(tokens.open_link_session)]
    ours.append(open_session(desk, ours[0].secret))

    assert {token.id for token in desk.write(tokens.revoke_all)} == {created.token.id for created in ours}
    assert [authenticate(desk, created.secret) for created in ours] == [None] * 4
    assert authenticate(desk, theirs.secret) == theirs.token
    assert desk.write(tokens.revoke_all) == []


def test_everything_is_in_the_audit_log_without_a_secret(desk: TenantHarness) -> None:
    created = desk.write(tokens.create_token, "ci")
    session = open_session(desk, created.secret)
    desk.database.write(partial(tokens.sign_out, secret_digest=tokens.hash_secret(session.secret)))
    rotation = desk.write(tokens.rotate, created.token.id)
    desk.write(tokens.revoke, created.token.id)
    desk.write(tokens.revoke_all)
    columns = "who, action, target, old, new"
    entries = desk.read(lambda tx, tenant_id: tx.all(f"SELECT {columns} FROM audit WHERE tenant_id = ? ORDER BY seq", tenant_id))

    first, second, last = (f"token:{token.id}" for token in (created.token, session.token, rotation.created.token))
    assert [(who, action, target) for who, action, target, _old, _new in entries] == [
        ("headway", "token.create", first),
        (f"ci (token {created.token.id})", "session.open", second),
        (f"ci (token {session.token.id})", "session.end", second),
        ("headway", "token.create", last),
        ("headway", "token.rotate", first),
        ("headway", "token.revoke", first),
        ("headway", "token.revoke_all", f"tenant:{desk.tenant.id}"),
    ]
    assert json.loads(entries[4][3]) == {"expires_at": 0, "replaced_by": None}
    assert json.loads(entries[4][4])["replaced_by"] == rotation.created.token.id
    assert all(secret not in repr(entries) for secret in (created.secret, session.secret, rotation.created.secret))

"""A revocation races with everything that a token can be turned into: sessions, new tokens, successors. Nothing survives it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Barrier

import pytest

from headway.actions.access import tokens
from headway.ledger.errors import Unauthorized
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.proofs import Proof
from tests.surfaces.server_harness import PATIENCE_S

ATTEMPTS = 20  # of each thread, before its token is refused


def open_session(tx: Transaction, digest: str) -> None:
    tokens.open_session(tx, digest)


def create(tx: Transaction, digest: str) -> None:
    tokens.create_with_token(tx, tokens.authenticate_for("manage_tokens")(tx, digest), "more", None, "admin")


def rotate(tx: Transaction, digest: str) -> None:
    caller = tokens.authenticate_for("manage_tokens")(tx, digest)
    spare = tokens.create_with_token(tx, caller, "spare", None, "admin").token
    tokens.rotate(tx, caller.tenant_id, spare.id, 3600, caller)


def attack(database: DirectDatabase, act: Callable[[Transaction, str], None], digest: str, together: Barrier) -> None:
    together.wait()
    with suppress(Unauthorized):  # the token is revoked
        for _ in range(ATTEMPTS):
            database.write(lambda tx: act(tx, digest))


@pytest.mark.proof
def test_nothing_that_a_token_was_turned_into_survives_the_revocation(database_url: str, proof: Proof) -> None:
    with ExitStack() as stack:
        databases = [stack.enter_context(DirectDatabase(database_url)) for _ in range(4)]
        pool = stack.enter_context(ThreadPoolExecutor(4))
        for n in range(proof.trials("revocations against logins, new tokens and rotations", share=3, whole=300)):
            desk = TenantHarness(databases[0], f"tenant {n}")
            digest = tokens.hash_secret(desk.write(tokens.create_token, scope="admin").secret)
            together = Barrier(4, timeout=PATIENCE_S)
            pairs = zip(databases[1:], (open_session, create, rotate), strict=True)
            attacks = [pool.submit(attack, *pair, digest, together) for pair in pairs]
            together.wait()
            desk.write(tokens.revoke_all)
            for running in attacks:
                running.result(PATIENCE_S)
            assert not [token for token in desk.read(tokens.list_all_tokens) if not token.revoked_at]

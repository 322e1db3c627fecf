"""Doing a thing once however often it is asked for: the answer is stored in the transaction of what it answers."""

from collections.abc import Callable
from typing import NamedTuple

from headway.ledger import text
from headway.ledger.errors import Invalid, KeyReused
from headway.storage.stores import idempotency as idempotency_store
from headway.storage.transaction import Transaction

RETENTION_MS = 24 * 3600 * 1000
KEY_LIMIT = 255


class IdempotentRequest(NamedTuple):
    """What makes a request the same request."""

    route: str
    key: str
    body_hash: str


class Answer(NamedTuple):
    """A finished answer, as a surface will send it."""

    status: int
    body: str


def run_once(tx: Transaction, tenant_id: int, asked: IdempotentRequest, work: Callable[[Transaction], Answer]) -> Answer:
    """The answer of the first time. Two that arrive together: the database makes one wait for the other."""
    if not 1 <= len(asked.key) <= KEY_LIMIT or not asked.key.isascii() or not asked.key.isprintable():
        raise Invalid(f"Idempotency-Key must be 1 to {KEY_LIMIT} printable ASCII characters.")
    route = text.check_text(asked.route, "route")
    if idempotency_store.reserve(tx, tenant_id, route, asked.key, asked.body_hash, tx.now - RETENTION_MS):
        answer = work(tx)
        idempotency_store.save_answer(tx, tenant_id, route, asked.key, answer.status, answer.body)
        return answer
    known = idempotency_store.find(tx, tenant_id, route, asked.key)
    if known is None or known.body_hash != asked.body_hash:
        raise KeyReused
    return Answer(known.status, known.answer)


def delete_expired(tx: Transaction) -> None:
    """Housekeeping: what is too old to be given again."""
    idempotency_store.delete_before(tx, tx.now - RETENTION_MS)

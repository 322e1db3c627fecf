"""Idempotency: a request with the same key runs once. Its answer is stored in the transaction that did the work."""

from collections.abc import Callable
from typing import NamedTuple

from headway.ledger import text
from headway.ledger.errors import Invalid, KeyReused
from headway.storage.stores import idempotency as idempotency_store
from headway.storage.transaction import Transaction

RETENTION_MS = 24 * 3600 * 1000
KEY_LIMIT = 255


class IdempotentRequest(NamedTuple):
    """The properties that identify a repeated request."""

    route: str
    key: str
    body_hash: str


class Answer(NamedTuple):
    """A finished answer, ready for a surface to send."""

    status: int
    body: str


def run_once(tx: Transaction, tenant_id: int, request: IdempotentRequest, work: Callable[[Transaction], Answer]) -> Answer:
    """Run the work, or return the stored answer of the first time. If two requests arrive together, the database makes one wait."""
    check_request(request)
    if idempotency_store.reserve(tx, tenant_id, request.route, request.key, request.body_hash, tx.now - RETENTION_MS):
        answer = work(tx)
        idempotency_store.save_answer(tx, tenant_id, request.route, request.key, answer.status, answer.body)
        return answer
    stored = find_answer(tx, tenant_id, request)
    if stored is None:
        raise KeyReused
    return stored


def find_answer(tx: Transaction, tenant_id: int, request: IdempotentRequest) -> Answer | None:
    """Return the answer that is stored for a request, if it was answered before."""
    check_request(request)
    stored = idempotency_store.find_stored_answer(tx, tenant_id, request.route, request.key)
    if stored is None:
        return None
    if stored.body_hash != request.body_hash:
        raise KeyReused
    return Answer(stored.status, stored.answer)


def check_request(request: IdempotentRequest) -> None:
    if not 1 <= len(request.key) <= KEY_LIMIT or not request.key.isascii() or not request.key.isprintable():
        raise Invalid(f"Idempotency-Key must be 1 to {KEY_LIMIT} printable ASCII characters.")
    text.check_text(request.route, "route")


def delete_expired(tx: Transaction) -> None:
    """Delete answers that are too old to be repeated."""
    idempotency_store.delete_before(tx, tx.now - RETENTION_MS)

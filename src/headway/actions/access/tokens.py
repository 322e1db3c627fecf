"""Access tokens. A browser session is a token that lives in a cookie."""

import os
from typing import NamedTuple

from headway.actions.access import audit
from headway.ledger import text
from headway.ledger.errors import Forbidden, NotFound, Unauthorized
from headway.ledger.tenancy import Token
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

TOKEN_PREFIX = "hw_"  # noqa: S105  prefix of every token, so that leaked ones can be searched for
USE_INTERVAL_MS = 60_000


class NewToken(NamedTuple):
    token: Token
    secret: str


def create(tx: Transaction, tenant_id: int, label: str = "", lifetime_s: int | None = None, *, operator: bool = False) -> NewToken:
    """Create a token with 256 random bits. Only its hash is stored; the secret is returned here and never again."""
    from base64 import urlsafe_b64encode  # noqa: PLC0415  every command loads this module, but few create a token

    secret = TOKEN_PREFIX + urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    label = text.check_text(label, "label", text.NAME_LIMIT)
    expires_at = 0 if lifetime_s is None else tx.now + lifetime_s * 1000
    token = tenant_store.insert_token(tx, tenant_id, hash_secret(secret), label, expires_at, operator=operator)
    audit.record(tx, tenant_id, "token.create", f"token:{token.id}", new=token.as_json())
    return NewToken(token, secret)


def list_all(tx: Transaction, tenant_id: int) -> list[Token]:
    return tenant_store.list_tokens(tx, tenant_id)


def has_permanent(tx: Transaction) -> bool:
    """Whether a token exists that programs can use. (Browser sessions, which expire, do not count.)"""
    return tenant_store.has_permanent_token(tx)


def revoke(tx: Transaction, tenant_id: int, token_id: int) -> Token:
    token = tenant_store.revoke_token(tx, tenant_id, token_id)
    if token is None:
        raise NotFound(f"No active token {token_id} in this tenant.")
    audit.record(tx, tenant_id, "token.revoke", f"token:{token.id}", new={"revoked_at": token.revoked_at // 1000})
    return token


def authenticate(tx: Transaction, secret_digest: str) -> Token:
    """Return the active token with this hash, or raise Unauthorized."""
    token = tenant_store.find_token(tx, secret_digest)
    if token is None:
        raise Unauthorized
    tx.credential = f"token {token.id}"
    return token


def authenticate_operator(tx: Transaction, secret_digest: str) -> Token:
    """Return a token that may act for the whole installation, or raise an error."""
    token = authenticate(tx, secret_digest)
    if not token.operator:
        raise Forbidden("This needs a token with the operator grant: `headway token new --operator` creates one.")
    return token


def is_use_due(tx: Transaction, token: Token) -> bool:
    """Whether to record the token's use again: once a minute, because a write with each request would double its cost."""
    return tx.now - token.last_used_at >= USE_INTERVAL_MS


def record_use(tx: Transaction, token: Token) -> None:
    if is_use_due(tx, token):
        tenant_store.touch_token(tx, token.id)


def sign_out(tx: Transaction, secret_digest: str) -> None:
    token = authenticate(tx, secret_digest)
    revoke(tx, token.tenant_id, token.id)


def hash_secret(secret: str) -> str:
    import hashlib  # noqa: PLC0415  every command loads this module, and loading OpenSSL takes 4 ms

    # A fast hash is safe here: the secret has 256 random bits, so it cannot be guessed.
    return hashlib.sha256(secret.encode()).hexdigest()

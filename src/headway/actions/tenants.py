"""Tenants and their access tokens."""

import os
from typing import NamedTuple

from headway.ledger import text
from headway.ledger.errors import Forbidden, NameTaken, NotFound, Unauthorized
from headway.ledger.tenancy import LOCAL_TENANT, Tenant, Token
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

TOKEN_PREFIX = "hw_"  # noqa: S105  prefix of every token, so that leaked ones can be searched for

USE_INTERVAL_MS = 60_000


class NewToken(NamedTuple):
    token: Token
    secret: str


def add(tx: Transaction, name: str) -> Tenant:
    name = text.check_name(name, "tenant name")
    tenant = tenant_store.insert(tx, name)
    if tenant is None:
        raise NameTaken(f"A tenant named {name!r} already exists.")
    return tenant


def get_by_name(tx: Transaction, name: str) -> Tenant:
    tenant = tenant_store.find_by_name(tx, text.check_text(name, "tenant name"))
    if tenant is None:
        raise NotFound(f"No tenant named {name[:80]!r}. `headway tenant list` shows all tenants.")
    return tenant


def get(tx: Transaction, tenant_id: int) -> Tenant:
    tenant = tenant_store.find(tx, tenant_id)
    if tenant is None:
        raise NotFound(f"No tenant {tenant_id}.")
    return tenant


def list_all(tx: Transaction) -> list[Tenant]:
    return tenant_store.list_all(tx)


def find_local(tx: Transaction) -> Tenant | None:
    """Return the tenant that local commands use, if it exists yet."""
    return tenant_store.find_by_name(tx, LOCAL_TENANT)


def ensure_local(tx: Transaction) -> Tenant:
    return find_local(tx) or tenant_store.insert(tx, LOCAL_TENANT) or get_by_name(tx, LOCAL_TENANT)


def resolve(tx: Transaction, name: str) -> Tenant:
    """Return the tenant with this name. The local tenant is created on demand."""
    return ensure_local(tx) if name == LOCAL_TENANT else get_by_name(tx, name)


def remove(tx: Transaction, name: str) -> list[tuple[str, int]]:
    """Delete the tenant and its rows. Returns (UUID, id) of its conversations, whose files are deleted after the commit."""
    tenant = get_by_name(tx, name)
    files = conversation_store.file_names(tx, tenant.id)
    tenant_store.delete(tx, tenant.id)
    return files


def create_token(
    tx: Transaction, tenant_id: int, label: str = "", lifetime_s: int | None = None, *, operator: bool = False
) -> NewToken:
    """Create a token with 256 random bits. Only its hash is stored; the secret is returned here and never again."""
    from base64 import urlsafe_b64encode  # noqa: PLC0415  every command loads this module, but few create a token

    secret = TOKEN_PREFIX + urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")
    label = text.check_text(label, "label", text.NAME_LIMIT)
    expires_at = 0 if lifetime_s is None else tx.now + lifetime_s * 1000
    return NewToken(tenant_store.insert_token(tx, tenant_id, hash_secret(secret), label, expires_at, operator=operator), secret)


def list_tokens(tx: Transaction, tenant_id: int) -> list[Token]:
    return tenant_store.list_tokens(tx, tenant_id)


def has_permanent_token(tx: Transaction) -> bool:
    """Whether a token exists that programs can use. (Browser sessions, which expire, do not count.)"""
    return tenant_store.has_permanent_token(tx)


def revoke_token(tx: Transaction, tenant_id: int, token_id: int) -> Token:
    token = tenant_store.revoke_token(tx, tenant_id, token_id)
    if token is None:
        raise NotFound(f"No active token {token_id} in this tenant.")
    return token


def authenticate(tx: Transaction, secret_digest: str) -> Token:
    """Return the active token with this hash, or raise Unauthorized."""
    token = tenant_store.find_token(tx, secret_digest)
    if token is None:
        raise Unauthorized
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
    revoke_token(tx, token.tenant_id, token.id)


def hash_secret(secret: str) -> str:
    import hashlib  # noqa: PLC0415  every command loads this module, and loading OpenSSL takes 4 ms

    # A fast hash is safe here: the secret has 256 random bits, so it cannot be guessed.
    return hashlib.sha256(secret.encode()).hexdigest()

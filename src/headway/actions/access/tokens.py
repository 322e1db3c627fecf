"""Access tokens. A browser session is a token that lives in a cookie and ends with the token that opened it."""

import os
from typing import Any, Final, NamedTuple, Protocol

from headway.actions.access import audit, rights
from headway.actions.access.rights import Right
from headway.cells import redirects
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from headway.ledger.tenancy import (
    LINK_SESSION,
    LOCAL_TENANT,
    LOGIN_LINK,
    TOKEN_PREFIX,
    TOKEN_SCOPES,
    Token,
    TokenFilter,
    TokenScope,
)
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

# The same for every reason, and without a path: the caller may be a stranger.
UNKNOWN: Final = (
    "This token is not valid here. It was revoked, has expired, or belongs to another installation: a token works only with the "
    "home (HEADWAY_HOME) and the database in which `headway token add` created it. `headway serve` prints which ones it uses."
)
USE_INTERVAL_MS = 60_000
MAX_LIFETIME_S: Final = 3650 * 86400
MAX_OVERLAP_S: Final = 30 * 86400
DEFAULT_OVERLAP_S: Final = 3600
LINK_LABEL: Final = "login link"
LINK_LIFETIME_S: Final = 600
SESSION_LABEL: Final = "browser session"
SESSION_LIFETIME_S: Final = 30 * 24 * 3600
MAX_SESSIONS: Final = 500  # of a token; the next one ends the oldest
CURSORS: Final = CursorCodec("tokens", (MAX_INTEGER,))


class Authenticate(Protocol):
    def __call__(self, tx: Transaction, secret_digest: str) -> Token: ...


class NewToken(NamedTuple):
    token: Token
    secret: str


class Rotation(NamedTuple):
    """A token that replaces another one, which still works for a while."""

    created: NewToken
    replaced: Token


def create_token(
    tx: Transaction, tenant_id: int, label: str = "", lifetime_s: float | None = None, scope: TokenScope = "write"
) -> NewToken:
    """Create a token with 256 random bits. Only its hash is stored; the secret is returned here and never again."""
    check_scope(tx, tenant_id, scope)
    return insert_new_token(tx, tenant_id, label, list_scopes(scope), compute_expiry(tx, lifetime_s))


def create_with_token(tx: Transaction, caller: Token, label: str, lifetime_s: float | None, scope: TokenScope) -> NewToken:
    """Create a token for another one, which it cannot outlive, so it gives access for no longer. An operator's token needs one."""
    lock(tx, caller)
    if scope == "operator":
        rights.check_right(tx, caller, "manage_operator_tokens")
    expires_at = compute_expiry(tx, lifetime_s) or caller.expires_at
    if caller.expires_at and expires_at > caller.expires_at:
        raise Forbidden(
            f"A token cannot outlive the one that creates it, which expires in {(caller.expires_at - tx.now) // 1000:,} seconds. "
            "Nothing was created. Ask for less, or omit `expires_s`."
        )
    return insert_new_token(tx, caller.tenant_id, label, list_scopes(scope), expires_at)


def check_scope(tx: Transaction, tenant_id: int, scope: TokenScope) -> None:
    """Raise Invalid if tokens of this tenant cannot have the scope."""
    tenant = tenant_store.find_tenant(tx, tenant_id) if scope == "operator" else None
    if tenant is not None and tenant.name != LOCAL_TENANT:
        raise Invalid(
            f"Only tokens of the tenant `{LOCAL_TENANT}` can have the scope `operator`, because it is for those who run the "
            "installation. Nothing was created. The scope `admin` is for the administrators of a tenant."
        )


def compute_expiry(tx: Transaction, lifetime_s: float | None) -> int:
    if lifetime_s is None:
        return 0
    if not 1 <= lifetime_s <= MAX_LIFETIME_S:
        raise Invalid(f"A token can expire in 1 second to {MAX_LIFETIME_S // 86400:,} days.")
    return tx.now + int(lifetime_s * 1000)


def insert_new_token(tx: Transaction, tenant_id: int, label: str, scopes: str, expires_at: int) -> NewToken:
    return store(tx, tenant_id, label, scopes, expires_at, generate_secret(redirects.get_own_name(tx)))


def store(tx: Transaction, tenant_id: int, label: str, scopes: str, expires_at: int, secret: str) -> NewToken:
    label = text.check_text(label, "label", text.NAME_LIMIT)
    token = tenant_store.insert_token(tx, tenant_id, hash_secret(secret), label, scopes, expires_at)
    audit.record_in_audit(tx, tenant_id, "token.create", f"token:{token.id}", new=token.as_json())
    return NewToken(token, secret)


def bootstrap(tx: Transaction, tenant_id: int, secret: str) -> None:
    """Create an operator's token whose secret the operator has chosen, unless it exists. One that was revoked stays revoked."""
    if not tenant_store.is_known_token(tx, tenant_id, hash_secret(secret)):
        store(tx, tenant_id, "bootstrap", list_scopes("operator"), 0, secret)


def list_scopes(scope: TokenScope) -> str:
    """List the scopes that a scope includes, separated by commas."""
    return ",".join(TOKEN_SCOPES[: TOKEN_SCOPES.index(scope) + 1])


def list_all_tokens(tx: Transaction, tenant_id: int) -> list[Token]:
    """List the tokens, and the sessions that have not ended."""
    return tenant_store.list_tokens(tx, tenant_id)


def list_tokens(
    tx: Transaction, tenant_id: int, chosen: TokenFilter, limit: int, cursor: str | None = None, caller: Token | None = None
) -> dict[str, Any]:
    """List a page of tokens and active sessions of a tenant, newest first. `current` marks what the caller would lock itself out by
    revoking: its own token, and the one that its session was opened with."""
    (before,) = CURSORS.decode(cursor)
    own = (caller.id, caller.session_of) if caller else ()
    rows = tenant_store.list_token_page(tx, tenant_id, chosen, limit + 1, before)
    return {
        "tokens": [{**token.as_json(), "current": token.id in own} for token in rows[:limit]],
        "next_cursor": CURSORS.encode_next(rows, limit, lambda token: (token.id,)),
    }


def has_active(tx: Transaction) -> bool:
    """Whether a token exists that programs can use. (Browser sessions do not count.)"""
    return tenant_store.has_active_token(tx)


def rotate(
    tx: Transaction, tenant_id: int, token_id: int, overlap_s: float = DEFAULT_OVERLAP_S, caller: Token | None = None
) -> Rotation:
    """Create a token that replaces another one, with the same label, scopes and lifetime. The old one and its sessions end after
    `overlap_s`. A successor that a token creates cannot outlive that token. Only an operator's token replaces another one."""
    if not 0 <= overlap_s <= MAX_OVERLAP_S:
        raise Invalid(f"The overlap can be 0 seconds to {MAX_OVERLAP_S // 86400} days.")
    if caller is not None:
        lock(tx, caller)
    old = tenant_store.lock_token(tx, tenant_id, token_id)
    if old is None:
        raise NotFound(f"No active token {token_id} in this tenant.")
    refuse_operator_token(tx, old, caller)
    if old.is_session:
        raise Invalid(f"Token {token_id} is a browser session. Sign in again to get a new one.")
    if old.replaced_by:
        raise Conflict(f"Token {token_id} was already rotated: token {old.replaced_by} replaces it. Rotate or revoke that one.")
    expires_at = tx.now + old.expires_at - old.created_at if old.expires_at else 0
    if caller is not None and caller.expires_at:
        expires_at = min(expires_at or caller.expires_at, caller.expires_at)
    created = insert_new_token(tx, tenant_id, old.label, old.scopes, expires_at)
    replaced = tenant_store.replace_token(tx, tenant_id, token_id, created.token.id, tx.now + int(overlap_s * 1000))
    before, after = old.as_json(), replaced.as_json()
    changed = ("expires_at", "replaced_by")
    audit.record_in_audit(
        tx, tenant_id, "token.rotate", f"token:{token_id}", *({key: row[key] for key in changed} for row in (before, after))
    )
    if not overlap_s:
        replaced = revoke(tx, tenant_id, token_id)
    return Rotation(created, replaced)


def revoke(tx: Transaction, tenant_id: int, token_id: int, caller: Token | None = None) -> Token:
    """Revoke a token or end a session. The sessions of a token end with it. Only an operator's token ends another one."""
    token = tenant_store.revoke_token(tx, tenant_id, token_id)
    if token is None:
        raise NotFound(f"No active token {token_id} in this tenant.")
    refuse_operator_token(tx, token, caller)
    action = "session.end" if token.is_session else "token.revoke"
    audit.record_in_audit(tx, tenant_id, action, f"token:{token.id}", new={"revoked_at": token.revoked_at // 1000})
    return token


def revoke_all(tx: Transaction, tenant_id: int) -> list[Token]:
    """Revoke every token of a tenant and end every session."""
    revoked = tenant_store.revoke_all_tokens(tx, tenant_id)
    if revoked:
        audit.record_in_audit(
            tx, tenant_id, "token.revoke_all", f"tenant:{tenant_id}", new={"tokens": sorted(token.id for token in revoked)}
        )
    return revoked


def refuse_operator_token(tx: Transaction, token: Token, caller: Token | None) -> None:
    """Raise OperatorOnly if a caller below the operator would replace or end an operator's token. Commands have no caller."""
    if caller is not None and token.operator:
        rights.check_right(tx, caller, "manage_operator_tokens")


def lock(tx: Transaction, token: Token) -> None:
    """Make a revocation of the token wait for this transaction. If it was faster, raise Unauthorized."""
    if tenant_store.lock_token(tx, token.tenant_id, token.id) is None:
        raise Unauthorized


# Authentication


def authenticate(tx: Transaction, secret_digest: str, issuer: str = "") -> Token:
    """Return the active token with this hash, or raise Unauthorized, or WrongCell if another database has its tenant.
    `issuer` is the one that the token's prefix names."""
    token = tenant_store.find_token(tx, secret_digest)
    if token is None:
        redirects.check_token_is_here(tx, secret_digest, issuer)
        raise Unauthorized(UNKNOWN)
    if tx.credential != (credential := f"token {token.id}"):
        tx.credential, tx.author = credential, rights.AUTHORS[rights.get_scope(tx, token)]
    return token


def name_person(tx: Transaction, token: Token) -> str:
    """Return the name of the person or program behind a token, under which its changes are recorded: the label, or the number if it
    has none. Behind a browser session, it is that of the token which opened it."""
    opener = tenant_store.find_token_by_id(tx, token.tenant_id, token.session_of) if token.session_of > 0 else None
    return (opener or token).name


def authenticate_for(right: Right) -> Authenticate:
    """Return a function that returns the active token with a hash, or raises an error if it does not have the right."""

    def authenticate_with_right(tx: Transaction, secret_digest: str) -> Token:
        token = authenticate(tx, secret_digest)
        rights.check_right(tx, token, right)
        return token

    return authenticate_with_right


def is_use_due(tx: Transaction, token: Token) -> bool:
    """Whether to record the token's use again: once a minute, because a write with each request would double its cost."""
    return tx.now - token.last_used_at >= USE_INTERVAL_MS


def record_use(tx: Transaction, token: Token) -> None:
    if is_use_due(tx, token):
        tenant_store.touch_token(tx, token)


# Browser sessions


def open_session(tx: Transaction, secret_digest: str, issuer: str = "") -> NewToken:
    """Open a session with a token. It has the token's scopes and ends with it, at the latest."""
    token = authenticate(tx, secret_digest, issuer)
    if token.is_session:
        raise Forbidden("A browser session cannot open another one. Sign in with a token.")
    lock(tx, token)
    tx.actor = token.name
    record_use(tx, token)
    return insert_session(tx, token.tenant_id, token.scopes, token.id, token.expires_at)


def create_login_link(tx: Transaction, tenant_id: int) -> NewToken:
    """Create the secret of a link with which the operator, who reads it in the terminal, can sign in once."""
    tenant_store.delete_ended_sessions(tx, tenant_id)
    secret, expires_at = generate_secret(redirects.get_own_name(tx)), tx.now + LINK_LIFETIME_S * 1000
    link = tenant_store.insert_token(
        tx, tenant_id, hash_secret(secret), LINK_LABEL, list_scopes("operator"), expires_at, LOGIN_LINK
    )
    audit.record_in_audit(tx, tenant_id, "link.create", f"token:{link.id}", new=link.as_json())
    return NewToken(link, secret)


def has_login_link(tx: Transaction, tenant_id: int, secret_digest: str) -> bool:
    return tenant_store.has_login_link(tx, tenant_id, secret_digest)


def redeem_login_link(tx: Transaction, tenant_id: int, secret_digest: str) -> NewToken | None:
    """Open a session for a link that `create_login_link` made, once."""
    return open_link_session(tx, tenant_id) if tenant_store.take_login_link(tx, tenant_id, secret_digest) else None


def open_link_session(tx: Transaction, tenant_id: int) -> NewToken:
    """Open a session for the login link, which the operator has read in the terminal."""
    tx.actor = LINK_LABEL
    return insert_session(tx, tenant_id, list_scopes("operator"), LINK_SESSION)


def insert_session(tx: Transaction, tenant_id: int, scopes: str, session_of: int, not_after: int = 0) -> NewToken:
    """Store a session, and delete ended sessions and the oldest ones above the limit."""
    tenant_store.delete_ended_sessions(tx, tenant_id)
    tenant_store.delete_oldest_sessions(tx, tenant_id, session_of, MAX_SESSIONS - 1)
    secret, expires_at = generate_secret(redirects.get_own_name(tx)), tx.now + SESSION_LIFETIME_S * 1000
    expires_at = min(expires_at, not_after) if not_after else expires_at
    session = tenant_store.insert_token(tx, tenant_id, hash_secret(secret), SESSION_LABEL, scopes, expires_at, session_of)
    audit.record_in_audit(tx, tenant_id, "session.open", f"token:{session.id}", new=session.as_json())
    return NewToken(session, secret)


def sign_out(tx: Transaction, secret_digest: str) -> None:
    token = authenticate(tx, secret_digest)
    tx.actor = name_person(tx, token)
    revoke(tx, token.tenant_id, token.id)


# Secrets


def generate_secret(issuer: str) -> str:
    """Generate a token. The issuer's name in it is a hint for proxies, and proves nothing."""
    from base64 import urlsafe_b64encode  # noqa: PLC0415  every command loads this module, but few create a token

    return TOKEN_PREFIX + (f"{issuer}_" if issuer else "") + urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def hash_secret(secret: str) -> str:
    import hashlib  # noqa: PLC0415  every command loads this module, and loading OpenSSL takes 4 ms

    # A fast hash is safe here: the secret has 256 random bits, so it cannot be guessed.
    return hashlib.sha256(secret.encode()).hexdigest()

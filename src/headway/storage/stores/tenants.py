"""Rows of tenants and their tokens, and the usage of each tenant."""

from headway.ledger.tenancy import LOGIN_LINK, NO_SESSION, Tenant, Token, TokenFilter
from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.transaction import Row, Transaction

TENANTS = Columns(Tenant)
TOKENS = Columns(Token)
SELECT = f"SELECT {TENANTS.selected} FROM tenants"
SELECT_TOKEN = f"SELECT {TOKENS.selected} FROM tokens"
ACTIVE = "revoked_at = 0 AND (expires_at = 0 OR expires_at > ?)"
# A tenant that has moved to another cell is deleted here in parts. Until then its row remains.
NOT_DEPARTED = "NOT EXISTS (SELECT 1 FROM moves WHERE moves.tenant_name = tenants.name AND moves.state = 'departed')"
NOT_ENDED_SESSION = f"(session_of = 0 OR ({ACTIVE}))"  # sessions that have ended are no longer of interest


def insert_tenant(tx: Transaction, name: str) -> Tenant | None:
    """Insert a tenant, or return None if the name is taken."""
    tx.enter_all_tenants()
    row = tx.one(
        f"""INSERT INTO tenants (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING
            RETURNING {TENANTS.selected}{tx.dialect.enter_found.format("id")}""",
        name,
        tx.now,
    )
    tenant = load_entered(tx, row)
    if tenant:
        logged_transaction.open_range(tx, tenant.id, "events")  # so that even its first event is written without asking for a range
    return tenant


def find_tenant(tx: Transaction, tenant_id: int) -> Tenant | None:
    return TENANTS.one(tx, f"{SELECT} WHERE id = ?", tenant_id)


def find_by_name(tx: Transaction, name: str) -> Tenant | None:
    """Find a tenant among all, and enter it. One that has moved to another cell is not found."""
    tx.enter_all_tenants()
    row = tx.one(
        f"SELECT {TENANTS.selected}{tx.dialect.enter_found.format('id')} FROM tenants WHERE name = ? AND {NOT_DEPARTED}", name
    )
    return load_entered(tx, row)


def load_entered(tx: Transaction, row: Row | None) -> Tenant | None:
    if row is None:
        return None
    tx.visible = str(row[0])  # the statement has entered it
    return TENANTS.load(row[: TENANTS.width])


def list_all_tenants(tx: Transaction) -> list[Tenant]:
    """List all tenants, except tenants that have moved to another cell."""
    return TENANTS.all(tx, f"{SELECT} WHERE {NOT_DEPARTED} ORDER BY id")


def list_staying(tx: Transaction) -> list[Tenant]:
    """List all tenants, except tenants that have moved to another cell or are being moved."""
    moving = "SELECT 1 FROM moves WHERE moves.tenant = tenants.id AND moves.state IN ('fenced', 'departed')"
    return TENANTS.all(tx, f"{SELECT} WHERE NOT EXISTS ({moving}) ORDER BY id")


def delete_tenant(tx: Transaction, tenant_id: int) -> None:
    """Delete a tenant and everything it owns."""
    tx.run("DELETE FROM tenants WHERE id = ?", tenant_id)


def insert_token(
    tx: Transaction, tenant_id: int, digest: str, label: str, scopes: str, expires_at: int, session_of: int = NO_SESSION
) -> Token:
    token = Token(
        0, tenant_id, label, scopes, tx.now, expires_at, last_used_at=0, revoked_at=0, session_of=session_of, replaced_by=0
    )
    return logged_transaction.insert(tx, tenant_id, "tokens", TOKENS, token, hash=digest)


def is_known_token(tx: Transaction, tenant_id: int, digest: str) -> bool:
    """Whether there is a token with this hash, also an ended one. Others that ask wait until the transaction ends."""
    tx.run(f"SELECT 1 FROM tenants WHERE id = ?{tx.dialect.for_update}", tenant_id)
    return tx.one("SELECT 1 FROM tokens WHERE hash = ?", digest) is not None


def find_token(tx: Transaction, digest: str) -> Token | None:
    """Find the active token with this hash, and enter its tenant. Looking up by hash gives an attacker no timing information about
    the token."""
    if not tx.visible:  # otherwise the transaction has found the token before
        tx.enter_all_tenants()
    row = tx.one(
        f"""SELECT {TOKENS.selected}{tx.dialect.enter_found.format("tenant_id")} FROM tokens
            WHERE hash = ? AND session_of <> {LOGIN_LINK} AND {ACTIVE}""",
        digest,
        tx.now,
    )
    if row is None:
        return None
    token = TOKENS.load(row[: TOKENS.width])
    tx.visible = str(token.tenant_id)  # the statement has entered it
    return token


def has_login_link(tx: Transaction, tenant_id: int, digest: str) -> bool:
    sql = f"SELECT 1 FROM tokens WHERE tenant_id = ? AND hash = ? AND session_of = {LOGIN_LINK} AND {ACTIVE}"
    return tx.one(sql, tenant_id, digest, tx.now) is not None


def take_login_link(tx: Transaction, tenant_id: int, digest: str) -> bool:
    """Use up a login link. Returns False if there is none with this hash, or if it was used before."""
    sql = (
        f"UPDATE tokens SET revoked_at = ? WHERE tenant_id = ? AND hash = ? AND session_of = {LOGIN_LINK} AND {ACTIVE} RETURNING id"
    )
    return tx.one(sql, tx.now, tenant_id, digest, tx.now) is not None


def find_token_by_id(tx: Transaction, tenant_id: int, token_id: int) -> Token | None:
    return TOKENS.one(tx, f"{SELECT_TOKEN} WHERE tenant_id = ? AND id = ?", tenant_id, token_id)


def lock_token(tx: Transaction, tenant_id: int, token_id: int) -> Token | None:
    """Lock an active token until the end of the transaction, so that it cannot be revoked before what is made from it is stored."""
    sql = f"{SELECT_TOKEN} WHERE tenant_id = ? AND id = ? AND {ACTIVE}{tx.dialect.for_update}"
    return TOKENS.one(tx, sql, tenant_id, token_id, tx.now)


def list_tokens(tx: Transaction, tenant_id: int) -> list[Token]:
    return TOKENS.all(tx, f"{SELECT_TOKEN} WHERE tenant_id = ? AND {NOT_ENDED_SESSION} ORDER BY id", tenant_id, tx.now)


def list_token_page(tx: Transaction, tenant_id: int, chosen: TokenFilter, limit: int, before: int) -> list[Token]:
    """List tokens and active sessions, newest first. Login links are in neither list of their own."""
    kind = {"token": "AND session_of = 0", "session": f"AND session_of <> 0 AND session_of <> {LOGIN_LINK}", "all": ""}[chosen.kind]
    state = ACTIVE if chosen.state == "active" else NOT_ENDED_SESSION
    sql = f"{SELECT_TOKEN} WHERE tenant_id = ? AND id < ? {kind} AND {state} ORDER BY id DESC LIMIT ?"
    return TOKENS.all(tx, sql, tenant_id, before, tx.now, limit)


def touch_token(tx: Transaction, token: Token) -> None:
    """Record the use of a token, or of a session and its token."""
    tx.run(
        "UPDATE tokens SET last_used_at = ? WHERE tenant_id = ? AND id IN (?, ?)",
        tx.now,
        token.tenant_id,
        token.id,
        token.session_of,
    )


def revoke_token(tx: Transaction, tenant_id: int, token_id: int) -> Token | None:
    """Revoke a token, and then its sessions: the second statement also sees one that was opened while the first one waited."""
    sql = f"UPDATE tokens SET revoked_at = ? WHERE tenant_id = ? AND id = ? AND revoked_at = 0 RETURNING {TOKENS.selected}"
    token = TOKENS.one(tx, sql, tx.now, tenant_id, token_id)
    tx.run(
        "UPDATE tokens SET revoked_at = ? WHERE tenant_id = ? AND session_of = ? AND revoked_at = 0", tx.now, tenant_id, token_id
    )
    return token


def revoke_all_tokens(tx: Transaction, tenant_id: int) -> list[Token]:
    """Revoke all active tokens and sessions, twice: the second statement also sees tokens that the first one's created
    while it waited for their locks."""
    statement = f"UPDATE tokens SET revoked_at = ? WHERE tenant_id = ? AND {ACTIVE} RETURNING {TOKENS.selected}"
    return [token for _ in range(2) for token in TOKENS.all(tx, statement, tx.now, tenant_id, tx.now)]


def replace_token(tx: Transaction, tenant_id: int, token_id: int, successor_id: int, expires_at: int) -> Token:
    """Note the token's successor, and let it and its sessions expire at this time, or earlier if they would have."""
    token = TOKENS.one(
        tx,
        f"""UPDATE tokens SET replaced_by = ?, expires_at = CASE WHEN expires_at = 0 OR expires_at > ? THEN ? ELSE expires_at END
            WHERE tenant_id = ? AND id = ? RETURNING {TOKENS.selected}""",
        successor_id,
        expires_at,
        expires_at,
        tenant_id,
        token_id,
    )
    assert token is not None
    tx.run(
        "UPDATE tokens SET expires_at = ? WHERE tenant_id = ? AND session_of = ? AND expires_at > ?",
        expires_at,
        tenant_id,
        token_id,
        expires_at,
    )
    return token


def delete_ended_sessions(tx: Transaction, tenant_id: int) -> None:
    tx.run(f"DELETE FROM tokens WHERE tenant_id = ? AND session_of <> 0 AND NOT ({ACTIVE})", tenant_id, tx.now)


def delete_oldest_sessions(tx: Transaction, tenant_id: int, session_of: int, keep: int) -> None:
    """Delete the sessions of a token, except the newest ones."""
    tx.run(
        """DELETE FROM tokens WHERE tenant_id = ? AND session_of = ? AND id <= (
               SELECT id FROM tokens WHERE tenant_id = ? AND session_of = ? ORDER BY id DESC LIMIT 1 OFFSET ?)""",
        tenant_id,
        session_of,
        tenant_id,
        session_of,
        keep,
    )


def has_active_token(tx: Transaction) -> bool:
    """Whether a token exists that programs can use. (Browser sessions do not count.)"""
    return tx.one(f"SELECT 1 FROM tokens WHERE session_of = 0 AND {ACTIVE} LIMIT 1", tx.now) is not None


# The usage of a tenant. Its stored bytes are counted in the row that numbers its events, which every change updates.


def get_stored_bytes(tx: Transaction, tenant_id: int) -> int:
    """Return the running count. It is 0 until the first change since Headway counts."""
    row = tx.one("SELECT bytes FROM id_ranges WHERE tenant_id = ? AND kind = 'events'", tenant_id)
    return int(row[0] or 0) if row else 0


def count_open_turns(tx: Transaction, tenant_id: int, limit: int) -> int:
    """Count the turns that have not ended, up to a limit."""
    row = tx.one(
        """SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE tenant_id = ? AND turn_id IS NOT NULL AND parent_run_id IS NULL
           AND ended_at = 0 LIMIT ?) unended""",
        tenant_id,
        limit,
    )
    return int(row[0]) if row else 0


def count_running_jobs(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM jobs WHERE tenant_id = ? AND state = 'running'", tenant_id)
    return int(row[0]) if row else 0


def count_webhooks(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM webhooks WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0

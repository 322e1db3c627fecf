"""SQL for tenants and their access tokens."""

from headway.ledger.tenancy import Tenant, Token
from headway.storage import id_ranges
from headway.storage.transaction import Transaction

TOKEN_COLUMNS = "id, tenant_id, label, operator, created_at, expires_at, last_used_at, revoked_at"  # noqa: S105  columns


def insert(tx: Transaction, name: str) -> Tenant | None:
    """Insert a tenant, or return None if the name is taken."""
    row = tx.one(
        "INSERT INTO tenants (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING RETURNING id, name, created_at",
        name,
        tx.now,
    )
    return Tenant._make(row) if row else None


def find(tx: Transaction, tenant_id: int) -> Tenant | None:
    row = tx.one("SELECT id, name, created_at FROM tenants WHERE id = ?", tenant_id)
    return Tenant._make(row) if row else None


def find_by_name(tx: Transaction, name: str) -> Tenant | None:
    row = tx.one("SELECT id, name, created_at FROM tenants WHERE name = ?", name)
    return Tenant._make(row) if row else None


def list_all(tx: Transaction) -> list[Tenant]:
    return [Tenant._make(row) for row in tx.all("SELECT id, name, created_at FROM tenants ORDER BY id")]


def delete(tx: Transaction, tenant_id: int) -> None:
    """Delete a tenant and everything it owns."""
    tx.run("DELETE FROM tenants WHERE id = ?", tenant_id)


def insert_token(tx: Transaction, tenant_id: int, digest: str, label: str, expires_at: int, *, operator: bool) -> Token:
    row = tx.one(
        f"""INSERT INTO tokens (id, tenant_id, hash, label, operator, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
            RETURNING {TOKEN_COLUMNS}""",
        id_ranges.take(tx, tenant_id, "tokens"),
        tenant_id,
        digest,
        label,
        int(operator),
        tx.now,
        expires_at,
    )
    assert row is not None
    return Token._make(row)


def find_token(tx: Transaction, digest: str) -> Token | None:
    """Find the active token with this hash. Looking up by hash gives an attacker no timing information about the token."""
    row = tx.one(
        f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE hash = ? AND revoked_at = 0 AND (expires_at = 0 OR expires_at > ?)",
        digest,
        tx.now,
    )
    return Token._make(row) if row else None


def list_tokens(tx: Transaction, tenant_id: int) -> list[Token]:
    return [Token._make(row) for row in tx.all(f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE tenant_id = ? ORDER BY id", tenant_id)]


def touch_token(tx: Transaction, token_id: int) -> None:
    tx.run("UPDATE tokens SET last_used_at = ? WHERE id = ?", tx.now, token_id)


def revoke_token(tx: Transaction, tenant_id: int, token_id: int) -> Token | None:
    row = tx.one(
        f"UPDATE tokens SET revoked_at = ? WHERE tenant_id = ? AND id = ? AND revoked_at = 0 RETURNING {TOKEN_COLUMNS}",
        tx.now,
        tenant_id,
        token_id,
    )
    return Token._make(row) if row else None


def has_permanent_token(tx: Transaction) -> bool:
    """Whether a token exists that programs can use. (Browser sessions, which expire, do not count.)"""
    return tx.one("SELECT 1 FROM tokens WHERE revoked_at = 0 AND expires_at = 0 LIMIT 1") is not None

"""Row-level security on Postgres: a second barrier between tenants, behind the tenant filter of each statement.

Each transaction sets `headway.tenant`: to a tenant's id, to `all`, or to nothing. The policy of a table hides the rows of all other
tenants and refuses to write them. SQLite has no such policies.
"""

from typing import Final

from headway.storage.transaction import Transaction

POLICY: Final = "headway_tenant"
# The planner assumes that a CASE is true for half of the rows, so it keeps the plan that it would choose without a policy. With an
# OR it expects hardly any rows, and sorts a list instead of reading it in the order of an index. A subquery would be evaluated once
# per statement instead of once per row, but costs more than it saves where few rows are read, which is nearly everywhere.
CONDITION: Final = """CASE current_setting('headway.tenant', true) WHEN 'all' THEN true WHEN '' THEN false
    ELSE {column} = current_setting('headway.tenant', true)::bigint END"""
# Entries of the audit log with tenant 0 concern the installation. Operators write and read them with the token of a tenant.
SHARED_ROWS: Final = {"audit": "tenant_id = 0 OR "}


def protect_tables(tx: Transaction) -> None:
    """Add the policy to `tenants` and to every table with a tenant_id that lacks it. FORCE applies it to the tables' owner, too."""
    unprotected = tx.all(
        """SELECT c.relname, quote_ident(c.relname) FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
           AND c.relkind IN ('r', 'p') AND (c.relname = 'tenants' OR EXISTS (
               SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'tenant_id' AND NOT attisdropped))
           AND NOT (c.relforcerowsecurity AND EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = c.oid AND polname = ?))
           ORDER BY 1""",
        POLICY,
    )
    for name, table in unprotected:
        condition = SHARED_ROWS.get(name, "") + CONDITION.format(column="id" if name == "tenants" else "tenant_id")
        tx.run(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        tx.run(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        tx.run(f"DROP POLICY IF EXISTS {POLICY} ON {table}")
        tx.run(f"CREATE POLICY {POLICY} ON {table} USING ({condition})")


def find_bypass(tx: Transaction) -> str:
    """Return why row-level security does not apply to this connection, or an empty string if it does."""
    if tx.dialect.name != "postgresql":
        return ""
    row = tx.one("SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user")
    assert row is not None
    if row[1]:
        return f"the role {row[0]} is a superuser"
    return f"the role {row[0]} has BYPASSRLS" if row[2] else ""

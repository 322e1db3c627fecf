"""Row-level security, and the fence that keeps writers away from a tenant that moves."""

from typing import Final

from headway.cells.rules import Move
from headway.storage.stores.retention import list_tables
from headway.storage.transaction import Transaction

FUNCTION: Final = "headway_refuse_changes"
TRIGGER_PREFIX: Final = "headway_move_"
# Where commits need not be durable, a crash of the server could undo the fence after the tenant has arrived elsewhere.
DURABLE: Final = """set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"""
MOVING: Final = f"SELECT set_config('headway.moving', ?, true), {DURABLE}"
EVERY_MOVE: Final = "all"  # the value of headway.moving that passes every fence
FUNCTION_LOCK: Final = 0x4865_6164_7761_7B
# A transaction with an old snapshot may not see that the move has begun, but only one that sees the end of the move may pass.
CREATE_FUNCTION: Final = f"""CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    passes boolean := current_setting('headway.moving', true) IN (TG_ARGV[0], '{EVERY_MOVE}');
BEGIN
    IF passes IS NOT TRUE THEN
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I.moves WHERE id = $1 AND state IN (''done'', ''undone''))', TG_TABLE_SCHEMA)
            INTO passes USING TG_ARGV[0];
    END IF;
    IF NOT passes THEN
        RAISE EXCEPTION 'the tenant is being moved to another cell' USING ERRCODE = 'HW421';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$"""


def create_function(tx: Transaction) -> None:
    """Create what the triggers call. The lock is for two moves that begin at the same time."""
    tx.run("SELECT pg_advisory_xact_lock(?)", FUNCTION_LOCK)
    tx.run(CREATE_FUNCTION)


def pass_fence(tx: Transaction, move_id: str) -> None:
    """Let this transaction change the rows of the tenant that is being moved."""
    tx.run(MOVING, move_id)


def fence_table(tx: Transaction, move: Move, table: str) -> None:
    """Refuse changes of the tenant's rows in a table. Waits for the transactions that have changed the table, of any tenant."""
    column = "id" if table == "tenants" else "tenant_id"
    for name, events, row in (("new", "INSERT OR UPDATE", "NEW"), ("old", "UPDATE OR DELETE", "OLD")):
        tx.run(
            f"""CREATE TRIGGER {TRIGGER_PREFIX}{move.id}_{name} BEFORE {events} ON "{table}" FOR EACH ROW
                WHEN ({row}.{column} = {move.tenant:d}) EXECUTE FUNCTION {FUNCTION}('{move.id}')"""
        )


def list_fenced(tx: Transaction, move_id: str) -> set[str]:
    """Return the tables that are fenced for a move."""
    rows = tx.all(
        """SELECT c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
           WHERE c.relnamespace = current_schema()::regnamespace AND t.tgname = ?""",
        f"{TRIGGER_PREFIX}{move_id}_old",
    )
    return {str(row[0]) for row in rows}


def list_unfenced(tx: Transaction, move_id: str) -> list[str]:
    """Return the tables that are not fenced yet. Jobs come first: then no run of the tenant can take another step."""
    fenced = list_fenced(tx, move_id)
    return sorted(set(list_tables(tx)) - fenced, key=lambda table: (table != "jobs", table != "schedules", table))


def fence_new_tables(tx: Transaction) -> None:
    """Fence the tables that a migration has created while a tenant is being moved."""
    rows = tx.all(
        """SELECT id, tenant, tenant_name, source, target, state, started_at, updated_at FROM moves
           WHERE state IN ('fenced', 'departed') ORDER BY id"""
    )
    for move in map(Move._make, rows):
        unfenced = list_unfenced(tx, move.id)
        if "jobs" not in unfenced:  # otherwise the fence is not up yet
            for table in unfenced:
                fence_table(tx, move, table)


def list_left_triggers(tx: Transaction) -> dict[str, list[str]]:
    """Return the triggers of moves that are over, by table."""
    rows = tx.all(
        """SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
           WHERE c.relnamespace = current_schema()::regnamespace AND starts_with(t.tgname::text, ?) AND NOT EXISTS (
               SELECT 1 FROM moves WHERE state IN ('fenced', 'departed')
               AND starts_with(t.tgname::text, CAST(? AS TEXT) || moves.id))
           ORDER BY 1, 2""",
        TRIGGER_PREFIX,
        TRIGGER_PREFIX,
    )
    left: dict[str, list[str]] = {}
    for table, trigger in rows:
        left.setdefault(str(table), []).append(str(trigger))
    return left


def drop_triggers(tx: Transaction, table: str, triggers: list[str]) -> None:
    for trigger in triggers:
        tx.run(f'DROP TRIGGER IF EXISTS {trigger} ON "{table}"')


def find_missing_right(tx: Transaction) -> str:
    """Return why this connection's role cannot move tenants, or an empty string if it can."""
    row = tx.one(
        """SELECT current_user, (SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
               AND c.relkind = 'r' AND NOT pg_has_role(c.relowner, 'USAGE') AND (c.relname = 'tenants' OR EXISTS (
                   SELECT 1 FROM pg_attribute WHERE attrelid = c.oid AND attname = 'tenant_id' AND NOT attisdropped))
               ORDER BY 1 LIMIT 1),
               has_schema_privilege(current_schema(), 'CREATE'), has_database_privilege(current_database(), 'TEMP')"""
    )
    assert row is not None
    role, table, may_create, may_use_temporary = row
    if table:
        return f"the role {role} does not own the table {table}"
    if not may_create:
        return f"the role {role} may not create functions in the schema"
    return "" if may_use_temporary else f"the role {role} may not create temporary tables"


# Row-level security on Postgres: a second barrier between tenants, behind the tenant filter of each statement.


POLICY: Final = "headway_tenant"
# The planner assumes that a CASE is true for half of the rows, so it keeps the plan that it would choose without a policy. With an
# OR it expects hardly any rows, and sorts a list instead of reading it in the order of an index. A subquery would be evaluated once
# per statement instead of once per row, but costs more than it saves where few rows are read, which is nearly everywhere.
CONDITION: Final = """CASE current_setting('headway.tenant', true) WHEN 'all' THEN true WHEN '' THEN false
    ELSE {column} = current_setting('headway.tenant', true)::bigint END"""
# Entries of the audit log with tenant 0 concern the installation. Operators write and read them with the token of a tenant.
SHARED_ROWS: Final = {"audit": "tenant_id = 0 OR "}


def protect_tables(tx: Transaction) -> None:
    """Add the policy to `tenants` and to every table with a tenant_id that lacks it. FORCE includes the owner of the tables."""
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

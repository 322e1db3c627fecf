"""SQL for the saved views of the board."""

import json

from headway.ledger.events import to_json
from headway.ledger.scope import SavedView, ViewFilters, fold_name
from headway.ledger.text import count_bytes
from headway.storage import id_ranges
from headway.storage.transaction import Row, Transaction

COLUMNS = "id, name, filters, person, revision, created_at, updated_at"


def build_view(row: Row) -> SavedView:
    view = SavedView._make(row)
    return view._replace(filters=ViewFilters(**json.loads(row[2])))


def encode_filters(filters: ViewFilters) -> str:
    return to_json(filters.list_set())


def measure(view: SavedView) -> int:
    return count_bytes(view.name, encode_filters(view.filters))


def insert(tx: Transaction, tenant_id: int, name: str, filters: ViewFilters, person: str) -> SavedView:
    values = (name, encode_filters(filters), person, 0, tx.now, tx.now)
    columns = f"tenant_id, folded_name, {COLUMNS.removeprefix('id, ')}"
    view_id = id_ranges.insert(tx, tenant_id, "saved_views", columns, tenant_id, fold_name(name), *values)
    view = build_view((view_id, *values))
    tx.count_stored(tenant_id, measure(view))
    return view


def list_all(tx: Transaction, tenant_id: int) -> list[SavedView]:
    return [build_view(row) for row in tx.all(f"SELECT {COLUMNS} FROM saved_views WHERE tenant_id = ?", tenant_id)]


def find_locked(tx: Transaction, tenant_id: int, view_id: int) -> SavedView | None:
    sql = f"SELECT {COLUMNS} FROM saved_views WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}"
    row = tx.one(sql, tenant_id, view_id)
    return build_view(row) if row else None


def find_by_name(tx: Transaction, tenant_id: int, name: str) -> SavedView | None:
    """Return the view whose name is the same but for its case."""
    row = tx.one(f"SELECT {COLUMNS} FROM saved_views WHERE tenant_id = ? AND folded_name = ?", tenant_id, fold_name(name))
    return build_view(row) if row else None


def count(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM saved_views WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0


def save(tx: Transaction, tenant_id: int, old: SavedView, view: SavedView) -> None:
    tx.run(
        """UPDATE saved_views SET name = ?, folded_name = ?, filters = ?, person = ?, revision = ?, updated_at = ?
           WHERE tenant_id = ? AND id = ?""",
        view.name,
        fold_name(view.name),
        encode_filters(view.filters),
        view.person,
        view.revision,
        view.updated_at,
        tenant_id,
        view.id,
    )
    tx.count_stored(tenant_id, measure(view) - measure(old))


def delete(tx: Transaction, tenant_id: int, view: SavedView) -> None:
    tx.run("DELETE FROM saved_views WHERE tenant_id = ? AND id = ?", tenant_id, view.id)
    tx.count_stored(tenant_id, -measure(view))

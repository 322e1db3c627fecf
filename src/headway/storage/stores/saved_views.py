"""Rows of the views of the board that people saved."""

import json

from headway.ledger.events import to_json
from headway.ledger.scope import SavedView, ViewFilters, fold_name
from headway.ledger.text import count_bytes
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction


def encode_filters(filters: ViewFilters) -> str:
    return to_json(filters.list_set())


def decode_filters(text: str) -> ViewFilters:
    return ViewFilters(**json.loads(text))


VIEWS = Columns(SavedView, fixed=("id", "created_at"), filters=Column(encode=encode_filters, decode=decode_filters))
SELECT_SAVED_VIEW = f"SELECT {VIEWS.selected} FROM saved_views"
UPDATE = f"UPDATE saved_views SET {VIEWS.assignments}, folded_name = ? WHERE tenant_id = ? AND id = ?"


def measure(view: SavedView) -> int:
    return count_bytes(view.name, encode_filters(view.filters))


def insert_saved_view(tx: Transaction, tenant_id: int, name: str, filters: ViewFilters, person: str) -> SavedView:
    view = SavedView(0, name, filters, person, revision=0, created_at=tx.now, updated_at=tx.now)
    tx.count_stored(tenant_id, measure(view))
    return logged_transaction.insert(tx, tenant_id, "saved_views", VIEWS, view, folded_name=fold_name(name))


def list_all_saved_views(tx: Transaction, tenant_id: int) -> list[SavedView]:
    return VIEWS.all(tx, f"{SELECT_SAVED_VIEW} WHERE tenant_id = ?", tenant_id)


def find_locked_saved_view(tx: Transaction, tenant_id: int, view_id: int) -> SavedView | None:
    return VIEWS.one(tx, f"{SELECT_SAVED_VIEW} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, view_id)


def find_by_name(tx: Transaction, tenant_id: int, name: str) -> SavedView | None:
    """Return the view whose name is the same but for its case."""
    return VIEWS.one(tx, f"{SELECT_SAVED_VIEW} WHERE tenant_id = ? AND folded_name = ?", tenant_id, fold_name(name))


def count_saved_views(tx: Transaction, tenant_id: int) -> int:
    row = tx.one("SELECT COUNT(*) FROM saved_views WHERE tenant_id = ?", tenant_id)
    return int(row[0]) if row else 0


def save_saved_view(tx: Transaction, tenant_id: int, old: SavedView, view: SavedView) -> None:
    tx.run(UPDATE, *VIEWS.dump_changed(view), fold_name(view.name), tenant_id, view.id)
    tx.count_stored(tenant_id, measure(view) - measure(old))


def delete_saved_view(tx: Transaction, tenant_id: int, view: SavedView) -> None:
    tx.run("DELETE FROM saved_views WHERE tenant_id = ? AND id = ?", tenant_id, view.id)
    tx.count_stored(tenant_id, -measure(view))

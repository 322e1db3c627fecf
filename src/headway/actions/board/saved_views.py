"""Saved views: named sets of the board's filters, which everybody of the tenant sees and may change.

Filters are not references: a view of a conversation stays when that is deleted, and shows nothing.
"""

from typing import Final, Literal, NamedTuple

from headway.actions.access import quotas
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.events import Event, encode_json
from headway.ledger.scope import SavedView, ViewFilters, fold_name
from headway.storage.stores.board import saved_views as view_store
from headway.storage.transaction import Transaction

VIEWS_LIMIT: Final = 200  # per tenant


class ViewChange(NamedTuple):
    """A change of a view. None leaves a field as it is.

    With `revision`, the change is refused if the view was changed since that revision.
    """

    name: str | None = None
    filters: ViewFilters | None = None
    revision: int | None = None


def list_all(tx: Transaction, tenant_id: int) -> list[SavedView]:
    """List the views by name, in any case."""
    return sorted(view_store.list_all(tx, tenant_id), key=lambda view: fold_name(view.name))


def add(tx: Transaction, tenant_id: int, name: str, filters: ViewFilters, person: str) -> SavedView:
    name = text.check_name(name, "name")
    filters = filters.checked()
    quotas.check_storage(tx, tenant_id)
    if view_store.count(tx, tenant_id) >= VIEWS_LIMIT:
        raise Invalid(f"A tenant can have at most {VIEWS_LIMIT} saved views. Delete one first.")
    refuse_taken(tx, tenant_id, name)
    view = view_store.insert(tx, tenant_id, name, filters, person)
    emit_changed(tx, tenant_id, view, "created")
    return view


def change(tx: Transaction, tenant_id: int, view_id: int, wanted: ViewChange, person: str) -> SavedView:
    """Rename a view, or give it other filters. If nothing differs, nothing is stored or emitted."""
    old = get_locked(tx, tenant_id, view_id)
    if wanted.revision is not None and wanted.revision != old.revision:
        raise Conflict(f"{old.person} changed the view {old.name[:80]!r} meanwhile. Nothing was changed. Read it again first.")
    new = old._replace(
        name=old.name if wanted.name is None else text.check_name(wanted.name, "name"),
        filters=old.filters if wanted.filters is None else wanted.filters.checked(),
    )
    if new == old:
        return old
    if fold_name(new.name) != fold_name(old.name):
        refuse_taken(tx, tenant_id, new.name)
    quotas.check_storage(tx, tenant_id)
    new = new._replace(person=person, revision=old.revision + 1, updated_at=tx.now)
    view_store.save(tx, tenant_id, old, new)
    emit_changed(tx, tenant_id, new, "updated")
    return new


def remove(tx: Transaction, tenant_id: int, view_id: int) -> SavedView:
    view = get_locked(tx, tenant_id, view_id)
    view_store.delete(tx, tenant_id, view)
    emit_changed(tx, tenant_id, view, "deleted")
    return view


def get_locked(tx: Transaction, tenant_id: int, view_id: int) -> SavedView:
    view = view_store.find_locked(tx, tenant_id, view_id)
    if view is None:
        raise NotFound(f"No saved view {view_id}.")
    return view


def refuse_taken(tx: Transaction, tenant_id: int, name: str) -> None:
    if taken := view_store.find_by_name(tx, tenant_id, name):
        raise Conflict(f"There is already a saved view named {taken.name[:80]!r}. Nothing was changed.")


def emit_changed(tx: Transaction, tenant_id: int, view: SavedView, change: Literal["created", "updated", "deleted"]) -> None:
    tx.emit(Event(tenant_id, "view_changed", encode_json({"change": change, "view": view.as_json()})))

"""Rows of the board: the comments on todos, and the views that people saved."""

import json

from headway.ledger.events import to_json
from headway.ledger.scope import SavedView, ViewFilters, fold_name
from headway.ledger.text import count_bytes
from headway.ledger.todo import Comment, Todo
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.transaction import Transaction

COMMENTS = Columns(Comment)
SELECT_COMMENT = f"SELECT {COMMENTS.selected} FROM comments"


def insert_comment(tx: Transaction, tenant_id: int, todo: Todo, person: str, text: str) -> Comment:
    """Insert a comment. The caller has locked the todo, so that it cannot be deleted at the same time."""
    comment = Comment(0, todo.conversation_id, todo.id, person, text, tx.now, edited_at=0)
    tx.count_stored(tenant_id, count_bytes(text))
    return logged_transaction.insert(tx, tenant_id, "comments", COMMENTS, comment)


def list_comment_page(tx: Transaction, tenant_id: int, todo_id: int, limit: int, after: int) -> list[Comment]:
    """List the comments on a todo with an id above `after`, oldest first."""
    sql = f"{SELECT_COMMENT} WHERE tenant_id = ? AND todo_id = ? AND id > ? ORDER BY id LIMIT ?"
    return COMMENTS.all(tx, sql, tenant_id, todo_id, after, limit)


def find_locked_comment(tx: Transaction, tenant_id: int, comment_id: int) -> Comment | None:
    return COMMENTS.one(tx, f"{SELECT_COMMENT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, comment_id)


def save_comment(tx: Transaction, tenant_id: int, comment: Comment, text: str) -> Comment:
    tx.run("UPDATE comments SET text = ?, edited_at = ? WHERE tenant_id = ? AND id = ?", text, tx.now, tenant_id, comment.id)
    tx.count_stored(tenant_id, count_bytes(text) - count_bytes(comment.text))
    return comment._replace(text=text, edited_at=tx.now)


def delete_comment(tx: Transaction, tenant_id: int, comment: Comment) -> None:
    tx.run("DELETE FROM comments WHERE tenant_id = ? AND id = ?", tenant_id, comment.id)
    tx.count_stored(tenant_id, -count_bytes(comment.text))


def delete_comments_of(tx: Transaction, tenant_id: int, todo_id: int) -> None:
    """Delete the comments on a todo that is being deleted."""
    rows = tx.all("DELETE FROM comments WHERE tenant_id = ? AND todo_id = ? RETURNING octet_length(text)", tenant_id, todo_id)
    tx.count_stored(tenant_id, -sum(int(row[0]) for row in rows))


def encode_filters(filters: ViewFilters) -> str:
    return to_json(filters.list_set())


def decode_filters(text: str) -> ViewFilters:
    return ViewFilters(**json.loads(text))


VIEWS = Columns(SavedView, fixed=("id", "created_at"), filters=Column(encode=encode_filters, decode=decode_filters))
SELECT_SAVED_VIEW = f"SELECT {VIEWS.selected} FROM saved_views"
UPDATE_SAVED_VIEW = f"UPDATE saved_views SET {VIEWS.assignments}, folded_name = ? WHERE tenant_id = ? AND id = ?"


def measure_saved_view(view: SavedView) -> int:
    return count_bytes(view.name, encode_filters(view.filters))


def insert_saved_view(tx: Transaction, tenant_id: int, name: str, filters: ViewFilters, person: str) -> SavedView:
    view = SavedView(0, name, filters, person, revision=0, created_at=tx.now, updated_at=tx.now)
    tx.count_stored(tenant_id, measure_saved_view(view))
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
    tx.run(UPDATE_SAVED_VIEW, *VIEWS.dump_changed(view), fold_name(view.name), tenant_id, view.id)
    tx.count_stored(tenant_id, measure_saved_view(view) - measure_saved_view(old))


def delete_saved_view(tx: Transaction, tenant_id: int, view: SavedView) -> None:
    tx.run("DELETE FROM saved_views WHERE tenant_id = ? AND id = ?", tenant_id, view.id)
    tx.count_stored(tenant_id, -measure_saved_view(view))

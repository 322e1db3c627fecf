"""Rows of the comments on todos."""

from headway.ledger.text import count_bytes
from headway.ledger.todo import Comment, Todo
from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

COMMENTS = Columns(Comment)
SELECT = f"SELECT {COMMENTS.selected} FROM comments"


def insert_comment(tx: Transaction, tenant_id: int, todo: Todo, person: str, text: str) -> Comment:
    """Insert a comment. The caller has locked the todo, so that it cannot be deleted at the same time."""
    comment = Comment(0, todo.conversation_id, todo.id, person, text, tx.now, edited_at=0)
    tx.count_stored(tenant_id, count_bytes(text))
    return logged_transaction.insert(tx, tenant_id, "comments", COMMENTS, comment)


def list_comment_page(tx: Transaction, tenant_id: int, todo_id: int, limit: int, after: int) -> list[Comment]:
    """List the comments on a todo with an id above `after`, oldest first."""
    sql = f"{SELECT} WHERE tenant_id = ? AND todo_id = ? AND id > ? ORDER BY id LIMIT ?"
    return COMMENTS.all(tx, sql, tenant_id, todo_id, after, limit)


def find_locked_comment(tx: Transaction, tenant_id: int, comment_id: int) -> Comment | None:
    return COMMENTS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}", tenant_id, comment_id)


def save_text(tx: Transaction, tenant_id: int, comment: Comment, text: str) -> Comment:
    tx.run("UPDATE comments SET text = ?, edited_at = ? WHERE tenant_id = ? AND id = ?", text, tx.now, tenant_id, comment.id)
    tx.count_stored(tenant_id, count_bytes(text) - count_bytes(comment.text))
    return comment._replace(text=text, edited_at=tx.now)


def delete_comment(tx: Transaction, tenant_id: int, comment: Comment) -> None:
    tx.run("DELETE FROM comments WHERE tenant_id = ? AND id = ?", tenant_id, comment.id)
    tx.count_stored(tenant_id, -count_bytes(comment.text))


def delete_all(tx: Transaction, tenant_id: int, todo_id: int) -> None:
    """Delete the comments on a todo that is being deleted."""
    rows = tx.all("DELETE FROM comments WHERE tenant_id = ? AND todo_id = ? RETURNING octet_length(text)", tenant_id, todo_id)
    tx.count_stored(tenant_id, -sum(int(row[0]) for row in rows))

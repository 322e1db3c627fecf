"""SQL for comments on todos."""

from headway.ledger.text import count_bytes
from headway.ledger.todo import Comment, Todo
from headway.storage import id_ranges
from headway.storage.transaction import Transaction

COLUMNS = "id, conversation_id, todo_id, person, text, created_at, edited_at"


def insert(tx: Transaction, tenant_id: int, todo: Todo, person: str, text: str) -> Comment:
    """Insert a comment. The caller has locked the todo, so that it cannot be deleted at the same time."""
    values = (todo.conversation_id, todo.id, person, text, tx.now, 0)
    comment_id = id_ranges.insert(tx, tenant_id, "comments", f"tenant_id, {COLUMNS.removeprefix('id, ')}", tenant_id, *values)
    tx.count_stored(tenant_id, count_bytes(text))
    return Comment(comment_id, *values)


def list_page(tx: Transaction, tenant_id: int, todo_id: int, limit: int, after: int) -> list[Comment]:
    """List the comments on a todo with an id above `after`, oldest first."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM comments WHERE tenant_id = ? AND todo_id = ? AND id > ? ORDER BY id LIMIT ?",
        tenant_id,
        todo_id,
        after,
        limit,
    )
    return [Comment._make(row) for row in rows]


def find_locked(tx: Transaction, tenant_id: int, comment_id: int) -> Comment | None:
    sql = f"SELECT {COLUMNS} FROM comments WHERE tenant_id = ? AND id = ?{tx.dialect.for_update}"
    row = tx.one(sql, tenant_id, comment_id)
    return Comment._make(row) if row else None


def save_text(tx: Transaction, tenant_id: int, comment: Comment, text: str) -> Comment:
    tx.run("UPDATE comments SET text = ?, edited_at = ? WHERE tenant_id = ? AND id = ?", text, tx.now, tenant_id, comment.id)
    tx.count_stored(tenant_id, count_bytes(text) - count_bytes(comment.text))
    return comment._replace(text=text, edited_at=tx.now)


def delete(tx: Transaction, tenant_id: int, comment: Comment) -> None:
    tx.run("DELETE FROM comments WHERE tenant_id = ? AND id = ?", tenant_id, comment.id)
    tx.count_stored(tenant_id, -count_bytes(comment.text))


def delete_all(tx: Transaction, tenant_id: int, todo_id: int) -> None:
    """Delete the comments on a todo that is being deleted."""
    rows = tx.all("DELETE FROM comments WHERE tenant_id = ? AND todo_id = ? RETURNING octet_length(text)", tenant_id, todo_id)
    tx.count_stored(tenant_id, -sum(int(row[0]) for row in rows))

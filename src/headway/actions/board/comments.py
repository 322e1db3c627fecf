"""Comments: what people write about a todo. They are deleted with it."""

from typing import Final, Literal, NamedTuple

from headway.actions import todos
from headway.actions.access import quotas
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Forbidden, Invalid, NotFound
from headway.ledger.events import Event, encode_json
from headway.ledger.todo import Comment
from headway.storage.stores.board import comments as comment_store
from headway.storage.transaction import Transaction

COMMENT_LIMIT: Final = 10_000
CURSORS: Final = CursorCodec("comments", (0,))  # the id


class CommentPage(NamedTuple):
    comments: list[Comment]
    next_cursor: str | None


def list_page(tx: Transaction, tenant_id: int, todo_id: int, limit: int = 50, cursor: str | None = None) -> CommentPage:
    """List the comments on a todo, oldest first."""
    (after,) = CURSORS.decode(cursor)
    todos.get(tx, tenant_id, todo_id)
    rows = comment_store.list_page(tx, tenant_id, todo_id, limit + 1, after)
    return CommentPage(rows[:limit], CURSORS.encode_next(rows, limit, lambda comment: (comment.id,)))


def add(tx: Transaction, tenant_id: int, todo_id: int, content: str, person: str) -> Comment:
    content = check_content(content)
    quotas.check_storage(tx, tenant_id)
    todo = todos.get_locked(tx, tenant_id, todo_id)
    comment = comment_store.insert(tx, tenant_id, todo, person, content)
    emit_changed(tx, tenant_id, comment, "created")
    return comment


def check_content(content: str) -> str:
    content = text.check_text(content, "text", COMMENT_LIMIT).strip()
    if not content:
        raise Invalid("text must not be blank.")
    return content


def edit(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int, content: str, person: str) -> Comment:
    """Change the text of a comment. Only its writer may, because it stays under their name."""
    content = check_content(content)
    comment = get_locked(tx, tenant_id, todo_id, comment_id)
    if comment.person != person:
        raise Forbidden(f"Comment {comment_id} was written by {comment.person}. Only they can edit it.")
    if content == comment.text:
        return comment
    quotas.check_storage(tx, tenant_id)
    comment = comment_store.save_text(tx, tenant_id, comment, content)
    emit_changed(tx, tenant_id, comment, "updated")
    return comment


def get_locked(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int) -> Comment:
    comment = comment_store.find_locked(tx, tenant_id, comment_id)
    if comment is None or comment.todo_id != todo_id:
        raise NotFound(f"No comment {comment_id} on todo {todo_id}.")
    return comment


def remove(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int, person: str, *, all_comments: bool) -> Comment:
    """Delete a comment. People delete their own ones, administrators all."""
    comment = get_locked(tx, tenant_id, todo_id, comment_id)
    if comment.person != person and not all_comments:
        raise Forbidden(f"Comment {comment_id} was written by {comment.person}. Only they or an administrator can delete it.")
    comment_store.delete(tx, tenant_id, comment)
    emit_changed(tx, tenant_id, comment, "deleted")
    return comment


def emit_changed(tx: Transaction, tenant_id: int, comment: Comment, change: Literal["created", "updated", "deleted"]) -> None:
    """Emit an event without the text: events are kept, and a person may delete a comment for what it says."""
    data = {"change": change, "id": comment.id, "todo_id": comment.todo_id, "person": comment.person}
    about = f"todo:{comment.todo_id}"
    tx.emit(Event(tenant_id, "comment_changed", encode_json(data), comment.conversation_id, subject=about))

"""The board: comments on todos, and saved views."""

from typing import Final, NamedTuple

from headway.actions.access import quotas
from headway.actions.todos import todos
from headway.ledger import text
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import Conflict, Forbidden, Invalid, NotFound
from headway.ledger.events import Event, RowChange, encode_json
from headway.ledger.scope import SavedView, ViewFilters, fold_name
from headway.ledger.todo import Comment
from headway.storage.stores import board as board_store
from headway.storage.transaction import Transaction

COMMENT_LIMIT: Final = 10_000
CURSORS: Final = CursorCodec("comments", (0,))  # the id


class CommentPage(NamedTuple):
    comments: list[Comment]
    next_cursor: str | None


def list_comments(tx: Transaction, tenant_id: int, todo_id: int, limit: int = 50, cursor: str | None = None) -> CommentPage:
    """List the comments on a todo, oldest first."""
    (after,) = CURSORS.decode(cursor)
    todos.get_todo(tx, tenant_id, todo_id)
    rows = board_store.list_comment_page(tx, tenant_id, todo_id, limit + 1, after)
    return CommentPage(rows[:limit], CURSORS.encode_next(rows, limit, lambda comment: (comment.id,)))


def add_comment(tx: Transaction, tenant_id: int, todo_id: int, content: str, person: str) -> Comment:
    content = check_content(content)
    quotas.check_storage(tx, tenant_id)
    todo = todos.get_locked_todo(tx, tenant_id, todo_id)
    comment = board_store.insert_comment(tx, tenant_id, todo, person, content)
    emit_comment_changed(tx, tenant_id, comment, "created")
    return comment


def check_content(content: str) -> str:
    content = text.check_text(content, "text", COMMENT_LIMIT).strip()
    if not content:
        raise Invalid("text must not be blank.")
    return content


def edit_comment(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int, content: str, person: str) -> Comment:
    """Change the text of a comment. Only its writer may, because it stays under their name."""
    content = check_content(content)
    comment = get_locked_comment(tx, tenant_id, todo_id, comment_id)
    if comment.person != person:
        raise Forbidden(f"Comment {comment_id} was written by {comment.person}. Only they can edit it.")
    if content == comment.text:
        return comment
    quotas.check_storage(tx, tenant_id)
    comment = board_store.save_comment(tx, tenant_id, comment, content)
    emit_comment_changed(tx, tenant_id, comment, "updated")
    return comment


def get_locked_comment(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int) -> Comment:
    comment = board_store.find_locked_comment(tx, tenant_id, comment_id)
    if comment is None or comment.todo_id != todo_id:
        raise NotFound(f"No comment {comment_id} on todo {todo_id}.")
    return comment


def remove_comment(tx: Transaction, tenant_id: int, todo_id: int, comment_id: int, person: str, *, all_comments: bool) -> Comment:
    """Delete a comment. People delete their own ones, administrators all."""
    comment = get_locked_comment(tx, tenant_id, todo_id, comment_id)
    if comment.person != person and not all_comments:
        raise Forbidden(f"Comment {comment_id} was written by {comment.person}. Only they or an administrator can delete it.")
    board_store.delete_comment(tx, tenant_id, comment)
    emit_comment_changed(tx, tenant_id, comment, "deleted")
    return comment


def emit_comment_changed(tx: Transaction, tenant_id: int, comment: Comment, change: RowChange) -> None:
    """Emit an event without the text: events are kept, and a person may delete a comment for what it says."""
    data = {"change": change, "id": comment.id, "todo_id": comment.todo_id, "person": comment.person}
    about = f"todo:{comment.todo_id}"
    tx.emit(Event(tenant_id, "comment_changed", encode_json(data), comment.conversation_id, subject=about))


# Saved views: named sets of the board's filters, which everybody of the tenant sees and may change.


VIEWS_LIMIT: Final = 200  # per tenant


class ViewChange(NamedTuple):
    """A change of a view. None leaves a field as it is.

    With `revision`, the change is refused if the view was changed since that revision.
    """

    name: str | None = None
    filters: ViewFilters | None = None
    revision: int | None = None


def list_all_saved_views(tx: Transaction, tenant_id: int) -> list[SavedView]:
    """List the views by name, in any case."""
    return sorted(board_store.list_all_saved_views(tx, tenant_id), key=lambda view: fold_name(view.name))


def add_saved_view(tx: Transaction, tenant_id: int, name: str, filters: ViewFilters, person: str) -> SavedView:
    name = text.check_name(name, "name")
    filters = filters.checked()
    quotas.check_storage(tx, tenant_id)
    if board_store.count_saved_views(tx, tenant_id) >= VIEWS_LIMIT:
        raise Invalid(f"A tenant can have at most {VIEWS_LIMIT} saved views. Delete one first.")
    refuse_taken(tx, tenant_id, name)
    view = board_store.insert_saved_view(tx, tenant_id, name, filters, person)
    emit_saved_view_changed(tx, tenant_id, view, "created")
    return view


def change_saved_view(tx: Transaction, tenant_id: int, view_id: int, wanted: ViewChange, person: str) -> SavedView:
    """Rename a view, or give it other filters. If nothing differs, nothing is stored or emitted."""
    old = get_locked_saved_view(tx, tenant_id, view_id)
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
    board_store.save_saved_view(tx, tenant_id, old, new)
    emit_saved_view_changed(tx, tenant_id, new, "updated")
    return new


def remove_saved_view(tx: Transaction, tenant_id: int, view_id: int) -> SavedView:
    view = get_locked_saved_view(tx, tenant_id, view_id)
    board_store.delete_saved_view(tx, tenant_id, view)
    emit_saved_view_changed(tx, tenant_id, view, "deleted")
    return view


def get_locked_saved_view(tx: Transaction, tenant_id: int, view_id: int) -> SavedView:
    view = board_store.find_locked_saved_view(tx, tenant_id, view_id)
    if view is None:
        raise NotFound(f"No saved view {view_id}.")
    return view


def refuse_taken(tx: Transaction, tenant_id: int, name: str) -> None:
    if taken := board_store.find_by_name(tx, tenant_id, name):
        raise Conflict(f"There is already a saved view named {taken.name[:80]!r}. Nothing was changed.")


def emit_saved_view_changed(tx: Transaction, tenant_id: int, view: SavedView, change: RowChange) -> None:
    tx.emit(Event(tenant_id, "view_changed", encode_json({"change": change, "view": view.as_json()})))

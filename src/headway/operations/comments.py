"""Operations on comments: /todos/{todo_id}/comments"""

from typing import Any

from headway.actions.board import comments
from headway.ledger import todo as ledger
from headway.operations.operation import Document, OperationCall, OperationTable, one, page
from headway.operations.schemas import board as schemas
from headway.operations.schemas.todos import CursorQuery, Deleted
from headway.values.todos import Comment

table = OperationTable("todos")


def encode_comments(call: OperationCall, found: list[ledger.Comment]) -> list[dict[str, Any]]:
    """Return the comments, and whether the caller may change them."""
    name, may_delete = call.caller_name, call.has_right("delete_all_comments")
    return [
        comment.as_json() | {"editable": comment.person == name, "deletable": may_delete or comment.person == name}
        for comment in found
    ]


@table.add("GET /todos/{todo_id}/comments", "List the comments on a todo, oldest first", page("comments", Comment), errors=(404,))
def list_todo_comments(call: OperationCall, todo_id: int, query: CursorQuery) -> Document:
    page = comments.list_page(call.tx, call.tenant_id, todo_id, query.limit, query.cursor)
    return {"comments": encode_comments(call, page.comments), "next_cursor": page.next_cursor}


@table.add("POST /todos/{todo_id}/comments", "Comment on a todo", {201: one("comment", Comment)}, errors=(404,))
def create_todo_comment(call: OperationCall, todo_id: int, body: schemas.NewComment) -> Document:
    (comment,) = encode_comments(call, [comments.add(call.tx, call.tenant_id, todo_id, body.text, call.caller_name)])
    return {"comment": comment}


@table.add("PATCH /todos/{todo_id}/comments/{comment_id}", "Edit a comment of the caller", one("comment", Comment), errors=(404,))
def change_todo_comment(call: OperationCall, todo_id: int, comment_id: int, body: schemas.NewComment) -> Document:
    changed = comments.edit(call.tx, call.tenant_id, todo_id, comment_id, body.text, call.caller_name)
    (comment,) = encode_comments(call, [changed])
    return {"comment": comment}


@table.add(
    "DELETE /todos/{todo_id}/comments/{comment_id}",
    "Delete a comment for good: the caller's own, or any if the caller is an administrator",
    Deleted,
    errors=(404, 507),
)
def delete_todo_comment(call: OperationCall, todo_id: int, comment_id: int) -> Document:
    may_delete = call.has_right("delete_all_comments")
    comments.remove(call.tx, call.tenant_id, todo_id, comment_id, call.caller_name, all_comments=may_delete)
    return {"deleted": True}

"""Operations on comments, dependencies and saved views: what the board shows."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.actions.todos import board, todos
from headway.actions.todos.board import COMMENT_LIMIT, VIEWS_LIMIT, ViewChange
from headway.agents.tools.arguments import ViewFieldFilters
from headway.ledger import todo as ledger
from headway.ledger.check import Proof
from headway.ledger.scope import TENANT_WIDE, ViewFilters
from headway.ledger.text import SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import Status as TodoStatus
from headway.ledger.todo import parse_status
from headway.ledger.wording import QUERY_LIMIT
from headway.operations.fields import CursorQuery, Id, Name, Revision, Status, StrictModel
from headway.operations.operation import Document, OperationCall, OperationTable, one, page
from headway.operations.todos import Deleted
from headway.values.todos import Comment


class NewComment(StrictModel):
    text: Annotated[str, Field(min_length=1, max_length=COMMENT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


class BoardFilters(ViewFieldFilters, StrictModel):
    """The filters. One that is null or omitted shows all."""

    status: Status | None = None
    conversation_id: Annotated[
        Id | Literal["tenant"] | None, Field(description="Only the todos of this conversation; `tenant`: the tenant-wide ones")
    ] = None
    agent_id: Name | None = None
    proof: Proof | None = None
    q: Annotated[
        str | None,
        Field(
            max_length=QUERY_LIMIT,
            description="Words that must all occur in the texts, in any case",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = None

    def to_filters(self) -> ViewFilters:
        conversation_id = TENANT_WIDE if self.conversation_id == "tenant" else self.conversation_id
        status = parse_status(self.status) if self.status else None
        return ViewFilters(**dict(self) | {"conversation_id": conversation_id, "status": status})


class NewView(StrictModel):
    name: Annotated[Name, Field(description="Unlike all others, also without regard to case")]
    filters: BoardFilters


class ViewFields(StrictModel):
    """The fields that can be changed. Omitted fields keep their values."""

    name: Name | None = None
    filters: Annotated[BoardFilters | None, Field(description="All filters of the view: omitted ones are removed")] = None
    revision: Annotated[
        Revision | None, Field(description="Refuse the change with 409 if the view has another revision by now")
    ] = None

    def change(self) -> ViewChange:
        return ViewChange(self.name, self.filters.to_filters() if self.filters else None, self.revision)


# Answers


class TodoSummary(BaseModel):
    id: int
    subject: str
    status: TodoStatus
    proof: Proof


class Neighbours(BaseModel):
    waits_for: list[TodoSummary]
    needed_by: Annotated[list[TodoSummary], Field(description="The first 100")]
    has_more: Annotated[bool, Field(description="Whether more todos wait for it")]


class View(BaseModel):
    id: int
    name: str
    filters: BoardFilters
    person: Annotated[str, Field(description="Who saved it last: the label of a token")]
    revision: Annotated[int, Field(description="How often it was changed")]
    created_at: int
    updated_at: int


class ManyViews(BaseModel):
    views: Annotated[list[View], Field(max_length=VIEWS_LIMIT)]


# Operations on comments: /todos/{todo_id}/comments


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
    page = board.list_comments(call.tx, call.tenant_id, todo_id, query.limit, query.cursor)
    return {"comments": encode_comments(call, page.comments), "next_cursor": page.next_cursor}


@table.add("POST /todos/{todo_id}/comments", "Comment on a todo", {201: one("comment", Comment)}, errors=(404,))
def create_todo_comment(call: OperationCall, todo_id: int, body: NewComment) -> Document:
    (comment,) = encode_comments(call, [board.add_comment(call.tx, call.tenant_id, todo_id, body.text, call.caller_name)])
    return {"comment": comment}


@table.add("PATCH /todos/{todo_id}/comments/{comment_id}", "Edit a comment of the caller", one("comment", Comment), errors=(404,))
def change_todo_comment(call: OperationCall, todo_id: int, comment_id: int, body: NewComment) -> Document:
    changed = board.edit_comment(call.tx, call.tenant_id, todo_id, comment_id, body.text, call.caller_name)
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
    board.remove_comment(call.tx, call.tenant_id, todo_id, comment_id, call.caller_name, all_comments=may_delete)
    return {"deleted": True}


# Operations on dependencies: /todos/{todo_id}/dependencies


@table.add("GET /todos/{todo_id}/dependencies", "List what a todo waits for, and what waits for it", Neighbours, errors=(404,))
def list_todo_dependencies(call: OperationCall, todo_id: int) -> Document:
    return todos.list_neighbours(call.tx, call.tenant_id, todo_id).as_json()


# Operations on saved views of the board: /views


ONE_VIEW = one("view", View)


@table.add("GET /views", "List the saved views of the board, by name", ManyViews)
def list_views(call: OperationCall) -> Document:
    return {"views": [view.as_json() for view in board.list_all_saved_views(call.tx, call.tenant_id)]}


@table.add("POST /views", "Save filters of the board under a name", {201: ONE_VIEW})
def create_view(call: OperationCall, body: NewView) -> Document:
    view = board.add_saved_view(call.tx, call.tenant_id, body.name, body.filters.to_filters(), call.caller_name)
    return {"view": view.as_json()}


@table.add("PATCH /views/{view_id}", "Rename a saved view, or replace its filters", ONE_VIEW, errors=(404,))
def change_view(call: OperationCall, view_id: int, body: ViewFields) -> Document:
    view = board.change_saved_view(call.tx, call.tenant_id, view_id, body.change(), call.caller_name)
    return {"view": view.as_json()}


@table.add("DELETE /views/{view_id}", "Delete a saved view. Its todos stay", Deleted, errors=(404, 507))
def delete_view(call: OperationCall, view_id: int) -> Document:
    board.remove_saved_view(call.tx, call.tenant_id, view_id)
    return {"deleted": True}

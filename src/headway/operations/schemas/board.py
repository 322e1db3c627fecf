"""Schemas of comments on todos, of their dependencies, and of saved views."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.board.comments import COMMENT_LIMIT
from headway.actions.board.saved_views import VIEWS_LIMIT, ViewChange
from headway.agents.tools.arguments import Label
from headway.ledger.check import Proof
from headway.ledger.parsing.todo_fields import Priority
from headway.ledger.scope import TENANT_WIDE, ViewFilters
from headway.ledger.text import SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import Status as TodoStatus
from headway.ledger.todo import parse_status
from headway.ledger.wording.words import QUERY_LIMIT
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import Id, Name, Revision, Status


class NewComment(StrictModel):
    text: Annotated[str, Field(min_length=1, max_length=COMMENT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


class BoardFilters(StrictModel):
    """What is shown. A filter that is null or omitted shows all."""

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

    priority: Priority | None = None
    label: Label | None = None
    overdue: Annotated[bool | None, Field(description="Only open todos whose `due` has passed")] = None

    def to_filters(self) -> ViewFilters:
        conversation_id = TENANT_WIDE if self.conversation_id == "tenant" else self.conversation_id
        status = parse_status(self.status) if self.status else None
        return ViewFilters(status, conversation_id, self.agent_id, self.proof, self.q, self.priority, self.label, self.overdue)


class NewView(StrictModel):
    name: Annotated[Name, Field(description="Unlike all others, also without regard to case")]
    filters: BoardFilters


class ViewFields(StrictModel):
    """The fields that can be changed. Omitted fields keep their values."""

    name: Name | None = None
    filters: Annotated[BoardFilters | None, Field(description="All filters of the view: those that are omitted are removed")] = None
    revision: Annotated[
        Revision | None, Field(description="Refuse the change with 409 if the view has another revision by now")
    ] = None

    def change(self) -> ViewChange:
        return ViewChange(self.name, self.filters.to_filters() if self.filters else None, self.revision)


# Answers


class TodoSummaryShape(BaseModel):
    id: int
    subject: str
    status: TodoStatus
    proof: Proof


class Neighbours(BaseModel):
    waits_for: list[TodoSummaryShape]
    needed_by: Annotated[list[TodoSummaryShape], Field(description="The first 100")]
    has_more: Annotated[bool, Field(description="Whether more todos wait for it")]


class ViewShape(BaseModel):
    id: int
    name: str
    filters: BoardFilters
    person: Annotated[str, Field(description="Who saved it last: the label of a token")]
    revision: Annotated[int, Field(description="How often it was changed")]
    created_at: int
    updated_at: int


class ManyViews(BaseModel):
    views: Annotated[list[ViewShape], Field(max_length=VIEWS_LIMIT)]

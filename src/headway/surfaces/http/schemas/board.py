"""Schemas of comments on todos, and of their dependencies."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.board.comments import COMMENT_LIMIT
from headway.ledger.text import SUBJECT_PATTERN
from headway.surfaces.http.schemas.strict_model import StrictModel


class NewComment(StrictModel):
    text: Annotated[str, Field(min_length=1, max_length=COMMENT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


# Answers


class CommentShape(BaseModel):
    id: int
    todo_id: int
    person: Annotated[str, Field(description="Who wrote it: the label of a token, or `cli`")]
    text: str
    created_at: int
    deletable: Annotated[bool, Field(description="Whether the caller may delete it: it is their own, or they are an operator")]


class OneComment(BaseModel):
    comment: CommentShape


class ManyComments(BaseModel):
    comments: list[CommentShape]
    next_cursor: str | None


class SummaryShape(BaseModel):
    id: int
    subject: str
    status: Literal["pending", "in_progress", "completed", "canceled"]
    proof: Literal["none", "unproven", "proven", "overridden", "broken"]


class Neighbours(BaseModel):
    waits_for: list[SummaryShape]
    needed_by: Annotated[list[SummaryShape], Field(description="The first 100")]
    has_more: Annotated[bool, Field(description="Whether more todos wait for it")]

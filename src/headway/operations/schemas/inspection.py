"""Schemas of explanations."""

from typing import Annotated

from pydantic import BaseModel, Field

from headway.actions.inspection.why import SCREEN_LINES
from headway.actions.views import PAGE_LIMIT
from headway.operations.schemas.todos import Id, QueryModel


class ExplanationQuery(QueryModel):
    limit: Annotated[int, Field(ge=2, le=PAGE_LIMIT, description="The number of lines; details are left out first")] = SCREEN_LINES


class GoalExplanationQuery(ExplanationQuery):
    sub_goal_id: Id | None = None


# Answers


class WhyLineShape(BaseModel):
    seq: Annotated[int | None, Field(description="The number of the event; null if the line is derived from stored rows")]
    at: int
    text: Annotated[
        str, Field(description="One sentence or two. The last line says what the state is now and what would change it")
    ]


class ExplanationShape(BaseModel):
    why: list[WhyLineShape]
    left_out: Annotated[int, Field(description="How many lines a higher limit would add")]

"""Explanations: /why"""

from typing import Annotated

from pydantic import BaseModel, Field

from headway.actions.inspection import why
from headway.actions.inspection.why import SCREEN_LINES, WhyKind
from headway.actions.todos.todo_lists import PAGE_LIMIT
from headway.operations.fields import Id, QueryModel
from headway.operations.operation import Document, OperationCall, OperationTable


class ExplanationQuery(QueryModel):
    limit: Annotated[int, Field(ge=2, le=PAGE_LIMIT, description="The number of lines; details are left out first")] = SCREEN_LINES


class GoalExplanationQuery(ExplanationQuery):
    sub_goal_id: Id | None = None


# Answers


class WhyLine(BaseModel):
    seq: Annotated[int | None, Field(description="The number of the event; null if the line is derived from stored rows")]
    at: int
    text: Annotated[
        str, Field(description="One sentence or two. The last line says what the state is now and what would change it")
    ]


class Explanation(BaseModel):
    why: list[WhyLine]
    left_out: Annotated[int, Field(description="How many lines a higher limit would add")]


# Explanations: /why. The events and decisions that led to the present state of a todo, turn, goal or job.


table = OperationTable("why")


def explain(call: OperationCall, kind: WhyKind, reference: int | str, query: ExplanationQuery) -> Document:
    return why.explain(call.tx, call.tenant_id, kind, str(reference), query.limit).as_json()


@table.add(
    "GET /why/todo/{todo_id}",
    "Explain why a todo is in its present state, oldest event first",
    Explanation,
    errors=(404,),
)
def explain_todo(call: OperationCall, todo_id: int, query: ExplanationQuery) -> Document:
    return explain(call, "todo", todo_id, query)


@table.add(
    "GET /why/turn/{turn_id}",
    "Explain why a turn is in its present state, oldest event first",
    Explanation,
    errors=(404,),
)
def explain_turn(call: OperationCall, turn_id: str, query: ExplanationQuery) -> Document:
    return explain(call, "turn", turn_id, query)


@table.add(
    "GET /why/goal/{goal_id}",
    "Explain why a goal is in its present state, oldest event first, or only the present state of one of its sub-goals",
    Explanation,
    errors=(404,),
)
def explain_goal(call: OperationCall, goal_id: int, query: GoalExplanationQuery) -> Document:
    if query.sub_goal_id is not None:
        return why.explain_sub_goal(call.tx, call.tenant_id, str(goal_id), query.sub_goal_id).as_json()
    return explain(call, "goal", goal_id, query)


@table.add(
    "GET /why/job/{job_id}",
    "Explain why a job is in its present state, oldest event first",
    Explanation,
    errors=(404,),
)
def explain_job(call: OperationCall, job_id: str, query: ExplanationQuery) -> Document:
    return explain(call, "job", job_id, query)

"""Explanations: /why. The events and decisions that led to the present state of a todo, turn, goal or job."""

from headway.actions.inspection import why
from headway.actions.inspection.why import WhyKind
from headway.operations.operation import Document, OperationCall, OperationTable
from headway.operations.schemas.inspection import ExplanationQuery, ExplanationShape, GoalExplanationQuery

table = OperationTable("why")


def explain(call: OperationCall, kind: WhyKind, reference: int | str, query: ExplanationQuery) -> Document:
    return why.explain(call.tx, call.tenant_id, kind, str(reference), query.limit).as_json()


@table.add(
    "GET /why/todo/{todo_id}",
    "Explain why a todo is in its present state, oldest event first",
    ExplanationShape,
    errors=(404,),
)
def explain_todo(call: OperationCall, todo_id: int, query: ExplanationQuery) -> Document:
    return explain(call, "todo", todo_id, query)


@table.add(
    "GET /why/turn/{turn_id}",
    "Explain why a turn is in its present state, oldest event first",
    ExplanationShape,
    errors=(404,),
)
def explain_turn(call: OperationCall, turn_id: str, query: ExplanationQuery) -> Document:
    return explain(call, "turn", turn_id, query)


@table.add(
    "GET /why/goal/{goal_id}",
    "Explain why a goal is in its present state, oldest event first, or only the present state of one of its sub-goals",
    ExplanationShape,
    errors=(404,),
)
def explain_goal(call: OperationCall, goal_id: int, query: GoalExplanationQuery) -> Document:
    if query.sub_goal_id is not None:
        return why.explain_sub_goal(call.tx, call.tenant_id, str(goal_id), query.sub_goal_id).as_json()
    return explain(call, "goal", goal_id, query)


@table.add(
    "GET /why/job/{job_id}",
    "Explain why a job is in its present state, oldest event first",
    ExplanationShape,
    errors=(404,),
)
def explain_job(call: OperationCall, job_id: str, query: ExplanationQuery) -> Document:
    return explain(call, "job", job_id, query)

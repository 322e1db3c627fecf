"""Operations on goals: /goals"""

from typing import Annotated, Final

from headway.actions import goal_views, goals, runs
from headway.actions.goals import NewGoal
from headway.actions.inspection import goal_runs, plan_history
from headway.actions.people import goal_edits
from headway.actions.proof import receipts
from headway.ledger import goal as ledger
from headway.ledger.text import MAX_INTEGER
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, many, one, page
from headway.operations.schemas import goals as schemas
from headway.operations.schemas.todos import CursorQuery
from headway.values.goals import Goal, GoalRun, GoalSummary, GoalUsage, JournalEntry, Plan
from headway.values.todos import Receipt
from headway.values.value import Meaning

table = OperationTable("goals")

ONE_GOAL = one("goal", Goal)
GOAL_RUNS = AnswerShape(
    "GoalRuns",
    {
        "runs": Annotated[list[GoalRun], Meaning("At most 2,000")],
        "usage": Annotated[GoalUsage, Meaning("Of all its runs")],
        "omitted": Annotated[int, Meaning("How many older runs are not listed")],
    },
)

MAX_GOAL_RUNS: Final = 500


@table.add("POST /goals", "Set a goal and start to pursue it", {201: ONE_GOAL})
def create_goal(call: OperationCall, body: schemas.NewGoalBody) -> Document:
    new_goal = check_repository(call, body.new_goal(call.tx.author))
    return start_goal(call, goals.add(call.tx, call.tenant_id, new_goal, call.host.settings.limits))


def check_repository(call: OperationCall, new_goal: NewGoal) -> NewGoal:
    """Check the repository of a new goal, if it names one."""
    if not new_goal.repository:
        return new_goal
    from headway.agents.repositories import places  # noqa: PLC0415  few goals name a repository

    return places.check_repository(new_goal, call.host.settings.get_workspace(call.tenant_id))


def start_goal(call: OperationCall, goal: ledger.Goal) -> Document:
    """Let the engine work on a goal, and return it."""
    call.nudge()
    return encode_goal(call, goal.id)


def encode_goal(call: OperationCall, goal_id: int) -> Document:
    return {"goal": goal_views.show(call.tx, call.tenant_id, goal_id, call.host.settings.goals)}


@table.add("GET /goals", "List goals, newest first unless `sort` says otherwise", page("goals", GoalSummary))
def list_goals(call: OperationCall, query: schemas.GoalsQuery) -> Document:
    chosen = ledger.GoalFilter(query.status, query.q, query.waiting, query.sort)
    return goal_views.list_page(call.tx, call.tenant_id, chosen, query.limit, query.cursor)._asdict()


@table.add("GET /goals/{goal_id}", "Get a goal with its sub-goals", ONE_GOAL, errors=(404,))
def get_goal(call: OperationCall, goal_id: int) -> Document:
    return encode_goal(call, goal_id)


@table.add(
    "PATCH /goals/{goal_id}",
    "Change a goal's texts, priority, budget or deadline",
    ONE_GOAL,
    errors=(404, 409),
    is_idempotent=True,
)
def change_goal(call: OperationCall, goal_id: int, body: schemas.GoalChange) -> Document:
    return start_goal(call, goal_edits.edit(call.tx, call.tenant_id, goal_id, body.to_edit(), call.host.settings.limits))


@table.add("POST /goals/{goal_id}/run-again", "Start an ended goal again, as a new goal", {201: ONE_GOAL}, errors=(404, 409))
def repeat_goal(call: OperationCall, goal_id: int) -> Document:
    new_goal = check_repository(call, goal_edits.build_repeat(call.tx, call.tenant_id, goal_id))
    return start_goal(call, goal_edits.run_again(call.tx, call.tenant_id, new_goal, call.host.settings.limits))


@table.add(
    "GET /goals/{goal_id}/plans",
    "List the plans of a goal, the one in force first, with what each changed",
    page("plans", Plan),
    errors=(404,),
)
def list_goal_plans(call: OperationCall, goal_id: int, query: CursorQuery) -> Document:
    return plan_history.list_page(call.tx, call.tenant_id, goal_id, query.limit, query.cursor)._asdict()


@table.add(
    "GET /goals/{goal_id}/journal",
    "List journal entries, oldest first: the latest, or those before a number",
    many("entries", JournalEntry),
    errors=(404,),
)
def get_goal_journal(call: OperationCall, goal_id: int, query: schemas.JournalQuery) -> Document:
    entries = goal_views.list_entries(call.tx, call.tenant_id, goal_id, query.limit, query.before or MAX_INTEGER)
    return {"entries": [entry.as_json() for entry in entries]}


@table.add(
    "GET /goals/{goal_id}/receipts",
    "List what the checks of a goal found at its end, newest first",
    many("receipts", Receipt),
    errors=(404,),
)
def list_goal_receipts(call: OperationCall, goal_id: int) -> Document:
    goals.get(call.tx, call.tenant_id, goal_id)
    return {"receipts": [receipt.as_json() for receipt in receipts.list_newest(call.tx, call.tenant_id, "goal", goal_id)]}


@table.add("GET /goals/{goal_id}/graph", "Get the layout of the graph of sub-goals", one("graph", schemas.Graph), errors=(404,))
def get_goal_graph(call: OperationCall, goal_id: int, query: schemas.GraphQuery) -> Document:
    return {"graph": goal_views.build_graph(call.tx, call.tenant_id, goal_id, query.plan, query.columns)}


@table.add(
    "GET /goals/{goal_id}/runs",
    "List the agent runs of a goal with their tokens, newest first, and what they used together",
    GOAL_RUNS,
    errors=(404,),
)
def list_goal_runs(call: OperationCall, goal_id: int) -> Document:
    return goal_runs.list_runs(call.tx, call.tenant_id, goal_id)


@table.add("POST /goals/{goal_id}/pause", "Pause a goal", ONE_GOAL, errors=(404, 409))
def pause_goal(call: OperationCall, goal_id: int) -> Document:
    return interrupt_goal(call, goals.pause(call.tx, call.tenant_id, goal_id))


@table.add("POST /goals/{goal_id}/resume", "Resume a paused goal where it stopped", ONE_GOAL, errors=(404, 409))
def resume_goal(call: OperationCall, goal_id: int) -> Document:
    return interrupt_goal(call, goals.resume(call.tx, call.tenant_id, goal_id, call.host.settings.limits))


@table.add("POST /goals/{goal_id}/abandon", "Abandon a goal for good", ONE_GOAL, errors=(404, 409))
def abandon_goal(call: OperationCall, goal_id: int) -> Document:
    return interrupt_goal(call, goals.abandon(call.tx, call.tenant_id, goal_id))


@table.add("POST /goals/{goal_id}/decision", "Decide about a paused goal", ONE_GOAL, errors=(404,))
def decide_goal(call: OperationCall, goal_id: int, body: schemas.NewDecision) -> Document:
    limits = call.host.settings.limits
    return interrupt_goal(call, goals.decide(call.tx, call.tenant_id, goal_id, body.action, body.note, limits))


def interrupt_goal(call: OperationCall, goal: ledger.Goal) -> Document:
    """Return a goal, and interrupt its ended runs, so that they do not wait for a model or a tool."""
    goal_runs = runs.list_page(call.tx, call.tenant_id, None, MAX_GOAL_RUNS, goal.id)
    call.interrupt([run.id for run in goal_runs if run.ended])
    return start_goal(call, goal)

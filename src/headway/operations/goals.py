"""Operations on goals: /goals"""

from typing import Annotated, Final, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.actions.goals import goals, views
from headway.actions.goals.goals import DEFAULT_PRIORITY, DESCRIPTION_LIMIT, LOWEST_PRIORITY, REPOSITORY_LIMIT, GoalEdit
from headway.actions.goals.views import GRAPH_COLUMNS, DrawnPlan
from headway.actions.runs import runs
from headway.actions.todos import proof
from headway.ledger import goal as ledger
from headway.ledger.check import Author
from headway.ledger.goal import Decision, GoalSort, GoalStatus, PauseKind
from headway.ledger.money import LEAST_DOLLARS, MOST_DOLLARS, to_nanos
from headway.ledger.parsing.checks import write_checks
from headway.ledger.parsing.todo_fields import LATEST_SECOND
from headway.ledger.text import MAX_INTEGER, SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import UNSET
from headway.operations.fields import CursorQuery, Id, PageQuery, QueryModel, StrictModel, to_whole_number
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, many, one, page
from headway.operations.todos import NewChecks, list_checks
from headway.values.goals import Goal, GoalRun, GoalSummary, GoalUsage, JournalEntry, Plan
from headway.values.todos import Receipt
from headway.values.value import Meaning

GoalDescription = Annotated[
    str,
    Field(
        min_length=1,
        max_length=DESCRIPTION_LIMIT,
        examples=["Every page of the manual has been proofread."],
        json_schema_extra={"pattern": SUBJECT_PATTERN},
    ),
]
GoalText = Annotated[str, Field(max_length=DESCRIPTION_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})]
Priority = Annotated[int, Field(ge=0, le=LOWEST_PRIORITY, description="0 is highest"), BeforeValidator(to_whole_number)]
Budget = Annotated[float, Field(ge=LEAST_DOLLARS, le=MOST_DOLLARS, allow_inf_nan=False)]
FutureTime = Annotated[
    int, Field(ge=1, le=LATEST_SECOND, description="Epoch seconds, in the future"), BeforeValidator(to_whole_number)
]
PAUSE_KINDS = [kind for kind in get_args(PauseKind) if kind]


class NewGoal(StrictModel):
    description: GoalDescription
    success_criteria: GoalText = ""
    priority: Priority = DEFAULT_PRIORITY
    budget_usd: Budget | None = None
    deadline: FutureTime | None = None
    repository: Annotated[
        str,
        Field(
            max_length=REPOSITORY_LIMIT,
            description="A git repository in the workspace, in which its agents work",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    checks: Annotated[NewChecks, Field(description="What must hold at its end")] = []

    def new_goal(self, by: Author) -> goals.NewGoal:
        budget = to_nanos(self.budget_usd or 0)
        checks = write_checks(list_checks(self.checks), by)
        deadline_at = (self.deadline or 0) * 1000
        return goals.NewGoal(self.description, self.success_criteria, self.priority, budget, deadline_at, self.repository, checks)


class GoalChange(StrictModel):
    """The fields that can be changed. Omitted fields keep their values."""

    description: Annotated[GoalDescription | None, Field(description="A plan that exists is then replaced")] = None
    success_criteria: GoalText | None = None
    priority: Priority | None = None
    budget_usd: Annotated[Budget | None, Field(description="More than it has spent. Null: no limit besides the pool")] = None
    deadline: Annotated[FutureTime | None, Field(description="Epoch seconds, in the future. Null: none")] = None

    def to_edit(self) -> GoalEdit:
        """Return the change. Null removes a limit, and is ignored for other fields."""
        given = self.model_fields_set
        return GoalEdit(
            description=UNSET if self.description is None else self.description,
            success_criteria=UNSET if self.success_criteria is None else self.success_criteria,
            priority=UNSET if self.priority is None else self.priority,
            budget=to_nanos(self.budget_usd or 0) if "budget_usd" in given else UNSET,
            deadline_at=(self.deadline or 0) * 1000 if "deadline" in given else UNSET,
        )


class NewDecision(StrictModel):
    action: Decision
    note: GoalText = ""


class GoalsQuery(CursorQuery):
    status: GoalStatus | None = None
    q: Annotated[
        str,
        Field(
            max_length=SUBJECT_LIMIT,
            description="Words that must all be in the description, the criteria or the number. A search reads 5,000 goals "
            "at a time: if there is a next_cursor, there may be more, even if the page is not full",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    waiting: Annotated[bool, Field(description="Only goals that wait for a person: for a decision, an approval or an answer")] = (
        False
    )
    sort: Annotated[GoalSort, Field(description="priority: the most urgent first; deadline: the next one first")] = "newest"


class JournalQuery(PageQuery):
    before: Annotated[Id | None, Field(description="Only entries before this number")] = None


class GraphQuery(QueryModel):
    plan: Annotated[DrawnPlan, Field(description="current: without sub-goals that a later plan has replaced")] = "all"
    columns: Annotated[int, Field(ge=1, le=100, description="How many cards are side by side at most")] = GRAPH_COLUMNS


# Answers


class GraphNode(BaseModel):
    id: int
    x: int
    y: int


class GraphEdge(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    source: Annotated[int, Field(alias="from")]
    target: Annotated[int, Field(alias="to")]
    path: Annotated[str, Field(description="An SVG path")]


class Graph(BaseModel):
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


# Operations on goals: /goals


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
def create_goal(call: OperationCall, body: NewGoal) -> Document:
    new_goal = check_repository(call, body.new_goal(call.tx.author))
    return start_goal(call, goals.add_goal(call.tx, call.tenant_id, new_goal, call.host.settings.limits))


def check_repository(call: OperationCall, new_goal: goals.NewGoal) -> goals.NewGoal:
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
    return {"goal": views.show_goal(call.tx, call.tenant_id, goal_id, call.host.settings.goals)}


@table.add("GET /goals", "List goals, newest first unless `sort` says otherwise", page("goals", GoalSummary))
def list_goals(call: OperationCall, query: GoalsQuery) -> Document:
    chosen = ledger.GoalFilter(query.status, query.q, query.waiting, query.sort)
    return views.list_goals(call.tx, call.tenant_id, chosen, query.limit, query.cursor)._asdict()


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
def change_goal(call: OperationCall, goal_id: int, body: GoalChange) -> Document:
    return start_goal(call, goals.edit_goal(call.tx, call.tenant_id, goal_id, body.to_edit(), call.host.settings.limits))


@table.add("POST /goals/{goal_id}/run-again", "Start an ended goal again, as a new goal", {201: ONE_GOAL}, errors=(404, 409))
def repeat_goal(call: OperationCall, goal_id: int) -> Document:
    new_goal = check_repository(call, goals.build_repeat(call.tx, call.tenant_id, goal_id))
    return start_goal(call, goals.run_again(call.tx, call.tenant_id, new_goal, call.host.settings.limits))


@table.add(
    "GET /goals/{goal_id}/plans",
    "List the plans of a goal, the one in force first, with what each changed",
    page("plans", Plan),
    errors=(404,),
)
def list_goal_plans(call: OperationCall, goal_id: int, query: CursorQuery) -> Document:
    return views.list_plans(call.tx, call.tenant_id, goal_id, query.limit, query.cursor)._asdict()


@table.add(
    "GET /goals/{goal_id}/journal",
    "List journal entries, oldest first: the latest, or entries before a number",
    many("entries", JournalEntry),
    errors=(404,),
)
def get_goal_journal(call: OperationCall, goal_id: int, query: JournalQuery) -> Document:
    entries = views.list_entries(call.tx, call.tenant_id, goal_id, query.limit, query.before or MAX_INTEGER)
    return {"entries": [entry.as_json() for entry in entries]}


@table.add(
    "GET /goals/{goal_id}/receipts",
    "List what the checks of a goal and of its sub-goals found, newest first",
    many("receipts", Receipt),
    errors=(404,),
)
def list_goal_receipts(call: OperationCall, goal_id: int) -> Document:
    goals.get_goal(call.tx, call.tenant_id, goal_id)
    return {"receipts": [receipt.as_json() for receipt in proof.list_newest_of_goal(call.tx, call.tenant_id, goal_id)]}


@table.add("GET /goals/{goal_id}/graph", "Get the layout of the graph of sub-goals", one("graph", Graph), errors=(404,))
def get_goal_graph(call: OperationCall, goal_id: int, query: GraphQuery) -> Document:
    return {"graph": views.build_graph(call.tx, call.tenant_id, goal_id, query.plan, query.columns)}


@table.add(
    "GET /goals/{goal_id}/runs",
    "List the agent runs of a goal with their tokens, newest first, and what they used together",
    GOAL_RUNS,
    errors=(404,),
)
def list_goal_runs(call: OperationCall, goal_id: int) -> Document:
    return views.list_runs(call.tx, call.tenant_id, goal_id)


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
def decide_goal(call: OperationCall, goal_id: int, body: NewDecision) -> Document:
    limits = call.host.settings.limits
    return interrupt_goal(call, goals.decide_goal(call.tx, call.tenant_id, goal_id, body.action, body.note, limits))


def interrupt_goal(call: OperationCall, goal: ledger.Goal) -> Document:
    """Return a goal, and interrupt its ended runs, so that they do not wait for a model or a tool."""
    goal_runs = runs.list_runs(call.tx, call.tenant_id, None, MAX_GOAL_RUNS, goal.id)
    call.interrupt([run.id for run in goal_runs if run.ended])
    return start_goal(call, goal)

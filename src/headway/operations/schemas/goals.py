"""Schemas of goals."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from headway.actions.goal_views import GRAPH_COLUMNS, DrawnPlan
from headway.actions.goals import DEFAULT_PRIORITY, DESCRIPTION_LIMIT, LOWEST_PRIORITY, REPOSITORY_LIMIT, NewGoal
from headway.actions.people.goal_edits import GoalEdit
from headway.ledger.check import Author
from headway.ledger.goal import Decision, Divergence, GoalSort, GoalSource, GoalStatus, PauseKind, SubGoalMode, SubGoalStatus
from headway.ledger.run import NANOS_PER_DOLLAR, RunStatus
from headway.ledger.text import SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import UNSET, write_checks
from headway.operations.schemas.agents import AgentResult, ChangesShape, WaitShape
from headway.operations.schemas.checks import NewChecks, ProofShape, list_checks
from headway.operations.schemas.strict_model import StrictModel, to_whole_number
from headway.operations.schemas.todos import CursorQuery, Id, PageQuery, QueryModel

LATEST_DEADLINE_S = 253_402_300_799  # the end of the year 9999

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
Budget = Annotated[float, Field(ge=0.000001, le=1_000_000, allow_inf_nan=False)]
FutureTime = Annotated[
    int, Field(ge=1, le=LATEST_DEADLINE_S, description="Epoch seconds, in the future"), BeforeValidator(to_whole_number)
]
PAUSE_KINDS = [kind for kind in get_args(PauseKind) if kind]
PAUSE_KIND_SCHEMA = {"anyOf": [{"type": "string", "enum": PAUSE_KINDS}, {"type": "null"}]}


class NewGoalBody(StrictModel):
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

    def new_goal(self, by: Author) -> NewGoal:
        budget = int((self.budget_usd or 0) * NANOS_PER_DOLLAR)
        checks = write_checks(list_checks(self.checks), by)
        deadline_at = (self.deadline or 0) * 1000
        return NewGoal(self.description, self.success_criteria, self.priority, budget, deadline_at, self.repository, checks)


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
            budget=int((self.budget_usd or 0) * NANOS_PER_DOLLAR) if "budget_usd" in given else UNSET,
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
    columns: Annotated[int, Field(ge=1, le=100, description="About how many cards are side by side")] = GRAPH_COLUMNS


class WhyQuery(QueryModel):
    sub_goal_id: Id | None = None


# Answers


class Progress(BaseModel):
    """The number of sub-goals of all plans, by status, and the progress of the current plan."""

    total: int
    pending: int
    in_progress: int
    completed: int
    failed: int
    skipped: int
    in_plan: Annotated[int, Field(description="In the current plan, with what was done before and counts")]
    done: Annotated[int, Field(description="Of these, completed without a major divergence")]


class GoalOrigin(BaseModel):
    goal_id: int
    at: Annotated[int, Field(description="The last journal entry that was copied")]


class GoalUsage(BaseModel):
    input_tokens: int
    cached_tokens: Annotated[int, Field(description="The input tokens that were read from the provider's prompt cache")]
    output_tokens: int


class GoalSummary(ProofShape):
    id: int
    source: GoalSource
    description: str
    success_criteria: str
    evidence: Annotated[str, Field(description="Why an agent proposed it, or in which turn it set it")]
    status: GoalStatus
    priority: int
    replan_count: int
    plan_no: Annotated[int, Field(description="0: there is no plan yet")]
    pause_kind: Annotated[PauseKind | None, WithJsonSchema(PAUSE_KIND_SCHEMA)]
    pause_reason: str | None
    needs_decision: Annotated[bool, Field(description="It is paused until a person decides")]
    run_id: Annotated[str | None, Field(description="Its main agent")]
    forked_from: Annotated[GoalOrigin | None, Field(description="The goal that it is a fork of")]
    repeat_of: Annotated[int | None, Field(description="The goal that was run again as this one")]
    progress: Progress
    waiting_for: Annotated[WaitShape | None, Field(description="The oldest open approval or question of its agents")]
    usage: Annotated[GoalUsage, Field(description="Of its model calls so far")]
    cost_usd: float
    budget_usd: float | None
    repository: Annotated[str | None, Field(description="The git repository in which its agents work")]
    deadline: Annotated[int, Field(description="Epoch seconds; 0: none")]
    created_at: int
    updated_at: int
    ended_at: Annotated[int, Field(description="Epoch seconds; 0: not yet")]


class SubGoalShape(ProofShape):
    id: int
    title: Annotated[str, Field(description="A short name")]
    description: str
    expected_outcome: str
    kind: str
    mode: SubGoalMode
    role: str
    depends_on: list[int]
    status: SubGoalStatus
    priority: int
    expected_value: float
    outcome: AgentResult | None
    reason: Annotated[str, Field(description="Why it failed or was skipped")]
    divergence: Annotated[Divergence | None, Field(description="null: not evaluated yet")]
    divergence_reason: str
    run_id: str | None
    plan_no: Annotated[int, Field(description="The plan that added it")]
    superseded_by: Annotated[
        int | None, Field(description="The plan that dropped it or replaced its outcome; null: it is in the current plan")
    ]
    cost_usd: float
    created_at: int
    started_at: int
    ended_at: int
    start_ms: Annotated[int, Field(description="`started_at` in epoch milliseconds")]
    end_ms: Annotated[int, Field(description="`ended_at` in epoch milliseconds")]
    checked_at: int


class ExperienceShape(BaseModel):
    """The track record of one kind of sub-goal in this tenant."""

    kind: str
    tried: int
    succeeded: int
    success_rate: float
    cost_usd: float
    duration_s: float


class GoalShape(GoalSummary):
    changes: Annotated[ChangesShape | None, Field(description="What its agents changed in the repository; null until it ends")]
    replan_limit: int
    sub_goals: list[SubGoalShape]
    experience: list[ExperienceShape]


class OneGoal(BaseModel):
    goal: GoalShape


class ManyGoals(BaseModel):
    goals: list[GoalSummary]
    next_cursor: str | None


class JournalEntryShape(BaseModel):
    n: int
    kind: str
    data: dict[str, Any]
    at: int


class ManyEntries(BaseModel):
    entries: list[JournalEntryShape]


class PlanMember(BaseModel):
    id: int
    title: str
    status: SubGoalStatus
    divergence: Divergence | None


class PlanShape(BaseModel):
    plan: int
    in_force: bool
    created_at: int
    reason: Annotated[str, Field(description="Why it replaced the plan before; empty for the first")]
    sub_goals: Annotated[list[int], Field(description="Its sub-goals, with those that were done before and count")]
    total: int
    done: int
    added: list[PlanMember]
    removed: Annotated[list[PlanMember], Field(description="Dropped, or failed or diverged before and replaced")]
    changed: Annotated[list[PlanMember], Field(description="Kept, with other dependencies")]


class ManyPlans(BaseModel):
    plans: list[PlanShape]
    next_cursor: str | None


class GraphNode(BaseModel):
    id: int
    x: int
    y: int


class GraphEdge(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    source: Annotated[int, Field(alias="from")]
    target: Annotated[int, Field(alias="to")]
    path: Annotated[str, Field(description="An SVG path")]


class GraphShape(BaseModel):
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GoalRunShape(BaseModel):
    id: str
    parent_run_id: Annotated[str | None, Field(description="null: the goal's main agent")]
    sub_goal_id: int | None
    role: str
    status: RunStatus
    iterations: int
    limit: int
    cost_usd: float
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    retry_at: Annotated[int, Field(description="Epoch seconds; 0: it waits for no retry")]
    created_at: int
    updated_at: int
    ended_at: Annotated[int, Field(description="Epoch seconds; 0: not yet")]
    start_ms: Annotated[int, Field(description="`created_at` in epoch milliseconds")]
    end_ms: Annotated[int, Field(description="`ended_at` in epoch milliseconds")]


class GoalRuns(BaseModel):
    runs: Annotated[list[GoalRunShape], Field(description="At most 2,000")]
    usage: Annotated[GoalUsage, Field(description="Of all its runs")]
    omitted: Annotated[int, Field(description="How many older runs are not listed")]


class OneGraph(BaseModel):
    graph: GraphShape


class Explained(BaseModel):
    why: str

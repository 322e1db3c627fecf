"""Schemas of goals."""

from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.actions.goal_views import GRAPH_COLUMNS, DrawnPlan
from headway.actions.goals import DEFAULT_PRIORITY, DESCRIPTION_LIMIT, LOWEST_PRIORITY, REPOSITORY_LIMIT, NewGoal
from headway.actions.people.goal_edits import GoalEdit
from headway.ledger.check import Author
from headway.ledger.goal import Decision, GoalSort, GoalStatus, PauseKind
from headway.ledger.parsing.calendar_time import LATEST_SECOND
from headway.ledger.run import LEAST_DOLLARS, MOST_DOLLARS, to_nanos
from headway.ledger.text import SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.todo import UNSET, write_checks
from headway.operations.schemas.checks import NewChecks, list_checks
from headway.operations.schemas.strict_model import StrictModel, to_whole_number
from headway.operations.schemas.todos import CursorQuery, Id, PageQuery, QueryModel

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
        budget = to_nanos(self.budget_usd or 0)
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
    columns: Annotated[int, Field(ge=1, le=100, description="About how many cards are side by side")] = GRAPH_COLUMNS


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

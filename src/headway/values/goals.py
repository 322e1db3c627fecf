"""Goals with their sub-goals and journal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from headway.ledger.check import Proof
from headway.ledger.goal import Divergence, GoalSource, GoalStatus, PauseKind, SubGoalMode, SubGoalStatus
from headway.ledger.run import RunStatus
from headway.values.todos import PROOF, Checks
from headway.values.turns import Changes, Wait
from headway.values.value import Meaning, Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress(Value):
    """The number of sub-goals of all plans, by status, and the progress of the current plan."""

    total: int = 0
    pending: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    in_plan: Annotated[int, Meaning("In the current plan, with what was done before and counts")] = 0
    done: Annotated[int, Meaning("Of these, completed without a major divergence")] = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgentResult(Value):
    """The report of a sub-agent to the agent that started it."""

    status: RunStatus
    summary: str = ""
    data: Annotated[Any, Meaning("What the agent reported beside its summary; null: nothing")] = None
    error: str | None = None
    cost_usd: float = 0.0
    changes: Annotated[Changes | None, Meaning("Only if it worked in a repository", is_omitted=True)] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SubGoal(Value):
    """One step of a goal's plan."""

    id: int
    title: Annotated[str, Meaning("A short name")] = ""
    description: str
    status: SubGoalStatus
    expected_outcome: str = ""
    kind: str = ""
    mode: SubGoalMode
    role: str = ""
    depends_on: tuple[int, ...] = ()
    priority: Annotated[int, Meaning("1 to 10. 10 is the most urgent, unlike the priority of goals")] = 0
    expected_value: float = 0.0
    outcome: AgentResult | None = None
    reason: Annotated[str, Meaning("Why it failed or was skipped")] = ""
    divergence: Annotated[Divergence | None, Meaning("null: not evaluated yet")] = None
    divergence_reason: str = ""
    run_id: str | None = None
    plan_no: Annotated[int, Meaning("The plan that added it")] = 0
    superseded_by: Annotated[
        int | None, Meaning("The plan that dropped it or replaced its outcome; null: it is in the current plan")
    ] = None
    cost_usd: float = 0.0
    checks: Checks = ()
    proof: Annotated[Proof, Meaning(PROOF)] = "none"
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    start_ms: Annotated[int, Meaning("`started_at` in epoch milliseconds")] = 0
    end_ms: Annotated[int, Meaning("`ended_at` in epoch milliseconds")] = 0
    checked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GoalOrigin(Value):
    """The goal that a goal is a fork of."""

    goal_id: int
    at: Annotated[int, Meaning("The last journal entry that was copied")]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GoalUsage(Value):
    """The tokens of a goal's model calls."""

    input_tokens: int = 0
    cached_tokens: Annotated[int, Meaning("The input tokens that were read from the provider's prompt cache")] = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Experience(Value):
    """The track record of one kind of sub-goal in this tenant."""

    kind: str
    tried: int
    succeeded: int
    success_rate: float
    cost_usd: float
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GoalSummary(Value):
    """A goal as lists show it."""

    id: int
    description: str
    status: GoalStatus
    source: GoalSource
    success_criteria: str = ""
    evidence: Annotated[str, Meaning("Why an agent proposed it, or in which turn it set it")] = ""
    priority: Annotated[int, Meaning("0 is the most urgent")] = 0
    progress: Progress
    pause_kind: Annotated[PauseKind, Meaning(schema="PauseKind")] | None = None
    pause_reason: str | None = None
    needs_decision: Annotated[bool, Meaning("It is paused until a person decides")] = False
    waiting_for: Annotated[Wait | None, Meaning("The oldest open approval or question of its agents")] = None
    run_id: Annotated[str | None, Meaning("Its main agent")] = None
    forked_from: Annotated[GoalOrigin | None, Meaning("The goal that it is a fork of")] = None
    repeat_of: Annotated[int | None, Meaning("The goal that was run again as this one")] = None
    replan_count: int = 0
    plan_no: Annotated[int, Meaning("0: there is no plan yet")] = 0
    usage: Annotated[GoalUsage, Meaning("Of its model calls so far")] = field(default_factory=GoalUsage)
    cost_usd: float = 0.0
    budget_usd: float | None = None
    deadline: Annotated[datetime | None, Meaning("Epoch seconds; 0: none")] = None
    repository: Annotated[str | None, Meaning("The git repository in which its agents work")] = None
    checks: Checks = ()
    proof: Annotated[Proof, Meaning(PROOF)] = "none"
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Goal(GoalSummary):
    """A goal that agents pursue. Lists leave out its sub-goals, `changes`, `replan_limit` and `experience`."""

    sub_goals: tuple[SubGoal, ...] = ()
    changes: Annotated[Changes | None, Meaning("What its agents changed in the repository; null until it ends")] = None
    replan_limit: int = 0
    experience: tuple[Experience, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JournalEntry(Value):
    """An entry of a goal's journal."""

    n: int
    kind: str
    data: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanMember(Value):
    """A sub-goal in the history of plans."""

    id: int
    title: str
    status: SubGoalStatus
    divergence: Divergence | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Value):
    """A plan of a goal, and what it changed."""

    plan: int
    in_force: bool
    created_at: datetime
    reason: Annotated[str, Meaning("Why it replaced the plan before; empty for the first")] = ""
    sub_goals: Annotated[tuple[int, ...], Meaning("Its sub-goals, with those that were done before and count")] = ()
    total: int = 0
    done: int = 0
    added: tuple[PlanMember, ...] = ()
    removed: Annotated[tuple[PlanMember, ...], Meaning("Dropped, or failed or diverged before and replaced")] = ()
    changed: Annotated[tuple[PlanMember, ...], Meaning("Kept, with other dependencies")] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GoalRun(Value):
    """An agent's run for a goal."""

    id: str
    parent_run_id: Annotated[str | None, Meaning("null: the goal's main agent")] = None
    sub_goal_id: int | None = None
    role: str = ""
    status: RunStatus
    iterations: int = 0
    limit: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    retry_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: it waits for no retry")] = None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    start_ms: Annotated[int, Meaning("`created_at` in epoch milliseconds")] = 0
    end_ms: Annotated[int, Meaning("`ended_at` in epoch milliseconds")] = 0

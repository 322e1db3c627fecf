"""Goals with their sub-goals and journal."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headway.ledger.check import Proof
from headway.ledger.goal import Divergence, GoalSource, GoalStatus, SubGoalMode, SubGoalStatus
from headway.ledger.run import RunStatus
from headway.values.turns import Wait
from headway.values.value import Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress(Value):
    """The number of sub-goals by status."""

    total: int = 0
    pending: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AgentResult(Value):
    """What an agent reported at the end of its task. `data` is what it reported beside its summary."""

    status: RunStatus
    summary: str = ""
    data: Any = None
    error: str | None = None
    cost_usd: float = 0.0
    changes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SubGoal(Value):
    """One step of a goal's plan."""

    id: int
    description: str
    status: SubGoalStatus
    expected_outcome: str = ""
    kind: str = ""
    mode: SubGoalMode
    role: str = ""
    depends_on: tuple[int, ...] = ()
    priority: int = 0
    expected_value: float = 0.0
    outcome: AgentResult | None = None
    reason: str = ""
    divergence: Divergence | None = None
    divergence_reason: str = ""
    run_id: str | None = None
    plan_no: int = 0
    cost_usd: float = 0.0
    proof: Proof = "none"
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Goal(Value):
    """A goal that agents pursue. Lists leave out its sub-goals and `changes`."""

    id: int
    description: str
    status: GoalStatus
    source: GoalSource
    success_criteria: str = ""
    evidence: str = ""
    priority: int = 0
    progress: Progress
    pause_kind: str | None = None
    pause_reason: str | None = None
    waiting_for: Wait | None = None
    run_id: str | None = None
    replan_count: int = 0
    plan_no: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    deadline: datetime | None = None
    repository: str | None = None
    checks: tuple[Mapping[str, Any], ...] = ()
    proof: Proof = "none"
    sub_goals: tuple[SubGoal, ...] = ()
    changes: Mapping[str, Any] | None = None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JournalEntry(Value):
    """An entry of a goal's journal."""

    n: int
    kind: str
    data: Mapping[str, Any]
    at: datetime

"""Objectives that are pursued without a person, and the graph of what has to be done for them."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.run import to_dollars

GoalSource = Literal["operator-injected", "agent-discovered"]
GoalStatus = Literal["active", "paused", "completed", "abandoned"]
# Who or what it waits for: the operator who paused it, a decision after too many replans or where nothing else helps, money,
# a yes to a proposal, or somebody who mends a fault.
PauseKind = Literal["", "operator", "replans", "escalation", "budget", "proposal", "fault"]
SubGoalStatus = Literal["pending", "in-progress", "completed", "failed", "skipped"]
Divergence = Literal["none", "minor", "major"]
SubGoalMode = Literal["inline", "agent"]
Decision = Literal["continue", "replan", "abandon"]
DiscoveryPolicy = Literal["ask", "auto"]  # what becomes of a goal that an agent found: the operator decides, or it begins

STATUSES: Final[tuple[SubGoalStatus, ...]] = ("pending", "in-progress", "completed", "failed", "skipped")
OPEN_STATUSES: Final = ("pending", "in-progress")
MINOR_DIVERGENCE_LIMIT: Final = 2  # minor divergences under one plan that call for no new one
MIN_JUDGED: Final = 4  # before a share of them says anything


class Goal(NamedTuple):
    id: int
    tenant_id: int
    source: GoalSource
    description: str
    success_criteria: str
    evidence: str  # why an agent proposed it
    status: GoalStatus
    priority: int  # 0 is the highest
    pause_kind: PauseKind
    pause_reason: str
    replan_count: int
    plan_no: int  # 0: there is none yet
    replan_why: str  # a new plan is due whatever the sub-goals say
    run_id: str | None  # of its main agent
    budget: int  # of its own; 0: only the tenant's pool
    deadline_at: int
    created_at: int
    updated_at: int
    ended_at: int
    pending: int = 0  # sub-goals, by status
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def progress(self) -> dict[str, int]:
        """How far it got, from how many of its sub-goals have which status."""
        counts = (self.pending, self.in_progress, self.completed, self.failed, self.skipped)
        by_status = {status.replace("-", "_"): count for status, count in zip(STATUSES, counts, strict=True)}
        return {"total": sum(counts), **by_status}


class SubGoal(NamedTuple):
    id: int
    tenant_id: int
    goal_id: int
    plan_no: int  # the plan it came with
    description: str
    expected_outcome: str
    kind: str  # what sort of work it is: the next plan learns by that
    mode: SubGoalMode
    role: str
    priority: int  # 10 is the most urgent
    expected_value: float  # from 0 to 1
    cost_limit: int  # 0: none
    status: SubGoalStatus
    outcome: str | None  # JSON
    reason: str  # why it failed or was skipped
    divergence: Divergence | None  # none of these: not judged yet
    divergence_reason: str
    judged_under: int  # the plan that was in force
    run_id: str | None
    cost: int  # what its inline work began with, until it has ended
    interrupted: int  # by a crash, and not looked at since
    interventions: int
    checks: int
    checked_at: int
    progress_at: int  # when a check-in last saw it get further,
    progress_steps: int  # and how far it was then
    progress_effects: int
    created_at: int
    updated_at: int
    started_at: int
    ended_at: int
    depends_on: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def worth(self) -> float:
        return self.priority * self.expected_value

    def as_json(self) -> dict[str, Any]:
        return {**self.as_json_without_outcome(), "outcome": json.loads(self.outcome) if self.outcome else None}

    def as_json_without_outcome(self) -> dict[str, Any]:
        """What is not JSON already."""
        return {
            "id": self.id,
            "description": self.description,
            "expected_outcome": self.expected_outcome,
            "kind": self.kind,
            "mode": self.mode,
            "role": self.role,
            "depends_on": list(self.depends_on),
            "status": self.status,
            "priority": self.priority,
            "expected_value": self.expected_value,
            "reason": self.reason,
            "divergence": self.divergence,
            "divergence_reason": self.divergence_reason,
            "run_id": self.run_id,
            "plan_no": self.plan_no,
            "cost_usd": to_dollars(self.cost) if self.ended else 0.0,
            "created_at": self.created_at // 1000,
            "started_at": self.started_at // 1000,
            "ended_at": self.ended_at // 1000,
            "checked_at": self.checked_at // 1000,
        }


class PlannedStep(NamedTuple):
    """A sub-goal as a plan names it: a new one, or one that is there already and stays."""

    key: str
    description: str
    expected_outcome: str
    kind: str
    mode: SubGoalMode
    role: str
    priority: int
    expected_value: float
    cost_limit: int
    depends_on: tuple[str, ...]


class GoalLimits(NamedTuple):
    """How far the pursuit of a goal goes by itself."""

    replans: int = 5  # then a person decides
    discovery: DiscoveryPolicy = "ask"
    check_in_ms: int = 30_000  # between two looks at a sub-goal at work,
    stuck_after_ms: int = 600_000  # and how long it may get no further


class JournalEntry(NamedTuple):
    n: int
    kind: str
    data: str
    at: int

    def as_json(self) -> dict[str, Any]:
        return {"n": self.n, "kind": self.kind, "data": json.loads(self.data), "at": self.at // 1000}


class Experience(NamedTuple):
    """What became of sub-goals of one kind so far."""

    kind: str
    tried: int
    succeeded: int
    cost: int  # on average
    duration_ms: int

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "tried": self.tried,
            "succeeded": self.succeeded,
            "success_rate": round(self.succeeded / self.tried, 2),
            "cost_usd": to_dollars(self.cost),
            "duration_s": round(self.duration_ms / 1000, 1),
        }


# What can be done next


def list_ready(sub_goals: Sequence[SubGoal]) -> list[SubGoal]:
    """Pending ones that wait for nothing, the worthiest first. What they build on is done, and was found to be as expected."""
    good = {one.id for one in sub_goals if one.status == "completed" and one.divergence is not None}
    waiting = [one for one in sub_goals if one.status == "pending" and all(below in good for below in one.depends_on)]
    return sorted(waiting, key=lambda one: (-one.worth, one.id))


def list_stranded(sub_goals: Sequence[SubGoal]) -> list[tuple[SubGoal, SubGoal]]:
    """Pending ones that could never start, each with what it waits for in vain."""
    lost = {one.id: one for one in sub_goals if one.status in ("failed", "skipped")}
    return [(one, lost[below]) for one in sub_goals if one.status == "pending" for below in one.depends_on if below in lost]


def find_replan_reason(goal: Goal, sub_goals: Sequence[SubGoal]) -> str | None:
    """Why the plan in force will not do any more, if so: any major divergence, more than two minor ones, or more than half of
    at least four."""
    if goal.replan_why:
        return goal.replan_why
    judged = [one for one in sub_goals if one.judged_under == goal.plan_no and one.divergence is not None]
    major = next((one for one in judged if one.divergence == "major"), None)
    if major:
        return f"#{major.id} diverged: {major.divergence_reason}"
    minor = [one for one in judged if one.divergence == "minor"]
    if len(minor) > MINOR_DIVERGENCE_LIMIT or (len(judged) >= MIN_JUDGED and len(minor) * 2 > len(judged)):
        return f"{len(minor)} of {len(judged)} outcomes diverged a little: " + " ".join(one.divergence_reason for one in minor[:5])
    lost = list_stranded(sub_goals)
    if lost:
        return f"#{lost[0][0].id} waits for #{lost[0][1].id}, which was {lost[0][1].status}."
    return None


def has_replan_reason(goal: Goal, doubts: Collection[str]) -> bool:
    """Whether `replan_reason` has one to give, from the divergences under the plan in force other than none, and whether anything
    waits in vain. (More than half of at least four are more than two.)"""
    minor = sum(doubt == "minor" for doubt in doubts)
    return bool(goal.replan_why) or minor > MINOR_DIVERGENCE_LIMIT or len(doubts) > minor


def compute_frontier(sub_goals: Iterable[SubGoal]) -> frozenset[str]:
    """What is still to be done, by what it says: the same words under a new number are the same work."""
    return frozenset(normalize_description(one.description) for one in sub_goals if one.status in OPEN_STATUSES)


def normalize_description(description: str) -> str:
    return " ".join(description.casefold().split())

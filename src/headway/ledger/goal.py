"""Goals, which agents pursue without supervision, and the graph of sub-goals that leads to each."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.check import Proof, decode_checks
from headway.ledger.money import to_dollars
from headway.ledger.text import cut_at_word, to_one_line

GoalSource = Literal["operator-injected", "agent-discovered"]
GoalStatus = Literal["active", "paused", "completed", "abandoned"]
# Why a goal is paused: an operator paused it, it was replanned too often, it was escalated for a decision, the tenant's pool is
# empty, its own budget is spent, its deadline has passed, it is a proposal that needs approval, or a fault has to be fixed.
PauseKind = Literal["", "operator", "replans", "escalation", "budget", "goal_budget", "deadline", "proposal", "fault"]
# The pauses that only a person can end. An empty pool fills up again, and what a person paused is not waiting for anyone.
DECISION_KINDS: Final[tuple[PauseKind, ...]] = ("replans", "escalation", "goal_budget", "deadline", "proposal", "fault")
GoalSort = Literal["newest", "updated", "priority", "deadline"]
SubGoalStatus = Literal["pending", "in-progress", "completed", "failed", "skipped"]
Divergence = Literal["none", "minor", "major"]
SubGoalMode = Literal["inline", "agent"]
Decision = Literal["continue", "replan", "abandon"]

STATUSES: Final[tuple[SubGoalStatus, ...]] = ("pending", "in-progress", "completed", "failed", "skipped")
OPEN_STATUSES: Final = ("pending", "in-progress")
MINOR_DIVERGENCE_LIMIT: Final = 2  # minor divergences that a plan tolerates before it is replaced
TITLE_LIMIT: Final = 60  # characters of a sub-goal's title
MIN_JUDGED: Final = 4  # outcomes needed before the share of minor divergences counts


class Goal(NamedTuple):
    id: int
    tenant_id: int
    source: GoalSource
    description: str
    success_criteria: str
    evidence: str  # why an agent proposed it
    status: GoalStatus
    priority: int  # 0 is the most urgent, as it is for todos
    pause_kind: PauseKind
    pause_reason: str
    replan_count: int
    plan_no: int  # 0: no plan yet
    replan_why: str  # if set, a new plan is due regardless of the sub-goals
    run_id: str | None  # the run of its main agent
    budget: int  # the goal's own limit; 0: only the tenant's pool applies
    deadline_at: int
    created_at: int
    updated_at: int
    ended_at: int
    pending: int = 0  # the number of sub-goals in each status
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    repository: str = ""  # the git repository that its agents work in, relative to the tenant's workspace; empty: none
    checks: str = ""  # JSON: what must hold at its end; empty if nothing
    proof: Proof = "none"
    forked_from: int = 0  # the goal that it is a fork of
    fork_at: int = 0  # the last journal entry of that goal that it has copied
    in_plan: int = 0  # the number of sub-goals in the current plan
    done: int = 0  # how many of these have an outcome that counts
    repeat_of: int = 0  # the goal that a person ran again

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def needs_decision(self) -> bool:
        return self.status == "paused" and self.pause_kind in DECISION_KINDS

    @property
    def progress(self) -> dict[str, int]:
        """Count the sub-goals of all plans by status, and for the current plan how many there are and how many are done."""
        counts = (self.pending, self.in_progress, self.completed, self.failed, self.skipped)
        by_status = {status.replace("-", "_"): count for status, count in zip(STATUSES, counts, strict=True)}
        return {"total": sum(counts), **by_status, "in_plan": self.in_plan, "done": self.done}


class GoalFilter(NamedTuple):
    """Which goals a list shows, and in which order."""

    status: GoalStatus | None = None
    words: str = ""  # all of them must be in the texts or the number of a goal
    waiting: bool = False  # only goals that wait for a person
    sort: GoalSort = "newest"


class SubGoal(NamedTuple):
    id: int
    tenant_id: int
    goal_id: int
    plan_no: int  # the plan that introduced it
    description: str
    expected_outcome: str
    kind: str  # the type of work; planning uses past results of the same kind
    mode: SubGoalMode
    role: str
    urgency: int  # 1 to 10: 10 is the most urgent. JSON and plans call it `priority`
    expected_value: float  # from 0 to 1
    cost_limit: int  # 0: no limit
    status: SubGoalStatus = "pending"
    outcome: str | None = None  # JSON
    reason: str = ""  # why it failed or was skipped
    divergence: Divergence | None = None  # None until it has been judged
    divergence_reason: str = ""
    judged_under: int = 0  # the plan in force when it was judged
    run_id: str | None = None
    cost: int = 0  # for inline work in progress, the run's cost at the start
    interrupted: int = 0  # 1: a crash interrupted it and it has not been reviewed yet
    interventions: int = 0
    check_ins: int = 0
    checked_at: int = 0
    progress_at: int = 0  # when a check-in last saw progress,
    progress_steps: int = 0  # and the counters at that time
    progress_effects: int = 0
    created_at: int = 0
    updated_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    checks: str = ""  # JSON: what must hold for its outcome to count; empty if nothing
    proof: Proof = "none"
    title: str = ""  # what the planner calls it; may be empty
    superseded_by: int = 0  # the plan that dropped it, or that replaced its outcome; 0: it is part of the current plan
    depends_on: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def is_done(self) -> bool:
        """Whether its outcome counts. A major divergence means that the work was not done as expected."""
        return self.status == "completed" and self.divergence != "major"

    @property
    def name(self) -> str:
        """A short name for people: its title, or the beginning of its description."""
        return name_sub_goal(self.title, self.description)

    @property
    def worth(self) -> float:
        return self.urgency * self.expected_value

    def as_json(self) -> dict[str, Any]:
        return {**self.as_json_without_outcome(), "outcome": json.loads(self.outcome) if self.outcome else None}

    def as_json_without_outcome(self) -> dict[str, Any]:
        """Return every field as JSON except `outcome`, which is stored as JSON already."""
        return {
            "id": self.id,
            "title": self.name,
            "description": self.description,
            "expected_outcome": self.expected_outcome,
            "kind": self.kind,
            "mode": self.mode,
            "role": self.role,
            "depends_on": list(self.depends_on),
            "status": self.status,
            "priority": self.urgency,
            "expected_value": self.expected_value,
            "reason": self.reason,
            "divergence": self.divergence,
            "divergence_reason": self.divergence_reason,
            "run_id": self.run_id,
            "plan_no": self.plan_no,
            "superseded_by": self.superseded_by or None,
            "cost_usd": to_dollars(self.cost) if self.ended else 0.0,
            "created_at": self.created_at // 1000,
            "started_at": self.started_at // 1000,
            "ended_at": self.ended_at // 1000,
            "start_ms": self.started_at,
            "end_ms": self.ended_at,
            "checked_at": self.checked_at // 1000,
            "checks": decode_checks(self.checks),
            "proof": self.proof,
        }


def name_sub_goal(title: str, description: str) -> str:
    return title or cut_at_word(to_one_line(description).strip(), TITLE_LIMIT)


class PlannedStep(NamedTuple):
    """A sub-goal in a plan: a new one, or an existing one that the plan keeps."""

    key: str
    description: str
    expected_outcome: str
    kind: str
    mode: SubGoalMode
    role: str
    urgency: int
    expected_value: float
    cost_limit: int
    depends_on: tuple[str, ...]
    checks: str = ""  # JSON
    title: str = ""


class JournalEntry(NamedTuple):
    n: int
    kind: str
    data: str
    at: int

    def as_json(self) -> dict[str, Any]:
        return {"n": self.n, "kind": self.kind, "data": json.loads(self.data), "at": self.at // 1000}


class Experience(NamedTuple):
    """Past results of sub-goals of one kind."""

    kind: str
    tried: int
    succeeded: int
    cost: int  # average
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


# Ready work and replanning


def list_ready(sub_goals: Sequence[SubGoal]) -> list[SubGoal]:
    """List the pending sub-goals that can start, highest worth first. Each dependency must be completed and judged."""
    completed_ids = {sub_goal.id for sub_goal in sub_goals if sub_goal.status == "completed" and sub_goal.divergence is not None}
    ready = [
        sub_goal
        for sub_goal in sub_goals
        if sub_goal.status == "pending" and all(dependency in completed_ids for dependency in sub_goal.depends_on)
    ]
    return sorted(ready, key=lambda sub_goal: (-sub_goal.worth, sub_goal.id))


def list_stranded(sub_goals: Sequence[SubGoal]) -> list[tuple[SubGoal, SubGoal]]:
    """List the pending sub-goals that can never start, each with the failed or skipped dependency that blocks it."""
    dead_ends = {sub_goal.id: sub_goal for sub_goal in sub_goals if sub_goal.status in ("failed", "skipped")}
    return [
        (sub_goal, dead_ends[dependency])
        for sub_goal in sub_goals
        if sub_goal.status == "pending"
        for dependency in sub_goal.depends_on
        if dependency in dead_ends
    ]


def find_replan_reason(goal: Goal, sub_goals: Sequence[SubGoal]) -> str | None:
    """Explain why the current plan must be replaced, or return None. Reasons are a major divergence, more than two minor ones,
    minor ones in more than half of at least four judged outcomes, or a sub-goal that can never start."""
    if goal.replan_why:
        return goal.replan_why
    judged = [sub_goal for sub_goal in sub_goals if sub_goal.judged_under == goal.plan_no and sub_goal.divergence is not None]
    major = next((sub_goal for sub_goal in judged if sub_goal.divergence == "major"), None)
    if major:
        return f"#{major.id} diverged: {major.divergence_reason}"
    minor = [sub_goal for sub_goal in judged if sub_goal.divergence == "minor"]
    if len(minor) > MINOR_DIVERGENCE_LIMIT or (len(judged) >= MIN_JUDGED and len(minor) * 2 > len(judged)):
        return f"{len(minor)} of {len(judged)} outcomes diverged slightly: " + " ".join(
            sub_goal.divergence_reason for sub_goal in minor[:5]
        )
    stranded = list_stranded(sub_goals)
    if stranded:
        return f"#{stranded[0][0].id} waits for #{stranded[0][1].id}, which was {stranded[0][1].status}."
    return None


def has_replan_reason(goal: Goal, doubts: Collection[str]) -> bool:
    """Whether `find_replan_reason` would return a reason. `doubts` are the divergences other than "none" under the current plan,
    and one entry per sub-goal that can never start. (More than half of at least four is always more than two.)"""
    minor = sum(doubt == "minor" for doubt in doubts)
    return bool(goal.replan_why) or minor > MINOR_DIVERGENCE_LIMIT or len(doubts) > minor


def compute_frontier(sub_goals: Iterable[SubGoal]) -> frozenset[str]:
    """Return the descriptions of the open sub-goals, normalized. The same words under a new id count as the same work."""
    return frozenset(normalize_description(sub_goal.description) for sub_goal in sub_goals if sub_goal.status in OPEN_STATUSES)


def normalize_description(description: str) -> str:
    return " ".join(description.casefold().split())

"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/goals.py."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.ledger.goal import Decision, GoalStatus
from headway.ledger.todo import UNSET, Unset
from headway.library.namespaces import goals
from headway.library.portal import Portal
from headway.values.goals import Goal, JournalEntry
from headway.values.todos import Receipt
from headway.values.value import Page


class SyncGoals:
    """Sets, follows and controls goals."""

    def __init__(self, portal: Portal, source: goals.Goals) -> None:
        self._portal = portal
        self._source = source

    def add(
        self,
        description: str,
        *,
        success_criteria: str = "",
        priority: int | None = None,
        budget_usd: float | None = None,
        deadline: datetime | None = None,
        repository: str = "",
        checks: Sequence[Mapping[str, Any]] = (),
    ) -> Goal:
        """Set a goal and start to pursue it. `checks` are what must hold at its end."""
        return self._portal.run(
            self._source.add(
                description,
                success_criteria=success_criteria,
                priority=priority,
                budget_usd=budget_usd,
                deadline=deadline,
                repository=repository,
                checks=checks,
            )
        )

    def get(self, goal_id: int) -> Goal:
        """Return a goal with its sub-goals, or raise NotFound."""
        return self._portal.run(self._source.get(goal_id))

    def list(self, *, status: GoalStatus | None = None, limit: int = 50, cursor: str | None = None) -> Page[Goal]:
        """List goals, newest first."""
        return self._portal.run(self._source.list(status=status, limit=limit, cursor=cursor))

    def iterate(self, *, status: GoalStatus | None = None) -> Iterator[Goal]:
        """Iterate over all goals, newest first."""
        return self._portal.iterate(self._source.iterate(status=status))

    def wait(self, goal_id: int) -> Goal:
        """Wait until a goal is over or paused, and return it. A paused one needs a decision: `pause_reason` says why."""
        return self._portal.run(self._source.wait(goal_id))

    def journal(self, goal_id: int, *, limit: int = 50, before: int | None = None) -> tuple[JournalEntry, ...]:
        """List the latest entries of the journal, or those before a number, oldest first."""
        return self._portal.run(self._source.journal(goal_id, limit=limit, before=before))

    def receipts(self, goal_id: int) -> tuple[Receipt, ...]:
        """List what the checks of a goal found at its end, newest first."""
        return self._portal.run(self._source.receipts(goal_id))

    def why(self, goal_id: int, sub_goal_id: int | None = None) -> str:
        """Explain why a goal or one of its sub-goals is not making progress."""
        return self._portal.run(self._source.why(goal_id, sub_goal_id))

    def update(
        self,
        goal_id: int,
        *,
        description: str | Unset = UNSET,
        success_criteria: str | Unset = UNSET,
        priority: int | Unset = UNSET,
        budget_usd: float | Unset | None = UNSET,
        deadline: datetime | Unset | None = UNSET,
    ) -> Goal:
        """Change the given fields of a goal that has not ended. None removes a limit. A new description replaces the plan."""
        return self._portal.run(
            self._source.update(
                goal_id,
                description=description,
                success_criteria=success_criteria,
                priority=priority,
                budget_usd=budget_usd,
                deadline=deadline,
            )
        )

    def run_again(self, goal_id: int) -> Goal:
        """Start an ended goal again, as a new goal."""
        return self._portal.run(self._source.run_again(goal_id))

    def pause(self, goal_id: int) -> Goal:
        """Pause a goal."""
        return self._portal.run(self._source.pause(goal_id))

    def resume(self, goal_id: int) -> Goal:
        """Resume a paused goal where it stopped."""
        return self._portal.run(self._source.resume(goal_id))

    def abandon(self, goal_id: int) -> Goal:
        """Abandon a goal for good."""
        return self._portal.run(self._source.abandon(goal_id))

    def decide(self, goal_id: int, action: Decision, note: str = "") -> Goal:
        """Decide about a paused goal. The note is read by the agents that continue."""
        return self._portal.run(self._source.decide(goal_id, action, note))

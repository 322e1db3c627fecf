"""Goals that agents pursue on their own."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.ledger.goal import Decision, GoalStatus
from headway.ledger.todo import UNSET, Unset
from headway.library.transport import RequestTransport, drop_none, encode_checks, present
from headway.values.goals import Goal, JournalEntry
from headway.values.todos import Receipt
from headway.values.value import Page, decode, decode_all, decode_page


class Goals:
    """Sets, follows and controls goals."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def add(
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
        body = drop_none(
            description=description,
            success_criteria=success_criteria,
            priority=priority,
            budget_usd=budget_usd,
            deadline=None if deadline is None else int(deadline.timestamp()),
            repository=repository,
            checks=encode_checks(checks),
        )
        return decode(Goal, (await self._transport.send("POST /goals", body=body))["goal"])

    async def get(self, goal_id: int) -> Goal:
        """Return a goal with its sub-goals, or raise NotFound."""
        return decode(Goal, (await self._transport.send("GET /goals/{}", goal_id))["goal"])

    async def list(self, *, status: GoalStatus | None = None, limit: int = 50, cursor: str | None = None) -> Page[Goal]:
        """List goals, newest first."""
        query = drop_none(status=status, limit=limit, cursor=cursor)
        return decode_page(Goal, await self._transport.send("GET /goals", query=query), "goals")

    async def iterate(self, *, status: GoalStatus | None = None) -> AsyncIterator[Goal]:
        """Iterate over all goals, newest first."""
        cursor: str | None = None
        while True:
            page = await self.list(status=status, limit=500, cursor=cursor)
            for goal in page:
                yield goal
            cursor = page.next_cursor
            if not cursor:
                return

    async def wait(self, goal_id: int) -> Goal:
        """Wait until a goal is over or paused, and return it. A paused one needs a decision: `pause_reason` says why."""
        events = self._transport.follow(None, None)
        try:
            async for event in events:
                is_news = event.kind == "ping" or (event.kind == "goal_changed" and event.data["goal"]["id"] == goal_id)
                if is_news and (goal := await self.get(goal_id)).status != "active":
                    return goal
        finally:
            await events.aclose()
        return await self.get(goal_id)

    async def journal(self, goal_id: int, *, limit: int = 50, before: int | None = None) -> tuple[JournalEntry, ...]:
        """List the latest entries of the journal, or entries before a number, oldest first."""
        answer = await self._transport.send("GET /goals/{}/journal", goal_id, query=drop_none(limit=limit, before=before))
        return decode_all(JournalEntry, answer["entries"])

    async def receipts(self, goal_id: int) -> tuple[Receipt, ...]:
        """List what the checks of a goal and of its sub-goals found, newest first."""
        return decode_all(Receipt, (await self._transport.send("GET /goals/{}/receipts", goal_id))["receipts"])

    async def why(self, goal_id: int, sub_goal_id: int | None = None) -> str:
        """Explain why a goal or one of its sub-goals is not making progress."""
        answer = await self._transport.send("GET /why/goal/{}", goal_id, query=drop_none(sub_goal_id=sub_goal_id))
        return str(answer["why"][-1]["text"])

    async def update(
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
        body = present(
            description=description,
            success_criteria=success_criteria,
            priority=priority,
            budget_usd=budget_usd,
            deadline=int(deadline.timestamp()) if isinstance(deadline, datetime) else deadline,
        )
        return decode(Goal, (await self._transport.send("PATCH /goals/{}", goal_id, body=body))["goal"])

    async def run_again(self, goal_id: int) -> Goal:
        """Start an ended goal again, as a new goal."""
        return await self._act("run-again", goal_id)

    async def pause(self, goal_id: int) -> Goal:
        """Pause a goal."""
        return await self._act("pause", goal_id)

    async def resume(self, goal_id: int) -> Goal:
        """Resume a paused goal where it stopped."""
        return await self._act("resume", goal_id)

    async def abandon(self, goal_id: int) -> Goal:
        """Abandon a goal for good."""
        return await self._act("abandon", goal_id)

    async def decide(self, goal_id: int, action: Decision, note: str = "") -> Goal:
        """Decide about a paused goal. The note is read by the agents that continue."""
        body = {"action": action, "note": note}
        return decode(Goal, (await self._transport.send("POST /goals/{}/decision", goal_id, body=body))["goal"])

    async def _act(self, verb: str, goal_id: int) -> Goal:
        return decode(Goal, (await self._transport.send(f"POST /goals/{{}}/{verb}", goal_id))["goal"])

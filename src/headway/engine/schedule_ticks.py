"""Starts the work of schedules when it is due."""

from collections.abc import Callable

from headway.actions import schedules
from headway.storage.database import UnrestrictedView
from headway.storage.transaction import Transaction

FAR_FUTURE_MS = 2**62  # makes the first round check for a clock that was set back while no process ran


class ScheduleTicks:
    def __init__(self, database: UnrestrictedView, tick: Callable[[Transaction], None]) -> None:
        self.database = database
        self.tick = tick
        self.last_time = FAR_FUTURE_MS

    async def check(self, next_tick: int | None, now: int) -> bool:
        """Start what is due, and return whether anything was. If the clock was set back, the next times are computed again."""
        if now + schedules.CLOCK_TOLERANCE_MS < self.last_time:
            await self.database.write(schedules.realign)
        self.last_time = now
        if next_tick is None or next_tick > now:
            return False
        await self.database.write(self.tick)
        return True

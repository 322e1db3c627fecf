"""Dispatch by an external engine behind `port`: it decides which process looks at which job, and when. The rows decide the rest."""

import asyncio
import logging

from headway.engine.announcements import Announcements
from headway.engine.deliveries import Deliveries
from headway.engine.port import Dispatcher
from headway.engine.runner import JobRunner
from headway.engine.schedule_ticks import ScheduleTicks

log = logging.getLogger("headway.engine")

SERVE_AGAIN_S = 5.0


class Dispatched:
    def __init__(self, runner: JobRunner, ticks: ScheduleTicks, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.deliveries = Deliveries(runner)
        self.steps = (Announcements(runner, ticks, dispatcher).announce, self.deliveries.claim, self._serve)

    def close(self) -> None:
        self.deliveries.close()

    async def _serve(self) -> None:
        try:
            await self.dispatcher.serve(self.deliveries.deliver)
            log.error("the dispatcher stopped delivering jobs to this process; starting it again")
        except Exception:
            log.exception("the dispatcher cannot deliver jobs to this process; trying again")
        await asyncio.sleep(SERVE_AGAIN_S)

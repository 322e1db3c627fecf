"""Dispatch by an external engine behind `port`: it decides which process looks at which job, and when. The rows decide the rest."""

import asyncio
import logging

from headway.engine.announcements import Announcements
from headway.engine.deliveries import Deliveries
from headway.engine.port import Dispatcher
from headway.engine.runner import JobRunner
from headway.engine.schedule_ticks import ScheduleTicks

log = logging.getLogger("headway.engine")

SERVE_AGAIN_S = 1.0


class Dispatched:
    def __init__(self, runner: JobRunner, ticks: ScheduleTicks, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.deliveries = Deliveries(runner)
        self.steps = (Announcements(runner, ticks, dispatcher).announce, self.deliveries.claim, self._serve)

    def close(self) -> None:
        self.deliveries.close()

    async def _serve(self) -> None:
        await self.dispatcher.serve(self.deliveries.deliver)
        log.warning("the dispatcher stopped to deliver jobs; starting it again")
        await asyncio.sleep(SERVE_AGAIN_S)

"""Wakes a tenant's webhook jobs when its log has new events.

A commit costs nothing here unless its tenant has a webhook. Commits of other processes that are not announced are found by looking
at all webhooks once a second. A job sleeps only after it has reached the end of the log, so no event is overlooked.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from headway.actions.engine import webhooks
from headway.engine.polling import wait_with_timeout
from headway.storage.database import Database
from headway.storage.stores import webhooks as webhook_store

SWEEP_S: Final = 1.0
PAUSE_S: Final = 0.05  # events that follow each other closely are delivered together


class WebhookWatch:
    def __init__(self, database: Database, nudge: Callable[[], None]) -> None:
        self.database = database.unrestricted
        self.nudge = nudge  # wakes the engine
        self.loop = asyncio.get_running_loop()
        self.tenants: frozenset[int] = frozenset()  # tenants with a webhook that is not paused
        self.busy: frozenset[int] = frozenset()  # the ones with new events
        self.bell = asyncio.Event()
        self.sweep_at = 0.0

    def notify_commit(self, tenants: frozenset[int]) -> None:
        """Announce a commit, from any thread."""
        if not tenants.isdisjoint(self.tenants) and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ring, tenants)

    def _ring(self, tenants: frozenset[int]) -> None:
        self.busy |= tenants & self.tenants
        self.bell.set()

    async def step(self) -> None:
        """Wait for new events, and wake the jobs that are to deliver them."""
        await wait_with_timeout(self.bell, SWEEP_S)
        self.bell.clear()
        busy, self.busy = self.busy, frozenset()
        if time.monotonic() >= self.sweep_at:
            self.sweep_at = time.monotonic() + SWEEP_S
            busy = self.tenants = await self.database.read(webhook_store.list_subscribed_tenants)
        idle = await self.database.read(partial(webhook_store.list_idle_behind, tenant_ids=busy)) if busy else []
        if idle:
            await self.database.write(partial(webhooks.wake_webhook, idle=idle))
            self.nudge()
        await asyncio.sleep(PAUSE_S)

"""Pays for model calls outside of a run's steps: calls that broke off, and calls whose answer no step can use."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headway.actions import spending
from headway.agents.loop.context import Runtime
from headway.agents.models.broken_calls import collect_broken_calls
from headway.ledger.errors import StorageError
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction

log = logging.getLogger("headway.spending")


async def pay_late(runtime: Runtime, tenant_id: int, run_id: str, calls: Sequence[ModelCall]) -> None:
    def pay(tx: Transaction) -> None:
        for call in calls:
            spending.settle_late(tx, tenant_id, run_id, call, runtime.limits.budget)

    if calls:
        await runtime.database.write(pay)


@asynccontextmanager
async def paying_for_broken_calls(runtime: Runtime, tenant_id: int, run_id: str) -> AsyncIterator[None]:
    """Charge the run for calls that break off in the context, also if the work is canceled."""
    with collect_broken_calls() as calls:
        try:
            yield
        finally:
            try:
                await pay_late(runtime, tenant_id, run_id, calls)
            except StorageError as error:
                log.warning("run %s did not pay for %d calls that broke off: %s", run_id, len(calls), error)

"""Background deletion: what has expired, conversations that people deleted, and what is older than the retention setting.

It works in short transactions, and rests after each for longer than the transaction took, so that others never wait for long.
"""

import asyncio
import logging
import time
from functools import partial
from glob import escape, glob
from os.path import join
from shutil import rmtree

from headway.actions import idempotency, jobs
from headway.actions.retention import pruning
from headway.actions.retention.pruning import DeletedOwner, Prune, PruneStep
from headway.ledger.errors import TenantMoving
from headway.ledger.retention import DAY_MS, GROUPS, RESTORE_DAYS, Group
from headway.settings import Settings
from headway.storage.database import Database
from headway.storage.retry import retry_storage
from headway.storage.stores.retention import Key
from headway.storage.task_files import delete_task_files
from headway.storage.transaction import Transaction, Work

log = logging.getLogger("headway.housekeeping")

INTERVAL_S = 3600
REST_RATIO = 4  # a fifth of the time at most is spent on deleting


class Housekeeping:
    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings

    async def run(self) -> None:
        """Clean up once, then wait for the next time."""
        await self.delete_expired()
        await self.delete_conversations(INTERVAL_S * 1000)
        await self.prune(INTERVAL_S * 1000)
        await asyncio.sleep(INTERVAL_S)

    async def delete_expired(self) -> None:
        await self.database.unrestricted.write(idempotency.delete_expired)
        while await self.database.unrestricted.write(jobs.delete_old):
            pass

    async def delete_conversations(self, interval_ms: int = 0) -> int:
        """Delete the rows of conversations that can no longer be restored. Returns how many rows that were."""

        def begin(tx: Transaction) -> list[int]:
            return pruning.begin_deleted_pass(tx, tx.now - RESTORE_DAYS * DAY_MS, interval_ms)

        tenant_ids = await self.database.unrestricted.write(begin)
        return sum([await self.prune_group(tenant_id, pruning.prune_deleted, RESTORE_DAYS) for tenant_id in tenant_ids])

    async def prune(self, interval_ms: int = 0) -> dict[Group, int]:
        """Delete what is older than the retention setting. Returns how many rows were deleted, without those that belonged to them.

        Nothing is deleted if a process, perhaps another one, began to do this within the interval.
        """
        deleted: dict[Group, int] = {}
        if not self.settings.retention:
            return deleted
        tenant_ids = await self.database.unrestricted.write(partial(pruning.begin_pass, interval_ms=interval_ms))
        for tenant_id in tenant_ids or ():
            for group in pruning.PRUNES:
                if group in self.settings.retention:
                    days = self.settings.retention[group]
                    deleted[group] = deleted.get(group, 0) + await self.prune_group(tenant_id, pruning.PRUNES[group], days)
        if any(deleted.values()):
            counts = ", ".join(f"{deleted[group]} {group}" for group in GROUPS if deleted.get(group))
            log.info("deleted because of HEADWAY_RETENTION: %s", counts)
        return deleted

    async def prune_group(self, tenant_id: int, prune: Prune, days: int) -> int:
        deleted, position = 0, None
        while True:
            started = time.monotonic()
            take_step = partial(prune_once, tenant_id=tenant_id, prune=prune, days=days, position=position)
            step = await retry_storage(partial(self._write_unless_moving, tenant_id, take_step), "retention")
            deleted += step.deleted
            for owner in step.owners:
                await asyncio.to_thread(delete_files, self.settings, tenant_id, owner)
            if step.position is None:
                return deleted
            position = step.position
            await asyncio.sleep((time.monotonic() - started) * REST_RATIO)

    async def _write_unless_moving(self, tenant_id: int, prune: Work[PruneStep]) -> PruneStep:
        try:
            return await self.database.of(tenant_id).write(prune)
        except TenantMoving:  # a later pass continues, here or in the other cell; other tenants must not wait for it
            return PruneStep(None, 0)


def prune_once(tx: Transaction, tenant_id: int, prune: Prune, days: int, position: Key | None) -> PruneStep:
    return prune(tx, tenant_id, tx.now - days * DAY_MS, position)


def delete_files(settings: Settings, tenant_id: int, owner: DeletedOwner) -> None:
    """Delete the task file and the worktrees of a deleted conversation or goal. Branches stay in their repositories."""
    if owner.group == "conversations":
        delete_task_files(settings.task_folder, [(owner.uuid, owner.id)])
    name = "conversation" if owner.group == "conversations" else "goal"
    for folder in glob(join(escape(settings.worktrees), str(tenant_id), "*", f"{name}-{owner.id}")):
        rmtree(folder, ignore_errors=True)

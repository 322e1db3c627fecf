"""Housekeeping for whole tenants, with rows and files: deletion of old ones, export, removal."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from glob import escape, glob
from os.path import isabs, join, lexists, realpath
from shutil import rmtree
from typing import Any, Final

from headway.actions.access import idempotency
from headway.actions.installation import pruning, tenants
from headway.actions.installation.pruning import DeletedOwner, Prune, PruneStep
from headway.actions.installation.tenants import FileOwners
from headway.actions.runs import jobs
from headway.agents.instructions.skills import TENANTS
from headway.agents.policy_file import PolicyFile
from headway.agents.repositories.places import read_repository
from headway.agents.repositories.worktrees import forget_below
from headway.ledger.errors import Conflict, Invalid, TenantMoving
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.tenancy import DAY_MS, GROUPS, RESTORE_DAYS, Group, Tenant
from headway.settings import Settings
from headway.storage.archives import Archive
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.home_files import TaskFile, delete_task_files
from headway.storage.migrate import get_newest_version
from headway.storage.retry import retry_storage
from headway.storage.stores.retention import Key
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
        """Delete what is older than the retention setting. Returns how many rows were deleted, without rows that belonged to them.

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


# Everything that a tenant owns, rows and files: written into one archive, or deleted.


STOPPING_S: Final = 2.0  # how long other processes take to notice that their jobs were canceled, and to stop them

Report = Callable[[str], None]  # shows a line about the progress
Sign = Callable[[Work[bool]], Work[bool]]  # names who does the work


def remove_tenant(database: DirectDatabase, settings: Settings, tenant: Tenant, report: Report, sign: Sign) -> None:
    """Delete a tenant whole. If this is interrupted, the same call continues. `erase_deleted` must follow on SQLite."""
    if running := database.write(partial(tenants.shut_out, tenant=tenant)):
        report(f"waiting for {running} running job{'s' if running != 1 else ''} to stop")
        time.sleep(STOPPING_S)
    delete_tenant_files(settings, tenant.id, database.read(partial(tenants.find_file_owners, tenant=tenant)))
    PolicyFile(join(settings.home, POLICY_FILE_NAME)).remove_tenant_rules(tenant.name)
    while not database.write(sign(partial(tenants.remove_part, tenant=tenant))):
        pass


def delete_tenant_files(settings: Settings, tenant_id: int, owners: FileOwners) -> None:
    """Delete the workspace, worktrees, skills, chat history and task files of a tenant. Raises Conflict if something could not be
    deleted."""
    worktrees = join(realpath(settings.worktrees), str(tenant_id))
    for repository in filter(isabs, owners.repositories):  # others are in the workspace and deleted with it
        with suppress(Invalid):  # it is not there any more
            forget_below(read_repository(realpath(repository), repository).common_dir, worktrees)
    own_folders = (settings.get_workspace(tenant_id), settings.get_chat_history(tenant_id))
    for folder in (*own_folders, worktrees, join(settings.home, TENANTS, str(tenant_id))):
        rmtree(folder, ignore_errors=True)
        if lexists(folder):
            raise Conflict(f"{folder} cannot be deleted. Delete it, then run the command again. The rows are still there.")
    delete_task_files(settings.task_folder, owners.conversations)


def export_tenant(database: DirectDatabase, settings: Settings, tenant: Tenant, path: str, report: Report) -> dict[str, Any]:
    """Write the archive and return its manifest. All rows come from one snapshot; files are copied after it."""

    def report_table(table: str, count: int) -> None:
        if count:
            report(f"{table}: {count:,} rows")

    with Archive(path) as archive:

        def write_rows(tx: Transaction) -> tuple[dict[str, int], list[tuple[str, int]]]:
            archive.start()
            return tenants.write_rows(tx, tenant.id, archive, report_table)

        counts, conversations = database.read(write_rows)
        archive.add_folder("workspace", settings.get_workspace(tenant.id))
        archive.add_folder("worktrees", join(settings.worktrees, str(tenant.id)))
        archive.add_folder(TENANTS, join(settings.home, TENANTS, str(tenant.id)))
        for uuid, conversation_id in conversations:
            archive.add_if_exists(f"tasks/{conversation_id}.json", TaskFile(settings.task_folder, uuid, conversation_id).path)
        report(f"files: {archive.files:,}")
        manifest = {
            "format": tenants.FORMAT,
            "schema": get_newest_version(),
            "tenant": tenant.as_json(),
            "exported_at": int(time.time()),
            "tables": counts,
            "files": archive.files,
            "left_out": list(tenants.LEFT_OUT),
        }
        archive.add_text("manifest.json", json.dumps(manifest, indent=1) + "\n")
    return manifest

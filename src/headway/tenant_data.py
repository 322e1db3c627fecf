"""Everything that a tenant owns, rows and files: written into one archive, or deleted."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from os.path import isabs, join, lexists, realpath
from shutil import rmtree
from typing import Any, Final

from headway.actions.retention import export, removal
from headway.actions.retention.removal import FileOwners
from headway.agents.instructions.skills import TENANTS
from headway.agents.policy_file import PolicyFile
from headway.agents.repositories.places import read_place
from headway.agents.repositories.worktrees import forget_below
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.permission import FILE_NAME as POLICY_FILE_NAME
from headway.ledger.tenancy import Tenant
from headway.settings import Settings
from headway.storage.archives import Archive
from headway.storage.direct import DirectDatabase
from headway.storage.migrate import get_newest_version
from headway.storage.task_files import TaskFile, delete_task_files
from headway.storage.transaction import Transaction, Work

STOPPING_S: Final = 2.0  # how long other processes take to notice that their jobs were canceled, and to stop them

Report = Callable[[str], None]  # shows a line about the progress
Sign = Callable[[Work[bool]], Work[bool]]  # names who does the work


def remove_tenant(database: DirectDatabase, settings: Settings, tenant: Tenant, report: Report, sign: Sign) -> None:
    """Delete a tenant whole. If this is interrupted, the same call continues. `erase_deleted` must follow on SQLite."""
    if running := database.write(partial(removal.shut_out, tenant=tenant)):
        report(f"waiting for {running} running job{'s' if running != 1 else ''} to stop")
        time.sleep(STOPPING_S)
    delete_tenant_files(settings, tenant.id, database.read(partial(removal.find_file_owners, tenant=tenant)))
    PolicyFile(join(settings.home, POLICY_FILE_NAME)).remove_tenant_rules(tenant.name)
    while not database.write(sign(partial(removal.remove_part, tenant=tenant))):
        pass


def delete_tenant_files(settings: Settings, tenant_id: int, owners: FileOwners) -> None:
    """Delete the workspace, worktrees, skills, chat history and task files of a tenant. Raises Conflict if something could not be
    deleted."""
    worktrees = join(realpath(settings.worktrees), str(tenant_id))
    for repository in filter(isabs, owners.repositories):  # those in the workspace are deleted with it
        with suppress(Invalid):  # it is not there any more
            forget_below(read_place(realpath(repository), repository).common_dir, worktrees)
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
            return export.write_rows(tx, tenant.id, archive, report_table)

        counts, conversations = database.read(write_rows)
        archive.add_folder("workspace", settings.get_workspace(tenant.id))
        archive.add_folder("worktrees", join(settings.worktrees, str(tenant.id)))
        archive.add_folder(TENANTS, join(settings.home, TENANTS, str(tenant.id)))
        for uuid, conversation_id in conversations:
            archive.add_if_exists(f"tasks/{conversation_id}.json", TaskFile(settings.task_folder, uuid, conversation_id).path)
        report(f"files: {archive.files:,}")
        manifest = {
            "format": export.FORMAT,
            "schema": get_newest_version(),
            "tenant": tenant.as_json(),
            "exported_at": int(time.time()),
            "tables": counts,
            "files": archive.files,
            "left_out": list(export.LEFT_OUT),
        }
        archive.add_text("manifest.json", json.dumps(manifest, indent=1) + "\n")
    return manifest

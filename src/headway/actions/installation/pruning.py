"""Deletes rows that are older than the retention setting, in small steps. Rows that open work still needs are kept."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from headway.actions.access import spending
from headway.ledger.events import Event, encode_json
from headway.ledger.tenancy import Group
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import retention as retention_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.stores import tenants as tenant_store
from headway.storage.stores.retention import AgedOwner, AgedTable, Batch, Key, OldRow
from headway.storage.transaction import Transaction

TASK: Final = "retention"
DELETED_TASK: Final = "deleted conversations"
OLDEST: Final[Key] = (0, "")  # before the first run
OLDEST_NUMBER: Final[Key] = (0, 0)  # before the first row with a numeric id


class DeletedOwner(NamedTuple):
    """A conversation or goal that was deleted, and whose files are deleted after the commit."""

    group: Group
    id: int
    uuid: str


class PruneStep(NamedTuple):
    """The rows that one transaction deleted, and where the next one continues, or None at the end."""

    position: Key | None
    deleted: int = 0
    owners: tuple[DeletedOwner, ...] = ()


Prune = Callable[[Transaction, int, int, Key | None], PruneStep]


def begin_pass(tx: Transaction, interval_ms: int) -> list[int] | None:
    """Return the tenants to look at, or None if another process began a pass within the interval."""
    if not retention_store.begin_task(tx, TASK, interval_ms):
        return None
    return [0, *(tenant.id for tenant in tenant_store.list_all_tenants(tx))]  # 0 is the installation, which has audit entries


def begin_deleted_pass(tx: Transaction, before: int, interval_ms: int) -> list[int]:
    """Return the tenants with conversations that were deleted before a time; none if another process began such a pass within the
    interval."""
    is_due = retention_store.begin_task(tx, DELETED_TASK, interval_ms)
    return conversation_store.list_tenants_with_deleted(tx, before) if is_due else []


def prune_table(tx: Transaction, tenant_id: int, before: int, position: Key | None, *, table: AgedTable) -> PruneStep:
    batch = Batch()
    part = retention_store.delete_aged(tx, table, tenant_id, before, position[0] if position else 0, batch)
    if table is retention_store.EVENTS and part.last_deleted:
        retention_store.save_log_mark(tx, tenant_id, part.last_deleted, part.last_deleted_at)
    return PruneStep(None if part.is_done else (part.last_key,), part.deleted)


def prune_transcripts(tx: Transaction, tenant_id: int, before: int, position: Key | None) -> PruneStep:
    """Delete the transcripts and tool calls of ended runs. The runs stay, with their results and costs."""
    position, batch = position or OLDEST, Batch()
    runs = retention_store.list_old(tx, retention_store.RUNS_WITH_TRANSCRIPT, tenant_id, before, position)
    for run in runs:
        if not run.is_needed and not retention_store.delete_transcript(tx, tenant_id, run.id, batch):
            return PruneStep(position, batch.deleted)
        position = (run.at, run.id)
    return PruneStep(position if runs else None, batch.deleted)


def prune_files(tx: Transaction, tenant_id: int, before: int, position: Key | None) -> PruneStep:
    """Delete the record of files that no agent has written since. The files in the workspaces stay."""
    position, batch = position or OLDEST, Batch()
    files = retention_store.list_old(tx, retention_store.FILES, tenant_id, before, position)
    for file in files:
        if not retention_store.delete_file_versions(tx, "file_id = ?", (tenant_id, file.id), batch):
            return PruneStep(position, batch.deleted)
        position = (file.at, file.id)
    return PruneStep(position if files else None, batch.deleted)


def prune_owner(
    tx: Transaction, tenant_id: int, before: int, position: Key | None, *, group: Group, rules: "OwnerRules | None" = None
) -> PruneStep:
    """Delete the oldest runs of turns, conversations or goals. Each goes piece by piece, and its own row last."""
    owner, runs_of, delete_parts, delete_rest = rules or OWNERS[group]
    position, batch = position or (OLDEST if group == "runs" else OLDEST_NUMBER), Batch()
    rows = retention_store.list_old(tx, owner, tenant_id, before, position)
    scheduled = schedule_store.map_conversations(tx, tenant_id) if rows and group == "conversations" else {}
    for row in rows:
        if not row.is_needed and row.id not in scheduled:
            key = row.name if group == "runs" else row.id
            is_done = delete_transcripts(tx, tenant_id, runs_of, key, batch) and delete_parts(tx, tenant_id, key, batch)
            if not is_done:
                return PruneStep(position, batch.deleted)
            spending.subtract_expired(tx, tenant_id)  # before the costs are deleted that must still be subtracted
            delete_rest(tx, tenant_id, key)
            return PruneStep((row.at, row.id), batch.deleted + 1, announce_deletion(tx, tenant_id, group, row))
        position = (row.at, row.id)
    return PruneStep(position if rows else None)


def delete_transcripts(tx: Transaction, tenant_id: int, runs_of: str, value: Any, batch: Batch) -> bool:
    while run_ids := retention_store.list_run_ids(tx, tenant_id, runs_of, value):
        for run_id in run_ids:
            if not retention_store.delete_transcript(tx, tenant_id, run_id, batch):
                return False
    return True


def announce_deletion(tx: Transaction, tenant_id: int, group: Group, row: OldRow) -> tuple[DeletedOwner, ...]:
    """Log the deletion of a conversation or goal, so that the log also ends with a new event if its newest one was deleted."""
    if group == "runs":
        return ()
    if group == "conversations":
        tx.emit(Event(tenant_id, "conversation_deleted", encode_json({"conversation_id": row.id})))
    else:
        tx.emit(Event(tenant_id, "goal_deleted", encode_json({"goal_id": row.id})))
    return (DeletedOwner(group, row.id, row.name),)


def has_no_parts(_tx: Transaction, _tenant_id: int, _key: Any, _batch: Batch) -> bool:
    return True


class OwnerRules(NamedTuple):
    owner: AgedOwner
    runs_of: str  # SQL: whether a run belongs to it
    delete_parts: Callable[[Transaction, int, Any, Batch], bool]
    delete_rest: Callable[[Transaction, int, Any], None]


OWNERS: Final[Mapping[Group, OwnerRules]] = {
    "runs": OwnerRules(retention_store.RUNS_OF_TURNS, retention_store.RUNS_OF_TURN, has_no_parts, retention_store.delete_turn_runs),
    "conversations": OwnerRules(
        retention_store.CONVERSATIONS,
        retention_store.RUNS_OF_CONVERSATION,
        retention_store.delete_conversation_parts,
        retention_store.delete_conversation,
    ),
    "goals": OwnerRules(
        retention_store.GOALS, retention_store.RUNS_OF_GOAL, retention_store.delete_goal_parts, retention_store.delete_goal
    ),
}


def delete_deleted_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> None:
    retention_store.delete_dead_letters(tx, tenant_id, conversation_id)
    retention_store.delete_conversation(tx, tenant_id, conversation_id)


# Conversations that people have deleted, whatever the setting is.
prune_deleted: Final[Prune] = partial(
    prune_owner,
    group="conversations",
    rules=OWNERS["conversations"]._replace(owner=retention_store.DELETED_CONVERSATIONS, delete_rest=delete_deleted_conversation),
)

PRUNES: Final[Mapping[Group, Prune]] = {
    "conversations": partial(prune_owner, group="conversations"),
    "goals": partial(prune_owner, group="goals"),
    "runs": partial(prune_owner, group="runs"),
    "transcripts": prune_transcripts,
    "files": prune_files,
    "receipts": partial(prune_table, table=retention_store.RECEIPTS),
    "events": partial(prune_table, table=retention_store.EVENTS),
    "audit": partial(prune_table, table=retention_store.AUDIT),
}

"""Retries or drops many dead letters at once, at most BULK_LIMIT in one transaction."""

from typing import Any, Final, Literal, NamedTuple

from headway.actions import dead_letters, halts, jobs, views
from headway.ledger.errors import HeadwayError, Invalid, StorageError
from headway.storage.transaction import Transaction

BULK_LIMIT: Final = 100

BulkAction = Literal["retry", "drop"]


class BulkSelection(NamedTuple):
    """Dead jobs: those with the given ids, or a page of all of them, or of those of one kind, newest first."""

    ids: tuple[str, ...] | None = None
    kind: str | None = None
    limit: int = BULK_LIMIT
    cursor: str | None = None


def change_dead_jobs(tx: Transaction, tenant_id: int, action: BulkAction, selection: BulkSelection) -> dict[str, Any]:
    """Retry or drop the selected dead jobs. A job that cannot be changed is named with the reason, and the others are changed."""
    if selection.ids is not None and (selection.kind or selection.cursor):
        raise Invalid("Give either ids, or kind and cursor.")
    if action == "retry":
        halts.check(tx)
    ids, next_cursor = choose_ids(tx, tenant_id, selection)
    changed, refused = [], []
    for job_id in sorted(ids):  # two requests lock the jobs in the same order
        try:
            tx.attempt(lambda tx, job_id=job_id: change(tx, tenant_id, action, job_id))  # type: ignore[misc]
            changed.append(job_id)
        except StorageError:
            raise
        except HeadwayError as error:
            refused.append({"id": job_id, "detail": str(error)})
    return {"changed": changed, "refused": refused, "next_cursor": next_cursor}


def choose_ids(tx: Transaction, tenant_id: int, selection: BulkSelection) -> tuple[list[str], str | None]:
    """Return the ids of the selected jobs, and the cursor of the next page."""
    if selection.ids is not None:
        return list(dict.fromkeys(selection.ids)), None
    page = views.list_jobs(tx, tenant_id, "dead", selection.limit, selection.cursor, selection.kind)
    return [job.id for job in page.jobs], page.next_cursor


def change(tx: Transaction, tenant_id: int, action: BulkAction, job_id: str) -> None:
    if action == "drop":
        jobs.drop(tx, tenant_id, job_id)
        return
    jobs.check_dead(jobs.get_locked(tx, tenant_id, job_id))
    dead_letters.retry(tx, tenant_id, job_id)

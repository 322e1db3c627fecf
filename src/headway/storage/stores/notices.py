"""SQL for notices to the operator."""

from collections.abc import Collection
from typing import NamedTuple

from headway.storage import logged_transaction
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction


class Notice(NamedTuple):
    id: int
    kind: str
    text: str
    turn_id: str | None
    goal_id: int | None
    created_at: int
    url: str
    done_at: int = 0  # 0: it is open


NOTICES = Columns(Notice)


def insert_notice(tx: Transaction, tenant_id: int, kind: str, text: str, turn_id: str | None, goal_id: int | None, url: str) -> int:
    notice = Notice(0, kind, text, turn_id, goal_id, tx.now, url)
    return logged_transaction.insert(tx, tenant_id, "notices", NOTICES, notice).id


def list_notice_page(tx: Transaction, tenant_id: int, limit: int, before: int, *, is_done: bool | None = None) -> list[Notice]:
    """List notices, newest first: all, only done ones, or only open ones."""
    condition = "" if is_done is None else "AND done_at > 0" if is_done else "AND done_at = 0"
    sql = f"SELECT {NOTICES.selected} FROM notices WHERE tenant_id = ? AND id < ? {condition} ORDER BY id DESC LIMIT ?"
    return NOTICES.all(tx, sql, tenant_id, before, limit)


def mark(tx: Transaction, tenant_id: int, notice_ids: Collection[int], *, is_done: bool) -> int:
    """Mark the notices that are not marked yet, and return how many were changed."""
    marks, condition = ", ".join("?" * len(notice_ids)), "done_at = 0" if is_done else "done_at > 0"
    rows = tx.all(
        f"UPDATE notices SET done_at = ? WHERE tenant_id = ? AND id IN ({marks}) AND {condition} RETURNING id",
        tx.now if is_done else 0,
        tenant_id,
        *notice_ids,
    )
    return len(rows)


def mark_all_done(tx: Transaction, tenant_id: int, up_to: int) -> int:
    """Mark the open notices up to a number as done, and return how many that were."""
    sql = "UPDATE notices SET done_at = ? WHERE tenant_id = ? AND id <= ? AND done_at = 0 RETURNING id"
    return len(tx.all(sql, tx.now, tenant_id, up_to))


def settle_pages(tx: Transaction, tenant_id: int, pages: Collection[str]) -> None:
    """Mark the open notices that lead to these pages as done."""
    marks = ", ".join("?" * len(pages))
    sql = f"UPDATE notices SET done_at = ? WHERE tenant_id = ? AND url IN ({marks}) AND done_at = 0"
    tx.run(sql, tx.now, tenant_id, *pages)


def settle_goal(tx: Transaction, tenant_id: int, goal_id: int, kinds: Collection[str]) -> None:
    """Mark the open notices of these kinds about a goal as done."""
    marks = ", ".join("?" * len(kinds))
    sql = f"UPDATE notices SET done_at = ? WHERE tenant_id = ? AND goal_id = ? AND kind IN ({marks}) AND done_at = 0"
    tx.run(sql, tx.now, tenant_id, goal_id, *kinds)


def settle_turn(tx: Transaction, tenant_id: int, turn_id: str, kind: str) -> None:
    """Mark the open notices of this kind about a turn as done."""
    sql = "UPDATE notices SET done_at = ? WHERE tenant_id = ? AND turn_id = ? AND kind = ? AND done_at = 0"
    tx.run(sql, tx.now, tenant_id, turn_id, kind)


def reopen_since(tx: Transaction, tenant_id: int, kind: str, turn_id: str | None, goal_id: int | None, since: int) -> bool:
    """Open the same notices of the time since then again, and return whether there is one."""
    rows = tx.all(
        """UPDATE notices SET done_at = 0 WHERE tenant_id = ? AND kind = ? AND COALESCE(turn_id, '') = ?
           AND COALESCE(goal_id, 0) = ? AND created_at >= ? RETURNING id""",
        tenant_id,
        kind,
        turn_id or "",
        goal_id or 0,
        since,
    )
    return bool(rows)

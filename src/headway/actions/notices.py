"""Telling the operator: the inbox, the event log, and a job that brings it to the channels there are."""

from typing import Any

from headway.actions import jobs
from headway.ledger.events import Event, encode
from headway.storage import notice_store
from headway.storage.transaction import Transaction

NOTICE = "notice"  # the kind of the job
LATELY_MS = 3600 * 1000


def notify(
    tx: Transaction,
    tenant_id: int,
    kind: str,
    text: str,
    conversation_id: int = 0,
    turn_id: str | None = None,
    goal_id: int | None = None,
) -> None:
    """Short, with what happened and what is asked; the link leads to where it can be answered."""
    notice_id = notice_store.insert(tx, tenant_id, kind, text, turn_id, goal_id)
    data = {"id": notice_id, "kind": kind, "text": text, "turn_id": turn_id, "goal_id": goal_id, "url": link(turn_id, goal_id)}
    tx.emit(Event(tenant_id, "operator_notice", encode(data), conversation_id, turn_id))
    jobs.new(tx, tenant_id, NOTICE, data)


def notify_once(
    tx: Transaction,
    tenant_id: int,
    kind: str,
    text: str,
    conversation_id: int = 0,
    turn_id: str | None = None,
    goal_id: int | None = None,
) -> None:
    """For what comes and goes: whoever has heard of it within the hour is spared the rest."""
    if not notice_store.told_since(tx, tenant_id, kind, turn_id, goal_id, tx.now - LATELY_MS):
        notify(tx, tenant_id, kind, text, conversation_id, turn_id, goal_id)


def link(turn_id: str | None, goal_id: int | None) -> str:
    if goal_id is not None:
        return f"/goals/{goal_id}"
    return f"/v1/turns/{turn_id}" if turn_id else ""


def inbox(tx: Transaction, tenant_id: int, limit: int) -> list[dict[str, Any]]:
    """The newest first."""
    return [
        {**notice._asdict(), "url": link(notice.turn_id, notice.goal_id), "created_at": notice.created_at // 1000}
        for notice in notice_store.page(tx, tenant_id, limit)
    ]

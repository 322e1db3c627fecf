"""Telling the operator, and what the operator was told."""

from typing import Any

from headway.ledger.events import Event, encode
from headway.storage import notice_store
from headway.storage.transaction import Transaction


def notify(tx: Transaction, tenant_id: int, kind: str, text: str, conversation_id: int = 0, turn_id: str | None = None) -> None:
    notice_id = notice_store.insert(tx, tenant_id, turn_id, kind, text)
    data = {"id": notice_id, "kind": kind, "text": text, "turn_id": turn_id, "url": url_of(turn_id)}
    tx.emit(Event(tenant_id, "operator_notice", encode(data), conversation_id, turn_id))


def inbox(tx: Transaction, tenant_id: int, limit: int) -> list[dict[str, Any]]:
    """The newest first."""
    return [
        {
            "id": notice.id,
            "kind": notice.kind,
            "goal_id": None,
            "turn_id": notice.turn_id,
            "text": notice.text,
            "url": url_of(notice.turn_id),
            "created_at": notice.created_at // 1000,
        }
        for notice in notice_store.page(tx, tenant_id, limit)
    ]


def url_of(turn_id: str | None) -> str:
    return f"/v1/turns/{turn_id}" if turn_id else ""

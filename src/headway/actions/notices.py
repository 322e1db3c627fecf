"""Telling the operator."""

from headway.ledger.events import Event, encode
from headway.storage import notice_store
from headway.storage.transaction import Transaction


def notify(tx: Transaction, tenant_id: int, kind: str, text: str, conversation_id: int = 0, turn_id: str | None = None) -> None:
    notice_id = notice_store.insert(tx, tenant_id, turn_id, kind, text)
    data = {"id": notice_id, "kind": kind, "text": text, "turn_id": turn_id, "url": f"/v1/turns/{turn_id}" if turn_id else ""}
    tx.emit(Event(tenant_id, "operator_notice", encode(data), conversation_id, turn_id))

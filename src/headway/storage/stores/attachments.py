"""SQL for attachments: the files that came with the message of a turn."""

from collections.abc import Sequence

from headway.ledger.attachment import Attachment, AttachmentInfo
from headway.storage.transaction import Row, Transaction

COLUMNS = "name, media_type, data"
NOT_FAILED = """AND NOT EXISTS (SELECT 1 FROM turns
    WHERE turns.tenant_id = attachments.tenant_id AND turns.id = attachments.turn_id AND turns.status = 'failed')"""


def insert(tx: Transaction, tenant_id: int, turn_id: str, attachments: Sequence[Attachment]) -> None:
    for n, attachment in enumerate(attachments, 1):
        tx.run(
            f"INSERT INTO attachments (turn_id, n, tenant_id, {COLUMNS}, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            turn_id,
            n,
            tenant_id,
            *attachment,
            tx.now,
        )
        tx.count_stored(tenant_id, len(attachment.data))


def find(tx: Transaction, tenant_id: int, turn_id: str, n: int) -> Attachment | None:
    row = tx.one(f"SELECT {COLUMNS} FROM attachments WHERE tenant_id = ? AND turn_id = ? AND n = ?", tenant_id, turn_id, n)
    return Attachment._make(row) if row else None


def list_by_turns(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[Attachment]]:
    """Return the attachments of each turn that has any, in order. Those of a failed turn are left out: its model may have refused
    them, and would refuse every later request that contains them."""
    found: dict[str, list[Attachment]] = {}
    for turn_id, *columns in select(tx, tenant_id, turn_ids, COLUMNS, NOT_FAILED):
        found.setdefault(turn_id, []).append(Attachment._make(columns))
    return found


def list_infos(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[AttachmentInfo]]:
    """Return names, types and sizes of the attachments of each turn that has any, without reading their contents."""
    found: dict[str, list[AttachmentInfo]] = {}
    for turn_id, *columns in select(tx, tenant_id, turn_ids, "name, media_type, OCTET_LENGTH(data)"):
        found.setdefault(turn_id, []).append(AttachmentInfo._make(columns))
    return found


def select(tx: Transaction, tenant_id: int, turn_ids: Sequence[str], columns: str, condition: str = "") -> list[Row]:
    if not turn_ids:
        return []
    marks = ", ".join("?" * len(turn_ids))
    sql = f"SELECT turn_id, {columns} FROM attachments WHERE tenant_id = ? AND turn_id IN ({marks}) {condition} ORDER BY turn_id, n"
    return tx.all(sql, tenant_id, *turn_ids)

"""SQL for attachments: the files that came with the message of a turn."""

from collections.abc import Sequence

from headway.ledger.attachment import Attachment, AttachmentInfo
from headway.storage.columns import Column, Columns, ValueT
from headway.storage.transaction import Transaction

ATTACHMENTS = Columns(Attachment)
INFOS = Columns(AttachmentInfo, size=Column(sql="OCTET_LENGTH(data)"))
INSERT = f"""INSERT INTO attachments (turn_id, n, tenant_id, {ATTACHMENTS.stored}, created_at)
    VALUES (?, ?, ?, {ATTACHMENTS.marks}, ?)"""
NOT_FAILED = """AND NOT EXISTS (SELECT 1 FROM turns
    WHERE turns.tenant_id = attachments.tenant_id AND turns.id = attachments.turn_id AND turns.status = 'failed')"""


def insert(tx: Transaction, tenant_id: int, turn_id: str, attachments: Sequence[Attachment]) -> None:
    for n, attachment in enumerate(attachments, 1):
        tx.run(INSERT, turn_id, n, tenant_id, *attachment, tx.now)
        tx.count_stored(tenant_id, len(attachment.data))


def find(tx: Transaction, tenant_id: int, turn_id: str, n: int) -> Attachment | None:
    sql = f"SELECT {ATTACHMENTS.selected} FROM attachments WHERE tenant_id = ? AND turn_id = ? AND n = ?"
    return ATTACHMENTS.one(tx, sql, tenant_id, turn_id, n)


def list_by_turns(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[Attachment]]:
    """Return the attachments of each turn that has any, in order. Those of a failed turn are left out: its model may have refused
    them, and would refuse every later request that contains them."""
    return select(tx, tenant_id, turn_ids, ATTACHMENTS, NOT_FAILED)


def list_infos(tx: Transaction, tenant_id: int, turn_ids: Sequence[str]) -> dict[str, list[AttachmentInfo]]:
    """Return names, types and sizes of the attachments of each turn that has any, without reading their contents."""
    return select(tx, tenant_id, turn_ids, INFOS)


def select(
    tx: Transaction, tenant_id: int, turn_ids: Sequence[str], columns: Columns[ValueT], condition: str = ""
) -> dict[str, list[ValueT]]:
    found: dict[str, list[ValueT]] = {}
    if not turn_ids:
        return found
    marks = ", ".join("?" * len(turn_ids))
    sql = f"""SELECT turn_id, {columns.selected} FROM attachments WHERE tenant_id = ? AND turn_id IN ({marks}) {condition}
        ORDER BY turn_id, n"""
    for turn_id, *row in tx.all(sql, tenant_id, *turn_ids):
        found.setdefault(turn_id, []).append(columns.load(row))
    return found

"""SQL for receipts: what the checks of a todo, a sub-goal or a goal found."""

import json

from headway.ledger.check import Receipt, ReceiptDraft, SubjectKind
from headway.storage import id_ranges
from headway.storage.stores import events as event_store
from headway.storage.stores.conversations import TODO_IS_SHOWN
from headway.storage.transaction import Row, Transaction

COLUMNS = "id, subject, subject_id, ok, results, versions, override, made_by, run_id, seq, at"


def insert(tx: Transaction, tenant_id: int, draft: ReceiptDraft, override: str = "") -> Receipt:
    results = json.dumps([result.as_json() for result in draft.results], ensure_ascii=False)
    row = tx.one(
        f"""INSERT INTO receipts (id, tenant_id, subject, subject_id, ok, results, versions, override, made_by, run_id, seq, at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}""",
        id_ranges.take(tx, tenant_id, "receipts"),
        tenant_id,
        draft.subject,
        draft.subject_id,
        int(draft.ok and not override),
        results,
        json.dumps(dict(draft.versions)),
        override,
        draft.made_by,
        draft.run_id,
        event_store.get_last_seq(tx, tenant_id),
        tx.now,
    )
    assert row is not None
    return load_receipt(row)


def list_newest(tx: Transaction, tenant_id: int, subject: SubjectKind, subject_id: int, limit: int) -> list[Receipt]:
    rows = tx.all(
        f"SELECT {COLUMNS} FROM receipts WHERE tenant_id = ? AND subject = ? AND subject_id = ? ORDER BY id DESC LIMIT ?",
        tenant_id,
        subject,
        subject_id,
        limit,
    )
    return [load_receipt(row) for row in rows]


def list_checked_todos(
    tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int, *, include_open: bool
) -> list[int]:
    """List the completed todos that have checks, or all that have some. Those that were checked longest ago come first."""
    where = "" if include_open else " AND status = 'completed'"
    where += f" AND {TODO_IS_SHOWN}" if conversation_id is None else " AND conversation_id = ?"
    rows = tx.all(
        f"""SELECT id FROM todos WHERE tenant_id = ? AND checks <> ''{where}
            ORDER BY COALESCE((SELECT MAX(receipts.id) FROM receipts WHERE receipts.tenant_id = todos.tenant_id
                AND subject = 'todo' AND subject_id = todos.id), 0), id LIMIT ?""",
        tenant_id,
        *(() if conversation_id is None else (conversation_id,)),
        limit,
    )
    return [int(row[0]) for row in rows]


def load_receipt(row: Row) -> Receipt:
    receipt = Receipt._make(row)
    return receipt._replace(ok=bool(receipt.ok))

"""SQL for receipts: what the checks of a todo, a sub-goal or a goal found."""

import json

from headway.ledger.check import Receipt, ReceiptDraft, SubjectKind
from headway.storage import logged_transaction
from headway.storage.columns import Column, Columns
from headway.storage.stores import events as event_store
from headway.storage.stores.todos import TODO_IS_SHOWN
from headway.storage.transaction import Transaction

RECEIPTS = Columns(Receipt, ok=Column(decode=bool))


def insert_receipt(tx: Transaction, tenant_id: int, draft: ReceiptDraft, override: str = "") -> Receipt:
    receipt = Receipt(
        id=0,
        subject=draft.subject,
        subject_id=draft.subject_id,
        ok=draft.ok and not override,
        results=json.dumps([result.as_json() for result in draft.results], ensure_ascii=False),
        versions=json.dumps(dict(draft.versions)),
        override=override,
        made_by=draft.made_by,
        run_id=draft.run_id,
        seq=event_store.get_last_seq(tx, tenant_id),
        at=tx.now,
    )
    return logged_transaction.insert(tx, tenant_id, "receipts", RECEIPTS, receipt)


def insert_copy(tx: Transaction, tenant_id: int, receipt: Receipt, subject_id: int) -> None:
    """Store the receipt for a copy of its subject."""
    logged_transaction.insert(tx, tenant_id, "receipts", RECEIPTS, receipt._replace(id=0, subject_id=subject_id))


def list_newest_receipts(tx: Transaction, tenant_id: int, subject: SubjectKind, subject_id: int, limit: int) -> list[Receipt]:
    sql = f"""SELECT {RECEIPTS.selected} FROM receipts WHERE tenant_id = ? AND subject = ? AND subject_id = ?
        ORDER BY id DESC LIMIT ?"""
    return RECEIPTS.all(tx, sql, tenant_id, subject, subject_id, limit)


def list_newest_of_goal(tx: Transaction, tenant_id: int, goal_id: int, limit: int) -> list[Receipt]:
    """List the receipts of a goal and of its sub-goals."""
    sql = f"""SELECT {RECEIPTS.selected} FROM receipts WHERE tenant_id = ? AND (
            (subject = 'goal' AND subject_id = ?)
            OR (subject = 'sub_goal' AND subject_id IN (SELECT id FROM sub_goals WHERE tenant_id = ? AND goal_id = ?)))
        ORDER BY id DESC LIMIT ?"""
    return RECEIPTS.all(tx, sql, tenant_id, goal_id, tenant_id, goal_id, limit)


def list_checked_todos(
    tx: Transaction, tenant_id: int, conversation_id: int | None, limit: int, *, include_open: bool
) -> list[int]:
    """List the completed todos with checks, or all todos with checks. The ones checked longest ago come first."""
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


def list_checks(tx: Transaction, tenant_id: int, conversation_id: int) -> list[tuple[int, str]]:
    """List the ids and the checks of the todos in a conversation that have some."""
    sql = "SELECT id, checks FROM todos WHERE tenant_id = ? AND conversation_id = ? AND checks <> '' ORDER BY id"
    return [(int(todo_id), str(checks)) for todo_id, checks in tx.all(sql, tenant_id, conversation_id)]

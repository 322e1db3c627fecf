"""SQL for the questions that agents ask people, and for what a turn or a goal waits for."""

from headway.ledger.permission import PersonQuestion, QuestionState
from headway.storage import id_ranges
from headway.storage.columns import Columns
from headway.storage.transaction import Transaction

QUESTIONS = Columns(
    PersonQuestion,
    fixed=(
        *("id", "tenant_id", "conversation_id", "turn_id", "run_id", "goal_id", "role", "question", "choices", "created_at"),
        "client_call",
    ),
)
SELECT = f"SELECT {QUESTIONS.selected} FROM questions"
UPDATE = f"UPDATE questions SET {QUESTIONS.assignments} WHERE tenant_id = ? AND id = ?"
SELECT_WAITING = """SELECT 'approval', id, turn_id, goal_id, created_at FROM approvals WHERE tenant_id = ? AND state = 'proposed'
    UNION ALL SELECT 'question', id, turn_id, goal_id, created_at FROM questions WHERE tenant_id = ? AND state = 'open'
    ORDER BY 5, 2 LIMIT ?"""
SELECT_NEEDED = """SELECT 1 FROM approvals WHERE tenant_id = ? AND run_id = ? AND state = 'proposed'
    UNION ALL SELECT 1 FROM questions WHERE tenant_id = ? AND run_id = ? AND state = 'open' LIMIT 1"""

COUNT_ALL_WAITING = """SELECT
    (SELECT COUNT(*) FROM tenants t JOIN approvals a ON a.tenant_id = t.id AND a.state = 'proposed'),
    (SELECT COUNT(*) FROM tenants t JOIN questions q ON q.tenant_id = t.id AND q.state = 'open')"""


def insert(tx: Transaction, question: PersonQuestion) -> PersonQuestion:
    return id_ranges.insert(tx, question.tenant_id, "questions", QUESTIONS, question)


def find(tx: Transaction, tenant_id: int, question_id: int) -> PersonQuestion | None:
    return QUESTIONS.one(tx, f"{SELECT} WHERE tenant_id = ? AND id = ?", tenant_id, question_id)


def list_open_of_run(tx: Transaction, tenant_id: int, run_id: str) -> list[PersonQuestion]:
    return QUESTIONS.all(tx, f"{SELECT} WHERE tenant_id = ? AND run_id = ? AND state = 'open' ORDER BY id", tenant_id, run_id)


def list_page(tx: Transaction, tenant_id: int, state: QuestionState | None, limit: int, before: int) -> list[PersonQuestion]:
    """List questions, newest first, with an id below `before`."""
    condition, values = ("AND state = ?", (state,)) if state else ("", ())
    sql = f"{SELECT} WHERE tenant_id = ? {condition} AND id < ? ORDER BY id DESC LIMIT ?"
    return QUESTIONS.all(tx, sql, tenant_id, *values, before, limit)


def save(tx: Transaction, question: PersonQuestion) -> None:
    tx.run(UPDATE, *QUESTIONS.dump_changed(question), question.tenant_id, question.id)


def is_person_needed(tx: Transaction, tenant_id: int, run_id: str) -> bool:
    """Whether the run has an open approval or question."""
    return tx.one(SELECT_NEEDED, tenant_id, run_id, tenant_id, run_id) is not None


def list_waiting(tx: Transaction, tenant_id: int, limit: int) -> list[tuple[str, int, str | None, int | None]]:
    """List (kind, id, turn, goal) of the tenant's open approvals and questions, oldest first."""
    return [(str(row[0]), int(row[1]), row[2], row[3]) for row in tx.all(SELECT_WAITING, tenant_id, tenant_id, limit)]


def count_open(tx: Transaction, tenant_id: int) -> tuple[int, int]:
    """Return the numbers of open approvals and questions of the tenant."""
    row = tx.one(
        """SELECT (SELECT COUNT(*) FROM approvals WHERE tenant_id = ? AND state = 'proposed'),
            (SELECT COUNT(*) FROM questions WHERE tenant_id = ? AND state = 'open')""",
        tenant_id,
        tenant_id,
    )
    assert row is not None
    return int(row[0]), int(row[1])


def count_all_waiting(tx: Transaction) -> tuple[int, int]:
    """Count the open approvals and questions of all tenants. The join with tenants lets both databases use the indexes."""
    row = tx.one(COUNT_ALL_WAITING)
    assert row is not None
    return int(row[0]), int(row[1])


def count_waiting(tx: Transaction, tenant_id: int, turn_id: str, change: int) -> None:
    """Change the number of approvals and questions that a turn waits for."""
    tx.run("UPDATE turns SET waiting = waiting + ? WHERE tenant_id = ? AND id = ?", change, tenant_id, turn_id)

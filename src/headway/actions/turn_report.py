"""The result of a turn, for the program that started it: status, answer and plan."""

from typing import NamedTuple

from headway.actions import conversations
from headway.ledger.errors import TurnFailed
from headway.ledger.tenancy import TurnStatus
from headway.ledger.todo import Todo
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


class TurnReport(NamedTuple):
    id: str
    conversation_id: int
    status: TurnStatus
    outcome: str | None  # drained, answered, incomplete, limit, filtered
    answer: str
    plan: tuple[Todo, ...]


def get_report(tx: Transaction, tenant_id: int, turn_id: str) -> TurnReport:
    """Return the report of a turn that an agent answers. A failed turn raises TurnFailed with the reason."""
    turn = conversations.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn_id)
    said = (run.result if run else None) or ""
    if turn.status == "failed":
        raise TurnFailed(said)
    plan = tuple(todo_store.list_by_turn(tx, tenant_id, turn_id))
    return TurnReport(turn.id, turn.conversation_id, turn.status, turn.outcome, said, plan)

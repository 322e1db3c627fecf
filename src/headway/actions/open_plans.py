"""One open plan per conversation, for agents of other programs: their processes start and stop, and the plan is continued.

A plan is the list of a turn. It stays open until all its items have ended and the next plan begins.
"""

from headway.actions import conversations
from headway.ledger.events import Event, encode_json
from headway.ledger.tenancy import Turn
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction


def find(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn | None:
    """Return the turn with the conversation's open plan, if there is one."""
    return conversation_store.find_open_plan(tx, tenant_id, conversation_id)


def is_drained(tx: Transaction, tenant_id: int, turn_id: str) -> bool:
    """Whether the plan had items, and all of them have ended."""
    items = todo_store.list_by_turn(tx, tenant_id, turn_id)
    return bool(items) and all(item.ended for item in items)


def continue_or_open(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Return the turn with the conversation's open plan. Without one, open a turn."""
    conversation_store.lock(tx, tenant_id, conversation_id)  # processes that begin at the same time share one plan
    return find(tx, tenant_id, conversation_id) or conversations.open_turn(tx, tenant_id, conversation_id)


def begin(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Return the turn for new items: the open plan, or a new one if everything in it has ended. Then its turn is finished."""
    turn = continue_or_open(tx, tenant_id, conversation_id)
    if not is_drained(tx, tenant_id, turn.id):
        return turn
    conversation_store.save_turn(tx, tenant_id, turn._replace(status="finished", outcome="drained", ended_at=tx.now))
    document = encode_json({"turn_id": turn.id, "outcome": "drained", "incomplete": []})
    tx.emit(Event(tenant_id, "turn_finished", document, conversation_id, turn.id))
    return conversations.open_turn(tx, tenant_id, conversation_id)

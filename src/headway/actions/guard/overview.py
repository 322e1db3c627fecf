"""The state of a project's guard: its sessions, their open items and their refusals."""

import json
from typing import Any, Final, NamedTuple

from headway.actions.guard.sessions import SESSIONS_SHOWN
from headway.ledger.guard import RULE_AGENT
from headway.ledger.tenancy import Conversation
from headway.ledger.todo import Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

EVENTS_LIMIT: Final = 200  # of a plan, among which refusals are counted
ITEMS_LIMIT: Final = 500
SUB_AGENTS_SHOWN: Final = 20


class GuardedSession(NamedTuple):
    conversation: Conversation
    turn_id: str | None  # the plan of the last refusal, or else the newest one; None: it has none
    outcome: str | None  # of the newest plan
    open_items: list[Todo]
    refusals: int  # of the newest plan, and of its sub-agents' plans
    reason: str  # of the last refusal

    def as_json(self) -> dict[str, Any]:
        conversation = self.conversation
        return {
            "client": conversation.client,
            "session": conversation.client_session,
            "conversation_id": conversation.id,
            "turn_id": self.turn_id,
            "outcome": self.outcome,
            "updated_at": conversation.updated_at // 1000,
            "open": [{"id": todo.id, "title": todo.subject, "status": todo.status} for todo in self.open_items],
            "refusals": self.refusals,
            "reason": self.reason,
        }


def list_sessions(tx: Transaction, tenant_id: int, folder: str) -> list[GuardedSession]:
    """List the newest sessions of a project."""
    found = conversation_store.list_of_folder(tx, tenant_id, folder, SESSIONS_SHOWN)
    return [describe_session(tx, tenant_id, conversation) for conversation in found]


def describe_session(tx: Transaction, tenant_id: int, conversation: Conversation) -> GuardedSession:
    rows = todo_store.list_of_conversation(tx, tenant_id, conversation.id, ITEMS_LIMIT)
    last = conversation_store.find_last_plan(tx, tenant_id, conversation.id, "")
    open_items = [row for row in reversed(rows) if not row.ended or (row.agent_id == RULE_AGENT and row.proof == "broken")]
    sub_agents = {row.turn_id for row in rows if row.turn_id and row.agent_id.startswith(f"{conversation.client}/")}
    plans = [*([last.id] if last else []), *sorted(sub_agents)[:SUB_AGENTS_SHOWN]]
    windows = [event_store.list_newest_events(tx, tenant_id, "turn_id", plan, ("refused",), EVENTS_LIMIT) for plan in plans]
    refused = sorted((event for window in windows for event in window.events), key=lambda event: event.seq)
    newest: dict[str, Any] = json.loads(refused[-1].data) if refused else {"turn_id": last and last.id, "reason": ""}
    outcome = last.outcome if last else None
    return GuardedSession(conversation, newest["turn_id"], outcome, open_items, len(refused), newest["reason"])

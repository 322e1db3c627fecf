"""Claims: leasing the next ready todo to an agent for a limited time."""

from typing import Any, NamedTuple
from uuid import uuid4

from headway.actions.todos import finding, todos
from headway.ledger import text
from headway.ledger.errors import Invalid, LeaseLost
from headway.ledger.events import build_todo_event
from headway.ledger.scope import TENANT_WIDE
from headway.ledger.todo import Lease, Todo, change_status
from headway.storage.stores import todo_leases as lease_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

DEFAULT_LEASE_S = 60
MAX_LEASE_S = 24 * 3600


class Claim(NamedTuple):
    todo: Todo
    lease: Lease

    def as_json(self) -> dict[str, Any]:
        return {
            "todo": self.todo.as_json(),
            "lease": {"token": self.lease.token, "expires_at": self.lease.expires_at // 1000},
        }


def claim(
    tx: Transaction, tenant_id: int, agent_id: str, conversation_id: int | None = None, lease_s: float = DEFAULT_LEASE_S
) -> Claim | None:
    """Lease the next todo to this agent, or return None. Todos whose lease has expired come before todos that were not started."""
    agent_id = text.check_name(agent_id, "agent_id")
    expires_at = tx.now + to_lease_ms(lease_s)
    if conversation_id:
        finding.get_conversation(tx, tenant_id, conversation_id)
    todo_id = find_next_todo(tx, tenant_id, conversation_id)
    if todo_id is None:
        return None
    old = todos.get_locked_todo(tx, tenant_id, todo_id)
    new = change_status(old, "in_progress", tx.now)._replace(agent_id=agent_id, updated_at=tx.now)
    todo_store.update_todo(tx, tenant_id, old, new)
    lease = Lease(todo_id, agent_id, uuid4().hex, expires_at)
    lease_store.put(tx, tenant_id, lease)
    tx.emit(build_todo_event(tenant_id, new, "updated", old))
    return Claim(new, lease)


def find_lease(tx: Transaction, tenant_id: int, todo_id: int) -> Lease | None:
    """Return the lease of a todo. It may have expired: the todo is then free for the next claim."""
    return lease_store.find_lease(tx, tenant_id, todo_id)


def heartbeat(tx: Transaction, tenant_id: int, todo_id: int, lease_token: str, lease_s: float = DEFAULT_LEASE_S) -> Claim:
    """Extend the lease. A late owner may continue as long as no other agent has claimed the todo."""
    todo = todos.get_locked_todo(tx, tenant_id, todo_id)
    lease = find_lease(tx, tenant_id, todo_id)
    if lease is None or lease.token != lease_token:
        raise LeaseLost
    lease = lease._replace(expires_at=tx.now + to_lease_ms(lease_s))
    lease_store.put(tx, tenant_id, lease)
    return Claim(todo, lease)


def find_next_todo(tx: Transaction, tenant_id: int, conversation_id: int | None) -> int | None:
    lists: tuple[int | None, ...] = (conversation_id, TENANT_WIDE) if conversation_id else (conversation_id,)
    for list_id in lists:
        todo_id = lease_store.lock_expired(tx, tenant_id, list_id)
        # Another agent may have claimed it before the row was locked, so check the lease again under the lock.
        if todo_id is not None and (lease := find_lease(tx, tenant_id, todo_id)) and lease.expires_at <= tx.now:
            return todo_id
    return next((todo_id for list_id in lists if (todo_id := lease_store.lock_ready(tx, tenant_id, list_id)) is not None), None)


def to_lease_ms(lease_s: float) -> int:
    if not 1 <= lease_s <= MAX_LEASE_S:
        raise Invalid(f"lease_s must be between 1 and {MAX_LEASE_S}.")
    return int(lease_s * 1000)

"""Scopes: the rows a caller may address. A scope comes from the caller's connection, never from a model's arguments."""

from typing import Final, NamedTuple

from headway.ledger.check import Proof
from headway.ledger.todo import DEFAULT_AGENT, Status

TENANT_WIDE: Final = 0


class Scope(NamedTuple):
    """A tenant, and the conversation, turn and agent that new work belongs to."""

    tenant_id: int
    conversation_id: int = TENANT_WIDE
    turn_id: str | None = None
    agent_id: str = DEFAULT_AGENT

    def home(self, *, tenant_wide: bool) -> "Scope":
        """Return the scope for new work: the tenant-wide list if requested, otherwise this scope."""
        return self._replace(conversation_id=TENANT_WIDE, turn_id=None) if tenant_wide else self


class Selection(NamedTuple):
    """A filter for a tenant's todos.

    conversation_id: None = all, TENANT_WIDE = only tenant-wide todos, n = those of conversation n and the tenant-wide ones. The
    todos of a conversation include the plans of its turns, whether a turn is running or ended with open items.
    """

    conversation_id: int | None = None
    turn_id: str | None = None
    statuses: tuple[Status, ...] = ()
    agent_id: str | None = None
    proof: Proof | None = None
    own_only: bool = False  # only with a conversation: leave out the tenant-wide todos


class MemorySelection(NamedTuple):
    """A filter for a tenant's memory.

    conversation_id: None = all, TENANT_WIDE = only tenant-wide entries, n = those that agents in conversation n recall: its own and
    the tenant-wide ones.
    """

    conversation_id: int | None = None
    kind: str | None = None

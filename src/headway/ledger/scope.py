"""Whose rows a caller speaks of. A scope comes from the door a caller came through, never from a model's arguments."""

from typing import Final, NamedTuple

from headway.ledger.todo import DEFAULT_AGENT, Status

TENANT_WIDE: Final = 0


class Scope(NamedTuple):
    """A tenant, and where in it new work goes."""

    tenant_id: int
    conversation_id: int = TENANT_WIDE
    turn_id: str | None = None
    agent_id: str = DEFAULT_AGENT

    def home(self, *, tenant_wide: bool) -> "Scope":
        """Where new work goes: the tenant-wide list if asked for, else the conversation, if there is one."""
        return self._replace(conversation_id=TENANT_WIDE, turn_id=None) if tenant_wide else self


class Selection(NamedTuple):
    """Which of a tenant's todos a list shows.

    conversation_id: None = all, TENANT_WIDE = the tenant-wide ones, n = that conversation's and the tenant-wide ones.
    A conversation's todos include the plans of its turns, whether a turn is running or ended with items still open.
    """

    conversation_id: int | None = None
    turn_id: str | None = None
    statuses: tuple[Status, ...] = ()
    agent_id: str | None = None

"""Scopes: the rows a caller may address. A scope comes from the caller's connection, never from a model's arguments."""

from typing import Any, Final, NamedTuple
from unicodedata import normalize

from headway.ledger import text
from headway.ledger.check import Proof
from headway.ledger.parsing.todo_fields import FieldFilters, Priority, check_label
from headway.ledger.todo import DEFAULT_AGENT, Status
from headway.ledger.wording import QUERY_LIMIT

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

    conversation_id: None = all, TENANT_WIDE = only tenant-wide todos, n = todos of conversation n and tenant-wide ones. The
    todos of a conversation include the plans of its turns, whether a turn is running or ended with open items.
    """

    conversation_id: int | None = None
    turn_id: str | None = None
    statuses: tuple[Status, ...] = ()
    agent_id: str | None = None
    proof: Proof | None = None
    with_plans: bool = True  # False: leave out the items of turns' plans
    own_only: bool = False  # only with a conversation: leave out the tenant-wide todos
    fields: FieldFilters = FieldFilters()

    @property
    def is_list(self) -> bool:
        """Whether it selects whole lists, whose todos are counted."""
        return self == Selection(self.conversation_id, self.turn_id, self.statuses, own_only=self.own_only)


class MemorySelection(NamedTuple):
    """A filter for a tenant's memory.

    conversation_id: None = all, TENANT_WIDE = only tenant-wide entries, n = those that agents in conversation n recall: its own and
    the tenant-wide ones.
    """

    conversation_id: int | None = None
    kind: str | None = None


class ViewFilters(NamedTuple):
    """The filters of a saved view of the board. A filter that is None lets everything pass."""

    status: Status | None = None
    conversation_id: int | None = None  # TENANT_WIDE: only the tenant-wide todos; n: only todos of conversation n
    agent_id: str | None = None
    proof: Proof | None = None
    q: str | None = None  # words that must all occur
    priority: Priority | None = None
    label: str | None = None
    overdue: bool | None = None

    def checked(self) -> "ViewFilters":
        """Return the filters with every text validated."""
        words = "" if self.q is None else text.check_text(self.q, "q", QUERY_LIMIT).strip()
        return self._replace(
            agent_id=None if self.agent_id is None else text.check_name(self.agent_id, "agent_id"),
            q=words or None,
            label=None if self.label is None else check_label(self.label),
            overdue=self.overdue or None,
        )

    def list_set(self) -> dict[str, Any]:
        """Return the filters that are set."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"conversation_id": "tenant" if self.conversation_id == TENANT_WIDE else self.conversation_id}


class SavedView(NamedTuple):
    """A named set of the board's filters."""

    id: int
    name: str
    filters: ViewFilters
    person: str  # who saved it last
    revision: int  # counts the changes
    created_at: int
    updated_at: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {
            "filters": self.filters.as_json(),
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
        }


def fold_name(name: str) -> str:
    """Return a name without what does not distinguish it from others: its case, and how its characters are encoded."""
    return normalize("NFKC", name).casefold()

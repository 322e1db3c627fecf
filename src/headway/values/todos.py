"""Todos, their leases and the receipts of their checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Required, TypedDict

from headway.ledger.check import Proof
from headway.ledger.todo import CompletedBy, Status
from headway.values.value import Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Todo(Value):
    """One tracked piece of work. A conversation_id of 0 means the list of the whole tenant."""

    id: int
    subject: str
    status: Status
    description: str = ""
    completion_criteria: str = ""
    outcome: str | None = None
    conversation_id: int = 0
    turn_id: str | None = None
    agent_id: str = ""
    agent_type: str | None = None
    position: int = 0
    depends_on: tuple[int, ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    proof: Proof = "none"
    completed_by: CompletedBy | None = None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is pending or in progress."""
        return self.status in ("pending", "in_progress")


class TodoDraft(TypedDict, total=False):
    """A todo to add."""

    subject: Required[str]
    description: str
    completion_criteria: str
    agent_type: str | None
    agent_id: str
    conversation_id: int
    turn_id: str | None
    status: Status | Literal["cancelled"]
    position: int | None
    depends_on: Sequence[int]
    checks: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comment(Value):
    """What a person or a program wrote about a todo."""

    id: int
    todo_id: int
    person: str
    text: str
    created_at: datetime
    edited_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Lease(Value):
    """The exclusive right to work on a todo until it expires. The token proves it."""

    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Claim(Value):
    """A todo that was leased to an agent."""

    todo: Todo
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckResult(Value):
    """What one check found."""

    check: Mapping[str, Any]
    ok: bool
    detail: str = ""
    duration_ms: int = 0
    opinion: bool = False
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Receipt(Value):
    """What the checks of a todo or a goal found."""

    id: int
    ok: bool
    checks: tuple[CheckResult, ...] = ()
    override: str | None = None
    made_by: str = ""
    run_id: str | None = None
    seq: int = 0
    at: datetime

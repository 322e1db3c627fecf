"""Todos, their leases and the receipts of their checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, Required, TypedDict

from headway.ledger.check import Proof
from headway.ledger.parsing.todo_fields import Priority
from headway.ledger.todo import CompletedBy, Status
from headway.values.value import Meaning, Value

PROOF = "none: it has no checks; broken: it was completed, and a check no longer passes"
Checks = tuple[Annotated[Mapping[str, Any], Meaning(schema="Check")], ...]


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
    checks: Checks = ()
    proof: Annotated[Proof, Meaning(PROOF)] = "none"
    completed_by: Annotated[
        CompletedBy | None,
        Meaning(
            "check: its checks passed, or the assessor accepted it; effect: what was written shows it; agent: an agent said so; "
            "person: a person did; null: it is not completed, or an import did not say"
        ),
    ] = None
    priority: Priority = "normal"
    due: Annotated[datetime | None, Meaning("Epoch seconds", may_be_null=True)] = None
    labels: Annotated[tuple[str, ...], Meaning("Sorted, without duplicates")] = ()
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is pending or in progress."""
        return self.status in ("pending", "in_progress")


class TodoDraftFields(TypedDict, total=False):
    """The fields of a todo to add, beside its subject."""

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
    priority: Priority
    due: datetime | str | int | None
    labels: Sequence[str]


class TodoDraft(TodoDraftFields):
    """A todo to add."""

    subject: Required[str]


class TodoChanges(TypedDict, total=False):
    """The fields of a todo that can be changed. None clears `agent_type`, `outcome` and `due`."""

    subject: str
    description: str
    completion_criteria: str
    agent_type: str | None
    status: Status
    position: int
    outcome: str | None
    depends_on: Sequence[int]
    checks: Sequence[Mapping[str, Any]]
    priority: Priority
    due: datetime | str | int | None
    labels: Sequence[str]


class TodoFilters(TypedDict, total=False):
    """Filters of todos. With a conversation, the tenant-wide todos are included, unless `own` is set; `"tenant"` selects only
    these. A todo has all the labels."""

    status: Status | None
    conversation_id: int | Literal["tenant"] | None
    own: bool
    turn_id: str | None
    agent_id: str | None
    proof: Proof | None
    priority: Priority | None
    labels: Sequence[str]
    due_before: datetime | str | int | None
    overdue: bool
    q: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comment(Value):
    """A comment of a person or a program on a todo."""

    id: int
    todo_id: int
    person: Annotated[str, Meaning("Who wrote it: the label of a token, or `cli`")]
    text: str
    created_at: datetime
    edited_at: Annotated[datetime | None, Meaning("Epoch seconds; 0: never")] = None
    editable: Annotated[bool, Meaning("Whether the caller may edit it: it is their own")] = False
    deletable: Annotated[bool, Meaning("Whether the caller may delete it: it is their own, or they are an administrator")] = False


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
    """The result of one check."""

    check: Annotated[Mapping[str, Any], Meaning(schema="Check")]
    ok: bool
    detail: Annotated[str, Meaning("The end of its output, or why it failed")] = ""
    duration_ms: int = 0
    opinion: Annotated[bool, Meaning("Whether a model judged it")] = False
    exit_code: int | None = None
    files: Annotated[Mapping[str, str], Meaning("SHA-256 hashes of the files that it looked at, by path")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Receipt(Value):
    """The results of one run of the checks, or a person's reason to complete the work without them."""

    id: int
    todo_id: Annotated[int | None, Meaning(is_omitted=True)] = None
    goal_id: Annotated[int | None, Meaning(is_omitted=True)] = None
    sub_goal_id: Annotated[int | None, Meaning(is_omitted=True)] = None
    ok: bool
    checks: tuple[CheckResult, ...] = ()
    versions: Annotated[Mapping[str, str], Meaning("Of Headway, Python and the sandbox")] = field(default_factory=dict)
    override: str | None = None
    made_by: str = ""
    run_id: str | None = None
    seq: Annotated[int, Meaning("The number of the last event before it")] = 0
    at: datetime

"""The todo: one tracked piece of work, with its statuses and the legal transitions between them."""

from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from headway.ledger import text
from headway.ledger.check import Proof, decode_checks
from headway.ledger.errors import AlreadyEnded, IllegalTransition, Invalid, UnknownStatus
from headway.ledger.parsing.todo_fields import FIELDS, LATEST_SECOND, NO_DUE, NORMAL, PRIORITIES, list_labels

Status = Literal["pending", "in_progress", "completed", "canceled"]
CompletedBy = Literal["check", "effect", "agent", "person"]  # whose word it is that the todo is done

STATUSES: Final[tuple[Status, ...]] = ("pending", "in_progress", "completed", "canceled")
OPEN_STATUSES: Final[tuple[Status, ...]] = ("in_progress", "pending")  # in the order in which they are shown
ENDED_STATUSES: Final[tuple[Status, ...]] = ("completed", "canceled")
LEGAL_TRANSITIONS: Final[dict[Status, tuple[Status, ...]]] = {
    "pending": ("in_progress", "completed", "canceled"),
    "in_progress": ("pending", "completed", "canceled"),
    "completed": ("pending", "in_progress"),
    "canceled": ("pending", "in_progress"),
}
POSITION_LIMIT: Final = 1_000_000_000
DEFAULT_AGENT: Final = "index"


class Unset(Enum):
    """Distinguishes "leave unchanged" from "set to None"."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


def parse_status(name: str) -> Status:
    """Parse a status. Both spellings, "canceled" and "cancelled", are accepted."""
    status = "canceled" if name == "cancelled" else name
    if status not in STATUSES:
        raise UnknownStatus(f"Unknown status {name[:40]!r}. Known: {', '.join(STATUSES)}.")
    return status


class Todo(NamedTuple):
    """One todo in the ledger. Times are epoch milliseconds; 0 means that it has not happened."""

    id: int
    uuid: str
    conversation_id: int
    turn_id: str | None
    agent_id: str
    subject: str
    description: str
    completion_criteria: str
    agent_type: str | None
    status: Status
    position: int
    outcome: str | None
    created_at: int
    updated_at: int
    started_at: int
    completed_at: int
    checks: str = ""  # JSON: what must hold before it counts as done; empty if nothing
    proof: Proof = "none"
    completed_by: CompletedBy | None = None  # None if it is not completed, or an import did not say
    priority: int = NORMAL  # its index in PRIORITIES
    due: int = NO_DUE
    labels: str = ""  # see todo_fields.parse_labels
    depends_on: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        return self.completed_at != 0

    def as_json(self) -> dict[str, Any]:
        """Return the todo as REST, events, MCP and the CLI show it, with times in epoch seconds."""
        # Unpacking once is twice as fast as looking up each field by name, which matters for long lists.
        (
            number,
            _,
            conversation_id,
            turn_id,
            agent_id,
            subject,
            description,
            completion_criteria,
            agent_type,
            status,
            position,
            outcome,
            created_at,
            updated_at,
            started_at,
            completed_at,
            checks,
            proof,
            completed_by,
            priority,
            due,
            labels,
            depends_on,
        ) = self
        return {
            "id": number,
            "conversation_id": conversation_id,
            "turn_id": turn_id,
            "agent_id": agent_id,
            "subject": subject,
            "description": description,
            "completion_criteria": completion_criteria,
            "agent_type": agent_type,
            "status": status,
            "position": position,
            "outcome": outcome,
            "checks": decode_checks(checks) if checks else [],
            "proof": proof,
            "completed_by": completed_by,
            "priority": PRIORITIES[priority],
            "due": None if due == NO_DUE else due // 1000,
            "labels": list_labels(labels) if labels else [],
            "depends_on": depends_on,
            "created_at": created_at // 1000,
            "updated_at": updated_at // 1000,
            "started_at": started_at // 1000,
            "completed_at": completed_at // 1000,
        }


class Lease(NamedTuple):
    """An agent's exclusive right to work on a todo for a limited time. The token proves it."""

    todo_id: int
    agent_id: str
    token: str
    expires_at: int


class Draft(NamedTuple):
    """A todo as a caller requests it; the ledger fills in the rest."""

    subject: str
    description: str = ""
    completion_criteria: str = ""
    agent_type: str | None = None
    agent_id: str = DEFAULT_AGENT
    conversation_id: int = 0
    turn_id: str | None = None
    status: Status = "pending"
    position: int | None = None
    outcome: str | None = None
    depends_on: tuple[int, ...] = ()
    completed_at: int | None = None  # by default the current time, if the status is an ended one
    checks: str = ""  # JSON, as `write_checks` encodes it
    completed_by: CompletedBy | None = None  # ignored unless the status is completed
    priority: int = NORMAL  # this and the next two as todo_fields parses them
    due: int = NO_DUE
    labels: str = ""

    def checked(self) -> "Draft":
        """Return the draft with every text and number validated."""
        return self._replace(
            subject=text.check_subject(self.subject),
            description=text.check_text(self.description, "description"),
            completion_criteria=text.check_text(self.completion_criteria, "completion_criteria"),
            agent_type=None if self.agent_type is None else text.check_name(self.agent_type, "agent_type"),
            agent_id=text.check_name(self.agent_id, "agent_id"),
            position=None if self.position is None else check_position(self.position),
            outcome=None if self.outcome is None else text.check_text(self.outcome, "outcome"),
            depends_on=tuple(dict.fromkeys(self.depends_on)),
            completed_at=None if self.completed_at is None else check_completed_at(self.completed_at, self.status),
        )


class Change(NamedTuple):
    """A partial update of a todo. Fields left UNSET stay as they are."""

    subject: str | Unset = UNSET
    description: str | Unset = UNSET
    completion_criteria: str | Unset = UNSET
    agent_type: str | Unset | None = UNSET
    status: Status | Unset = UNSET
    position: int | Unset = UNSET
    outcome: str | Unset | None = UNSET
    depends_on: tuple[int, ...] | Unset = UNSET
    completed_at: int | Unset = UNSET
    checks: str | Unset = UNSET  # JSON, as `write_checks` encodes it
    completed_by: CompletedBy | Unset = UNSET  # with the status completed; UNSET: the actor
    priority: int | Unset = UNSET  # this and the next two as todo_fields parses them
    due: int | Unset = UNSET
    labels: str | Unset = UNSET

    def apply_to(self, todo: Todo, now: int) -> Todo:
        """Return the changed todo, validated. The store applies position and dependencies."""
        if self.status is not UNSET:
            todo = change_status(todo, self.status, now)
        if self.completed_at is not UNSET:
            todo = todo._replace(completed_at=check_completed_at(self.completed_at, todo.status))
        if self.subject is not UNSET:
            todo = todo._replace(subject=text.check_subject(self.subject))
        if self.description is not UNSET:
            todo = todo._replace(description=text.check_text(self.description, "description"))
        if self.completion_criteria is not UNSET:
            todo = todo._replace(completion_criteria=text.check_text(self.completion_criteria, "completion_criteria"))
        if self.agent_type is not UNSET:
            agent_type = self.agent_type
            todo = todo._replace(agent_type=None if agent_type is None else text.check_name(agent_type, "agent_type"))
        if self.outcome is not UNSET:
            outcome = self.outcome
            todo = todo._replace(outcome=None if outcome is None else text.check_text(outcome, "outcome"))
        if self.checks is not UNSET and self.checks != todo.checks:
            todo = todo._replace(checks=self.checks, proof="unproven" if self.checks else "none")
        fields = {field.name: value for field in FIELDS if (value := getattr(self, field.name)) is not UNSET}
        return todo._replace(**fields) if fields else todo


def check_position(position: int) -> int:
    if not 0 <= position <= POSITION_LIMIT:
        raise Invalid(f"position must be between 0 and {POSITION_LIMIT:,}.")
    return position


def check_completed_at(moment: int, status: Status) -> int:
    """Check a completion time supplied by the caller. It may be ahead of this machine's clock, because clocks differ and an export
    from another machine must import unchanged."""
    if status not in ENDED_STATUSES:
        raise Invalid(f"completed_at is only accepted with an ended status ({' or '.join(ENDED_STATUSES)}); this todo is {status}.")
    if not 1_000 <= moment <= LATEST_SECOND * 1_000:
        raise Invalid(f"completed_at must be a time in epoch seconds between 1 and {LATEST_SECOND:,}.")
    return moment


def compute_timestamps(draft: Draft, now: int) -> tuple[int, int]:
    """Return (started_at, completed_at) for a new todo."""
    ended_at = now if draft.completed_at is None else draft.completed_at
    return (now if draft.status == "in_progress" else 0, ended_at if draft.status in ENDED_STATUSES else 0)


def change_status(todo: Todo, to: Status, now: int) -> Todo:
    """Return the todo in its new status. Setting the status that it already has changes nothing."""
    if to == todo.status:
        return todo
    if to not in LEGAL_TRANSITIONS[todo.status]:
        legal = " or ".join(LEGAL_TRANSITIONS[todo.status])
        raise IllegalTransition(f"Todo {todo.id} is {todo.status} and cannot become {to}; it can become {legal}.")
    if todo.ended:  # reopened: the old times, the outcome and the proof no longer apply
        proof: Proof = "unproven" if todo.checks else "none"
        started_at = now if to == "in_progress" else 0
        return todo._replace(status=to, started_at=started_at, completed_at=0, outcome=None, proof=proof, completed_by=None)
    if to == "in_progress":
        return todo._replace(status=to, started_at=todo.started_at or now)
    return todo._replace(status=to, completed_at=now) if to != "pending" else todo._replace(status=to)


def refuse_start_of_ended(todo: Todo) -> None:
    """Reject starting an ended todo. Agents and the CLI must reopen it first; only a PATCH can reopen and start it at once."""
    if todo.ended:
        raise IllegalTransition(
            f"Todo {todo.id} is {todo.status} and cannot be started. Reopen it first: set its status to pending "
            f"(`headway todo reopen {todo.id}`)."
        )


def check_not_already_ended(todo: Todo, to: Status) -> None:
    """Reject ending a todo twice. Agents and the CLI get this error; a PATCH with the same status does nothing."""
    if todo.ended and todo.status == to:
        raise AlreadyEnded(f"Todo {todo.id} is already {to}.")


class Comment(NamedTuple):
    """A comment of a person on a todo."""

    id: int
    conversation_id: int  # the todo's
    todo_id: int
    person: str
    text: str
    created_at: int
    edited_at: int  # 0: never

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "todo_id": self.todo_id,
            "person": self.person,
            "text": self.text,
            "created_at": self.created_at // 1000,
            "edited_at": self.edited_at // 1000,
        }

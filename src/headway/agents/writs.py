"""Running writs: slash commands that an agent wrote into its text. Each answers in a frame of its own."""

from collections.abc import Callable
from typing import NamedTuple

from headway.actions import finding, todos
from headway.agents.roles import Role
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.framing import frame, inline
from headway.ledger.scope import TENANT_WIDE, Scope, Selection
from headway.ledger.todo import OPEN, Change, Draft, Todo
from headway.ledger.writ_parser import Writ, parse
from headway.storage import todo_pages
from headway.storage.transaction import Transaction

LISTED = 50
WRITS_LIMIT = 200  # in one text, which is one transaction


class Spoken(NamedTuple):
    """What came of a text with writs in it."""

    output: str
    visible: str


def run_text(tx: Transaction, scope: Scope, role: Role, text: str) -> Spoken:
    """Run every writ of a finished text, in order; one that fails leaves the others alone."""
    parsed = parse(text)
    answers = [run(tx, scope, role, writ) for writ in parsed.writs[:WRITS_LIMIT]]
    if more := len(parsed.writs) - len(answers):
        answers.append(frame("/todo", [f"ERR: at most {WRITS_LIMIT} writs in one text; the last {more} did not run"], "END TODO"))
    return Spoken("\n".join(answers), parsed.visible)


def run(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
    """The frame that answers a writ. Whatever it did is undone if it fails."""
    if writ.word == "todo":
        return todo_writ(tx, scope, role, writ)
    if writ.word == "schedule":
        return frame(f"/schedule {first_word(writ.rest)}".rstrip(), ["ERR: /schedule is not available here"], "END SCHEDULE")
    return "\n".join(agent_frames(writ))


def first_word(text: str) -> str:
    return inline(text.partition(" ")[0], 60)


def agent_frames(writ: Writ) -> list[str]:
    """One frame for /agent, one per line of a /parallel block."""
    if not writ.complete:
        return [frame("/parallel", ["ERR: missing /endparallel terminator"], "END AGENT")]
    lines = [line.removeprefix("/agent ") for line in (writ.body or "").split("\n") if line.strip()]
    calls = [writ.rest] if writ.word == "agent" else lines or [""]
    return [frame(f"/agent {first_word(call)}".rstrip(), ["ERR: /agent is not available here"], "END AGENT") for call in calls]


def todo_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
    verb, _, rest = writ.rest.partition(" ")
    head = f"/todo {verb}" if verb in VERBS else "/todo"
    try:
        if "todos" not in role.writs:
            raise Invalid(f"the role {role.name} needs the grant `todos` for this")
        if not writ.complete:
            raise Invalid("missing /endtodo terminator")
        if verb not in VERBS:
            raise Invalid(f"unknown verb; known: {', '.join(VERBS)}")
        lines = tx.attempt(lambda tx: VERBS[verb](tx, scope, rest.strip(), writ.body))
    except HeadwayError as error:
        lines = [f"ERR: {inline(str(error))}"]
    return frame(head, lines, "END TODO")


def add(tx: Transaction, scope: Scope, rest: str, body: str | None) -> list[str]:
    draft = Draft(rest, (body or "").strip("\n"), agent_id=scope.agent_id, conversation_id=scope.conversation_id)
    return [f"added {line_of(todos.add(tx, scope.tenant_id, draft))}"]


def list_(tx: Transaction, scope: Scope, _rest: str, _body: str | None) -> list[str]:
    return open_todos(tx, scope) or ["no open todos"]


def open_todos(tx: Transaction, scope: Scope) -> list[str]:
    """The counts and the open rows, as writs and the delegation envelope show them; nothing if there are none."""
    selection = Selection(scope.conversation_id, statuses=OPEN, plans=False)
    rows = todo_pages.page(tx, scope.tenant_id, selection, LISTED).todos
    counts = todo_pages.counts(tx, scope.tenant_id, selection)
    going, waiting = counts["in_progress"], counts["pending"]
    if not going + waiting:
        return []
    more = going + waiting - len(rows)
    return [
        f"{going + waiting} open ({going} in progress, {waiting} pending):",
        *(line_of(todo) for todo in rows),
        *([f"… and {more} more"] if more > 0 else []),
    ]


def line_of(todo: Todo) -> str:
    marker = "▶ " if todo.status == "in_progress" else ""
    suffix = " (tenant-wide)" if todo.conversation_id == TENANT_WIDE else ""
    return f"{marker}#{todo.id} [{todo.status}] {inline(todo.subject)}{suffix}"


def start(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    todo = finding.meant(tx, scope, rest)
    return [line_of(todos.change(tx, scope.tenant_id, todo.id, Change(status="in_progress")))]


def done(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [line_of(todos.end(tx, scope.tenant_id, finding.meant(tx, scope, rest).id, "completed"))]


def cancel(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [line_of(todos.end(tx, scope.tenant_id, finding.meant(tx, scope, rest).id, "canceled"))]


def describe(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    reference, text = reference_and_text(rest)
    todo = finding.meant(tx, scope, reference)
    return [line_of(todos.change(tx, scope.tenant_id, todo.id, Change(description=text)))]


def subject(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    reference, text = reference_and_text(rest)
    todo = finding.meant(tx, scope, reference)
    return [line_of(todos.change(tx, scope.tenant_id, todo.id, Change(subject=text)))]


def reference_and_text(rest: str) -> tuple[str, str]:
    """The first colon followed by a space ends the id."""
    reference, colon, text = rest.partition(": ")
    if not colon or not text.strip():
        raise Invalid("write it as ID: TEXT")
    return reference, text.strip()


VERBS: dict[str, Callable[[Transaction, Scope, str, str | None], list[str]]] = {
    "add": add,
    "list": list_,
    "start": start,
    "done": done,
    "cancel": cancel,
    "describe": describe,
    "subject": subject,
}

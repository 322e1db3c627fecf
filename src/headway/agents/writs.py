"""Running writs: slash commands that an agent wrote into its text. Each answers in a frame of its own."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from headway.actions import finding, schedules, todos, views
from headway.actions.schedules import Timing
from headway.agents.roles import Role
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.framing import frame, inline
from headway.ledger.schedule import Schedule
from headway.ledger.scope import TENANT_WIDE, Scope, Selection
from headway.ledger.todo import OPEN, Change, Draft, Todo
from headway.ledger.writ_parser import Writ, parse
from headway.storage import schedule_store
from headway.storage.transaction import Transaction

LISTED = 50
TENANT_WIDE_FLAG = "--tenant-wide"
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
WRITS_LIMIT = 200  # in one text, which is one transaction


class Spoken(NamedTuple):
    """What came of a text with writs in it."""

    output: str
    visible: str


class Hands(NamedTuple):
    """What else writs may need: a way to have agents do things. Where nobody runs agents there is none."""

    agent_result: Callable[[int], list[str]] | None = None  # what came of the nth /agent of a text


def run_text(tx: Transaction, scope: Scope, role: Role, text: str, hands: Hands | None = None) -> Spoken:
    """Run every writ of a finished text, in order; one that fails leaves the others alone."""
    parsed = parse(text)
    places = count()
    answers = [run(tx, scope, role, writ, hands or Hands(), places) for writ in parsed.writs[:WRITS_LIMIT]]
    if more := len(parsed.writs) - len(answers):
        answers.append(frame("/todo", [f"ERR: at most {WRITS_LIMIT} writs in one text; the last {more} did not run"], "END TODO"))
    return Spoken("\n".join(answers), parsed.visible)


def run(tx: Transaction, scope: Scope, role: Role, writ: Writ, hands: Hands, places: Iterator[int]) -> str:
    """The frame that answers a writ. Whatever it did is undone if it fails."""
    if writ.word == "todo":
        return todo_writ(tx, scope, role, writ)
    if writ.word == "schedule":
        return schedule_writ(tx, scope, role, writ)
    if not writ.complete:
        return frame("/parallel", ["ERR: missing /endparallel terminator"], "END AGENT")
    return "\n".join(agent_frame(role, order, hands, next(places)) for order in orders_of(writ))


def first_word(text: str) -> str:
    return inline(text.partition(" ")[0], 60)


class Order(NamedTuple):
    """/agent NAME TASK"""

    agent: str
    task: str


def orders_of(writ: Writ) -> list[Order]:
    """The one of /agent, or one per line of a /parallel block."""
    if writ.word not in ("agent", "parallel") or not writ.complete:
        return []
    lines = [line.strip().removeprefix("/agent ") for line in (writ.body or "").split("\n") if line.strip()]
    calls = [writ.rest] if writ.word == "agent" else lines or [""]
    return [Order(agent, task.strip()) for agent, _, task in (call.strip().partition(" ") for call in calls)]


def agent_frame(role: Role, order: Order, hands: Hands, place: int) -> str:
    if "agents" not in role.writs:
        lines = [f"ERR: the role {role.name} needs the grant `agents` for this"]
    elif hands.agent_result is None:
        lines = ["ERR: /agent is not available here"]
    else:
        lines = hands.agent_result(place)
    return frame(f"/agent {inline(order.agent, 60)}".rstrip(), lines, "END AGENT")


def schedule_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
    """/schedule NAME CRON|every D: TEXT · /schedule list · /schedule rm NAME"""
    try:
        if "schedules" not in role.writs:
            raise Invalid(f"the role {role.name} needs the grant `schedules` for this")
        lines = tx.attempt(lambda tx: schedule_lines(tx, scope, writ.rest))
    except HeadwayError as error:
        lines = [f"ERR: {inline(str(error))}"]
    return frame(f"/schedule {first_word(writ.rest)}".rstrip(), lines, "END SCHEDULE")


def schedule_lines(tx: Transaction, scope: Scope, rest: str) -> list[str]:
    verb, _, name = rest.partition(" ")
    if rest == "list":
        known = schedule_store.page(tx, scope.tenant_id, LISTED)
        return [schedule_line(one) for one in known] or ["no schedules"]
    if verb == "rm" and name.strip() and ":" not in name:
        schedules.remove(tx, scope.tenant_id, name.strip())
        return [f"removed {inline(name.strip())}"]
    head, colon, content = rest.partition(": ")
    name, _, when = head.strip().partition(" ")
    if not colon or not when.strip():
        raise Invalid("write it as NAME CRON: TEXT, or NAME every 30m: TEXT")
    if not scope.conversation_id:
        raise Invalid("a schedule needs a conversation to speak in")
    work = {"message": {"conversation_id": scope.conversation_id, "content": content.strip()}}
    return [schedule_line(schedules.put(tx, scope.tenant_id, name, timing_of(when.strip()), work))]


def timing_of(when: str) -> Timing:
    found = re.fullmatch(r"every (\d{1,9})(s|m|h|d)", when)
    return Timing(every_ms=int(found[1]) * UNITS_MS[found[2]]) if found else Timing(cron=when)


def schedule_line(one: Schedule) -> str:
    when = one.cron or f"every {one.every_ms // 1000}s"
    return f"{inline(one.name)} [{'paused' if one.paused else 'active'}] {inline(when)}"


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
    first, _, subject = rest.partition(" ")
    tenant_wide = first == TENANT_WIDE_FLAG
    home = scope.home(tenant_wide=tenant_wide).conversation_id
    words = subject.strip() if tenant_wide else rest
    draft = Draft(words, (body or "").strip("\n"), agent_id=scope.agent_id, conversation_id=home)
    return [f"added {line_of(todos.add(tx, scope.tenant_id, draft))}"]


def list_(tx: Transaction, scope: Scope, _rest: str, _body: str | None) -> list[str]:
    return open_todos(tx, scope) or ["no open todos"]


def open_todos(tx: Transaction, scope: Scope) -> list[str]:
    """The counts and the open rows, as writs and the delegation envelope show them; nothing if there are none. They are the rows
    that `GET /v1/todos` and `todo_list` give for the conversation."""
    listed = views.todo_list(tx, scope.tenant_id, Selection(scope.conversation_id, statuses=OPEN), LISTED)
    going, waiting = listed.counts["in_progress"], listed.counts["pending"]
    if not going + waiting:
        return []
    more = going + waiting - len(listed.todos)
    return [
        f"{going + waiting} open ({going} in progress, {waiting} pending):",
        *map(line_of, listed.todos),
        *([f"… and {more} more"] if more > 0 else []),
    ]


def line_of(todo: Todo) -> str:
    marker = "▶ " if todo.status == "in_progress" else ""
    suffix = " (tenant-wide)" if todo.conversation_id == TENANT_WIDE else ""
    return f"{marker}#{todo.id} [{todo.status}] {inline(todo.subject)}{suffix}"


def start(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [line_of(todos.start(tx, scope.tenant_id, finding.meant(tx, scope, rest).id))]


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

"""Run writs, which are slash commands in an agent's text. Each is answered in a frame."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from headway.actions import references, schedules, todos, views
from headway.actions.schedules import Timing
from headway.agents.roles import Role
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.framing import format_frame, format_inline
from headway.ledger.schedule import Schedule
from headway.ledger.scope import TENANT_WIDE, Scope, Selection
from headway.ledger.todo import OPEN_STATUSES, Change, Draft, Todo
from headway.ledger.writ_parser import Writ, parse
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction

LIST_LIMIT = 50
TENANT_WIDE_FLAG = "--tenant-wide"
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
WRITS_LIMIT = 200  # per text, which is one transaction


class WritOutcome(NamedTuple):
    """The output of a text's writs, and the text without them."""

    output: str
    visible: str


class AgentAccess(NamedTuple):
    """Access to sub-agents for writs. Empty where no agents run."""

    agent_result: Callable[[int], list[str]] | None = None  # the result of the nth /agent call in the text


def run_text(tx: Transaction, scope: Scope, role: Role, text: str, hands: AgentAccess | None = None) -> WritOutcome:
    """Run all writs of a finished text, in order. A writ that fails does not affect the others."""
    parsed = parse(text)
    places = count()
    answers = [run_writ(tx, scope, role, writ, hands or AgentAccess(), places) for writ in parsed.writs[:WRITS_LIMIT]]
    if more := len(parsed.writs) - len(answers):
        answers.append(
            format_frame("/todo", [f"ERR: at most {WRITS_LIMIT} writs in one text; the last {more} did not run"], "END TODO")
        )
    return WritOutcome("\n".join(answers), parsed.visible)


def run_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ, hands: AgentAccess, places: Iterator[int]) -> str:
    """Run one writ and render the frame that answers it. If it fails, its changes are rolled back."""
    if writ.word == "todo":
        return run_todo_writ(tx, scope, role, writ)
    if writ.word == "schedule":
        return run_schedule_writ(tx, scope, role, writ)
    if not writ.complete:
        return format_frame("/parallel", ["ERR: missing /endparallel terminator"], "END AGENT")
    return "\n".join(render_agent_frame(role, order, hands, next(places)) for order in parse_agent_calls(writ))


def format_first_word(text: str) -> str:
    return format_inline(text.partition(" ")[0], 60)


class AgentCall(NamedTuple):
    """One sub-agent call: `/agent NAME TASK`."""

    agent: str
    task: str


def parse_agent_calls(writ: Writ) -> list[AgentCall]:
    """Return the call of an /agent writ, or one call per line of a /parallel block."""
    if writ.word not in ("agent", "parallel") or not writ.complete:
        return []
    lines = [line.strip().removeprefix("/agent ") for line in (writ.body or "").split("\n") if line.strip()]
    calls = [writ.rest] if writ.word == "agent" else lines or [""]
    return [AgentCall(agent, task.strip()) for agent, _, task in (call.strip().partition(" ") for call in calls)]


def render_agent_frame(role: Role, order: AgentCall, hands: AgentAccess, place: int) -> str:
    if "agents" not in role.writs:
        lines = [f"ERR: the role {role.name} needs the grant `agents` for this"]
    elif hands.agent_result is None:
        lines = ["ERR: /agent is not available here"]
    else:
        lines = hands.agent_result(place)
    return format_frame(f"/agent {format_inline(order.agent, 60)}".rstrip(), lines, "END AGENT")


def run_schedule_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
    """Run `/schedule NAME CRON|every D: TEXT`, `/schedule list` or `/schedule rm NAME`."""
    try:
        if "schedules" not in role.writs:
            raise Invalid(f"the role {role.name} needs the grant `schedules` for this")
        lines = tx.attempt(lambda tx: run_schedule_verb(tx, scope, writ.rest))
    except HeadwayError as error:
        lines = [f"ERR: {format_inline(str(error))}"]
    return format_frame(f"/schedule {format_first_word(writ.rest)}".rstrip(), lines, "END SCHEDULE")


def run_schedule_verb(tx: Transaction, scope: Scope, rest: str) -> list[str]:
    verb, _, name = rest.partition(" ")
    if rest == "list":
        known = schedule_store.list_page(tx, scope.tenant_id, LIST_LIMIT)
        return [format_schedule(one) for one in known] or ["no schedules"]
    if verb == "rm" and name.strip() and ":" not in name:
        schedules.remove(tx, scope.tenant_id, name.strip())
        return [f"removed {format_inline(name.strip())}"]
    head, colon, content = rest.partition(": ")
    name, _, when = head.strip().partition(" ")
    if not colon or not when.strip():
        raise Invalid("write it as NAME CRON: TEXT, or NAME every 30m: TEXT")
    if not scope.conversation_id:
        raise Invalid("a schedule needs a conversation to post in")
    work = {"message": {"conversation_id": scope.conversation_id, "content": content.strip()}}
    return [format_schedule(schedules.put(tx, scope.tenant_id, name, parse_timing(when.strip()), work))]


def parse_timing(when: str) -> Timing:
    found = re.fullmatch(r"every (\d{1,9})(s|m|h|d)", when)
    return Timing(every_ms=int(found[1]) * UNITS_MS[found[2]]) if found else Timing(cron=when)


def format_schedule(one: Schedule) -> str:
    when = one.cron or f"every {one.every_ms // 1000}s"
    return f"{format_inline(one.name)} [{'paused' if one.paused else 'active'}] {format_inline(when)}"


def run_todo_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
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
        lines = [f"ERR: {format_inline(str(error))}"]
    return format_frame(head, lines, "END TODO")


def add_todo(tx: Transaction, scope: Scope, rest: str, body: str | None) -> list[str]:
    first, _, subject = rest.partition(" ")
    tenant_wide = first == TENANT_WIDE_FLAG
    home = scope.home(tenant_wide=tenant_wide).conversation_id
    words = subject.strip() if tenant_wide else rest
    draft = Draft(words, (body or "").strip("\n"), agent_id=scope.agent_id, conversation_id=home)
    return [f"added {format_todo(todos.add(tx, scope.tenant_id, draft))}"]


def list_todos(tx: Transaction, scope: Scope, _rest: str, _body: str | None) -> list[str]:
    return render_open_todos(tx, scope) or ["no open todos"]


def render_open_todos(tx: Transaction, scope: Scope) -> list[str]:
    """Render the counts and the open todos for writs and the delegation envelope; empty if there are none.

    These are the same rows that `GET /v1/todos` and `todo_list` return for the conversation.
    """
    listed = views.get_todo_list(tx, scope.tenant_id, Selection(scope.conversation_id, statuses=OPEN_STATUSES), LIST_LIMIT)
    going, waiting = listed.counts["in_progress"], listed.counts["pending"]
    if not going + waiting:
        return []
    more = going + waiting - len(listed.todos)
    return [
        f"{going + waiting} open ({going} in progress, {waiting} pending):",
        *map(format_todo, listed.todos),
        *([f"… and {more} more"] if more > 0 else []),
    ]


def format_todo(todo: Todo) -> str:
    marker = "▶ " if todo.status == "in_progress" else ""
    suffix = " (tenant-wide)" if todo.conversation_id == TENANT_WIDE else ""
    return f"{marker}#{todo.id} [{todo.status}] {format_inline(todo.subject)}{suffix}"


def start_todo(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [format_todo(todos.start(tx, scope.tenant_id, references.resolve_todo(tx, scope, rest).id))]


def complete_todo(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [format_todo(todos.end(tx, scope.tenant_id, references.resolve_todo(tx, scope, rest).id, "completed"))]


def cancel_todo(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    return [format_todo(todos.end(tx, scope.tenant_id, references.resolve_todo(tx, scope, rest).id, "canceled"))]


def describe_todo(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    reference, text = split_reference(rest)
    todo = references.resolve_todo(tx, scope, reference)
    return [format_todo(todos.change(tx, scope.tenant_id, todo.id, Change(description=text)))]


def rename_todo(tx: Transaction, scope: Scope, rest: str, _body: str | None) -> list[str]:
    reference, text = split_reference(rest)
    todo = references.resolve_todo(tx, scope, reference)
    return [format_todo(todos.change(tx, scope.tenant_id, todo.id, Change(subject=text)))]


def split_reference(rest: str) -> tuple[str, str]:
    """Split `ID: TEXT` at the first colon that is followed by a space."""
    reference, colon, text = rest.partition(": ")
    if not colon or not text.strip():
        raise Invalid("write it as ID: TEXT")
    return reference, text.strip()


VERBS: dict[str, Callable[[Transaction, Scope, str, str | None], list[str]]] = {
    "add": add_todo,
    "list": list_todos,
    "start": start_todo,
    "done": complete_todo,
    "cancel": cancel_todo,
    "describe": describe_todo,
    "subject": rename_todo,
}

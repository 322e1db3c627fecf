"""Run writs, which are slash commands in an agent's text. Each is answered in a frame."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.todos import references, todo_lists, todos
from headway.actions.turns import plan
from headway.agents.instructions.roles import Role
from headway.ledger.errors import ChecksRequired, HeadwayError, Invalid
from headway.ledger.framing import format_frame, format_inline
from headway.ledger.job import Schedule
from headway.ledger.parsing import todo_fields
from headway.ledger.parsing.writ_parser import QuoteCheck, Writ, is_never_quoted, list_agent_lines, parse
from headway.ledger.scope import TENANT_WIDE, Scope, Selection
from headway.ledger.todo import OPEN_STATUSES, Change, Draft, Todo
from headway.storage.stores import schedules as schedule_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import AgentRights, Transaction

LIST_LIMIT = 50
TENANT_WIDE_FLAG = "--tenant-wide"
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
ENDS = {"todo": "END TODO", "schedule": "END SCHEDULE"}
WRITS_LIMIT = 200  # per text, which is one transaction
NUMBER_AND_OUTCOME = re.compile(r"(#?\d+): +(\S.*)", re.DOTALL)


class WritOutcome(NamedTuple):
    """The output of a text's writs, and the text without them."""

    output: str
    visible: str


class AgentAccess(NamedTuple):
    """The parts of a run that its writs can reach. Empty where no agents run."""

    agent_result: Callable[[int], list[str]] | None = None  # the result of the nth /agent call in the text
    plans: bool = False  # /todo add and /todo list work on the turn's plan, for models that cannot call the plan tools
    is_quoted: QuoteCheck = is_never_quoted  # whether the run has read the line, which is then text
    find_refusal: Callable[[Writ], str] = lambda _writ: ""  # why the policy does not let the writ run
    refusals: Mapping[int, str] = {}  # why the checks of these todos may not run
    rights: AgentRights = AgentRights(lambda: "")


def run_text(tx: Transaction, scope: Scope, role: Role, text: str, access: AgentAccess | None = None) -> WritOutcome:
    """Run all writs of a finished text that it does not quote, in order. A writ that fails does not affect the others."""
    access = access or AgentAccess()
    parsed = parse(text, access.is_quoted)
    own_writs = [writ for writ in parsed.writs if not writ.is_quoted]
    indexes = count()
    tx.agent = access.rights
    try:
        answers = [run_writ(tx, scope, role, writ, access, indexes) for writ in own_writs[:WRITS_LIMIT]]
    finally:
        tx.agent = None
    if more := len(own_writs) - len(answers):
        answers.append(
            format_frame("/todo", [f"ERR: at most {WRITS_LIMIT} writs in one text; the last {more} did not run"], "END TODO")
        )
    return WritOutcome("\n".join(answers), parsed.visible)


def run_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ, access: AgentAccess, indexes: Iterator[int]) -> str:
    """Run one writ and render the frame that answers it. If it fails, its changes are rolled back."""
    if writ.word in ENDS and (refusal := access.find_refusal(writ)):
        return format_frame(f"/{writ.word}", [f"ERR: {refusal}"], ENDS[writ.word])
    if writ.word == "todo":
        return run_todo_writ(tx, scope, role, writ, access)
    if writ.word == "schedule":
        return run_schedule_writ(tx, scope, role, writ)
    if not writ.complete:
        return format_frame("/parallel", ["ERR: missing /endparallel terminator"], "END AGENT")
    return "\n".join(render_agent_frame(role, agent_call, access, next(indexes)) for agent_call in parse_agent_calls(writ))


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
    calls = [writ.rest] if writ.word == "agent" else list_agent_lines(writ.body or "") or [""]
    return [AgentCall(agent, task.strip()) for agent, _, task in (call.partition(" ") for call in calls)]


def render_agent_frame(role: Role, agent_call: AgentCall, access: AgentAccess, index: int) -> str:
    if "agents" not in role.writs:
        lines = [f"ERR: the role {role.name} needs the grant `agents` for this"]
    elif access.agent_result is None:
        lines = ["ERR: /agent is not available here"]
    else:
        lines = access.agent_result(index)
    return format_frame(f"/agent {format_inline(agent_call.agent, 60)}".rstrip(), lines, "END AGENT")


def run_schedule_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ) -> str:
    """Run `/schedule NAME CRON|every D: TEXT`, `/schedule list` or `/schedule rm NAME`."""
    try:
        if "schedules" not in role.writs:
            raise Invalid(f"the role {role.name} needs the grant `schedules` for this")
        lines = tx.attempt(lambda tx: run_schedule_verb(tx, scope, writ.rest))
    except HeadwayError as error:
        lines = [f"ERR: {format_inline(str(error))}"]
    return format_frame(f"/schedule {format_first_word(writ.rest)}".rstrip(), lines, "END SCHEDULE")


def run_schedule_verb(tx: Transaction, scope: Scope, command: str) -> list[str]:
    verb, _, name = command.partition(" ")
    if command == "list":
        page = schedule_store.list_schedule_page(tx, scope.tenant_id, LIST_LIMIT)
        return [format_schedule(schedule) for schedule in page] or ["no schedules"]
    if verb == "rm" and name.strip() and ":" not in name:
        schedules.remove_schedule(tx, scope.tenant_id, name.strip())
        return [f"removed {format_inline(name.strip())}"]
    head, colon, content = command.partition(": ")
    name, _, when = head.strip().partition(" ")
    if not colon or not when.strip():
        raise Invalid("write it as NAME CRON: TEXT, or NAME every 30m: TEXT")
    if not scope.conversation_id:
        raise Invalid("a schedule needs a conversation to post in")
    work = {"message": {"conversation_id": scope.conversation_id, "content": content.strip()}}
    return [format_schedule(schedules.put(tx, scope.tenant_id, name, parse_timing(when.strip()), work))]


def parse_timing(when: str) -> Timing:
    match = re.fullmatch(r"every (\d{1,9})(s|m|h|d)", when)
    return Timing(every_ms=int(match[1]) * UNITS_MS[match[2]]) if match else Timing(cron=when)


def format_schedule(schedule: Schedule) -> str:
    when = schedule.cron or f"every {schedule.every_ms // 1000}s"
    return f"{format_inline(schedule.name)} [{'paused' if schedule.paused else 'active'}] {format_inline(when)}"


def run_todo_writ(tx: Transaction, scope: Scope, role: Role, writ: Writ, access: AgentAccess) -> str:
    """Run a writ on the ledger. ChecksRequired propagates: the caller runs the checks, and then all writs of the text again."""
    verbs = PLAN_VERBS if access.plans and scope.turn_id else VERBS
    verb, _, arguments = writ.rest.partition(" ")
    head = f"/todo {verb}" if verb in verbs else "/todo"
    try:
        if "todos" not in role.writs:
            raise Invalid(f"the role {role.name} needs the grant `todos` for this")
        if not writ.complete:
            raise Invalid("missing /endtodo terminator")
        if verb not in verbs:
            raise Invalid(f"unknown verb; known: {', '.join(verbs)}")
        lines = tx.attempt(lambda tx: verbs[verb](tx, scope, arguments.strip(), writ.body))
    except ChecksRequired as error:
        if error.todo_id not in access.refusals:
            raise
        lines = [f"ERR: {format_inline(access.refusals[error.todo_id])}"]
    except HeadwayError as error:
        lines = [f"ERR: {format_inline(str(error))}"]
    return format_frame(head, lines, "END TODO")


def add_todo(tx: Transaction, scope: Scope, arguments: str, body: str | None) -> list[str]:
    first, _, remainder = arguments.partition(" ")
    tenant_wide = first == TENANT_WIDE_FLAG
    home = scope.home(tenant_wide=tenant_wide).conversation_id
    subject = remainder.strip() if tenant_wide else arguments
    subject, fields = todo_fields.cut_words(subject)
    draft = Draft(subject, (body or "").strip("\n"), agent_id=scope.agent_id, conversation_id=home, **fields)
    return [f"added {format_todo(todos.add_todo(tx, scope.tenant_id, draft))}"]


def add_plan_item(tx: Transaction, scope: Scope, subject: str, body: str | None) -> list[str]:
    item = plan.PlanItem(subject, (body or "").strip("\n"))
    return [f"added {format_todo(todo)}" for todo in plan.create_plan(tx, scope, scope.turn_id or "", [item]).todos]


def list_plan(tx: Transaction, scope: Scope, _arguments: str, _body: str | None) -> list[str]:
    plan = todo_store.list_by_turn(tx, scope.tenant_id, scope.turn_id or "")
    return [format_todo(todo) for todo in plan if not todo.ended][:LIST_LIMIT] or ["no open todos"]


def list_todos(tx: Transaction, scope: Scope, _arguments: str, _body: str | None) -> list[str]:
    return render_open_todos(tx, scope) or ["no open todos"]


def render_open_todos(tx: Transaction, scope: Scope) -> list[str]:
    """Render the counts and the open todos for writs and the delegation envelope; empty if there are none.

    These are the same rows that `GET /v1/todos` and `todo_list` return for the conversation.
    """
    page = todo_lists.get_todo_list(tx, scope.tenant_id, Selection(scope.conversation_id, statuses=OPEN_STATUSES), LIST_LIMIT)
    in_progress, pending = page.counts["in_progress"], page.counts["pending"]
    if not in_progress + pending:
        return []
    more = in_progress + pending - len(page.todos)
    return [
        f"{in_progress + pending} open ({in_progress} in progress, {pending} pending):",
        *map(format_todo, page.todos),
        *([f"… and {more} more"] if more > 0 else []),
    ]


def format_todo(todo: Todo) -> str:
    marker = "▶ " if todo.status == "in_progress" else ""
    suffix = " (tenant-wide)" if todo.conversation_id == TENANT_WIDE else ""
    fields = format_inline(todo_fields.format_words(todo))
    return f"{marker}#{todo.id} [{todo.status}] {format_inline(todo.subject)}{fields}{suffix}"


def start_todo(tx: Transaction, scope: Scope, reference: str, _body: str | None) -> list[str]:
    return [format_todo(todos.start_todo(tx, scope.tenant_id, references.resolve_todo(tx, scope, reference).id))]


def complete_todo(tx: Transaction, scope: Scope, arguments: str, _body: str | None) -> list[str]:
    """Complete a todo. After a number, an outcome may follow: `/todo done 12: sent`."""
    match = NUMBER_AND_OUTCOME.fullmatch(arguments)
    reference, outcome = (match[1], match[2]) if match else (arguments, None)
    todo = references.resolve_todo(tx, scope, reference)
    return [format_todo(todos.end_todo(tx, scope.tenant_id, todo.id, "completed", outcome))]


def cancel_todo(tx: Transaction, scope: Scope, reference: str, _body: str | None) -> list[str]:
    return [format_todo(todos.end_todo(tx, scope.tenant_id, references.resolve_todo(tx, scope, reference).id, "canceled"))]


def describe_todo(tx: Transaction, scope: Scope, arguments: str, _body: str | None) -> list[str]:
    reference, text = split_reference(arguments)
    todo = references.resolve_todo(tx, scope, reference)
    return [format_todo(todos.change_todo(tx, scope.tenant_id, todo.id, Change(description=text)))]


def rename_todo(tx: Transaction, scope: Scope, arguments: str, _body: str | None) -> list[str]:
    reference, text = split_reference(arguments)
    todo = references.resolve_todo(tx, scope, reference)
    return [format_todo(todos.change_todo(tx, scope.tenant_id, todo.id, Change(subject=text)))]


def split_reference(arguments: str) -> tuple[str, str]:
    """Split `ID: TEXT` at the first colon that is followed by a space."""
    reference, colon, text = arguments.partition(": ")
    if not colon or not text.strip():
        raise Invalid("write it as ID: TEXT")
    return reference, text.strip()


TodoVerb = Callable[[Transaction, Scope, str, str | None], list[str]]
VERBS: dict[str, TodoVerb] = {
    "add": add_todo,
    "list": list_todos,
    "start": start_todo,
    "done": complete_todo,
    "cancel": cancel_todo,
    "describe": describe_todo,
    "subject": rename_todo,
}
PLAN_VERBS: dict[str, TodoVerb] = {**VERBS, "add": add_plan_item, "list": list_plan}

"""Explains why a todo, turn, goal or job is in its present state: the events and decisions that led there, from stored rows.

The log is read through indexes, at most `EVENTS_LIMIT` events for one explanation. The last line says what the present state is and
what would change it.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.actions import conversations, goal_views, goals, jobs, todos
from headway.actions.inspection import present_states
from headway.actions.inspection.event_sentences import SENTENCES, WhyLine, describe_event, describe_events, format_actor
from headway.actions.inspection.journal_sentences import describe_entry
from headway.actions.inspection.todo_sentences import describe_changes, describe_last_end, describe_plan
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.job import Job
from headway.ledger.tenancy import Turn
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.ledger.todo import Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import goals as goal_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores.events import CausedEvent
from headway.storage.transaction import Transaction

WhyKind = Literal["todo", "turn", "goal", "job"]

SCREEN_LINES: Final = 25
EVENTS_LIMIT: Final = 5_000
HALTS_LIMIT: Final = 50
ENTRIES_LIMIT: Final = 1_000
DEPENDENCIES_LIMIT: Final = 10

TURN_KINDS: Final = (
    "todo_changed",
    *sorted(SENTENCES.keys() - {"halted", "unhalted", "schedule_changed", "job_dead", "comment_changed"}),
)
TODO_KINDS: Final = ("todo_changed", "checks_ran", "comment_changed")
TURN_KINDS_OF_TODO: Final = ("refused", "turn_paused", "turn_finished", "turn_failed", "turn_canceled")
PERSON_KINDS: Final = ("approval_requested", "approval_decided", "question_asked", "question_answered")
GOAL_KINDS: Final = ("journal_appended", "refused", "checks_ran", *PERSON_KINDS)
JOB_KINDS: Final = ("job_dead", "job_recovered", "schedule_changed")


class Explanation(NamedTuple):
    """The lines of an explanation, oldest first. `left_out` counts the lines that did not fit on a screen."""

    lines: list[WhyLine]
    left_out: int = 0

    def as_json(self) -> dict[str, Any]:
        return {"why": [line.as_json() for line in self.lines], "left_out": self.left_out}


class WhyReference(NamedTuple):
    kind: WhyKind
    id: str


def explain(tx: Transaction, tenant_id: int, kind: WhyKind, reference: str, limit: int = SCREEN_LINES) -> Explanation:
    """Explain the present state of one todo, turn, goal or job of the tenant. `limit` is the number of lines."""
    match kind:
        case "todo":
            todo = todos.get(tx, tenant_id, parse_number(kind, reference))
            lines, end = explain_todo(tx, tenant_id, todo), present_states.describe_todo(tx, tenant_id, todo)
        case "turn":
            turn = conversations.get_turn(tx, tenant_id, reference)
            lines, end = explain_turn(tx, tenant_id, turn), present_states.describe_turn(tx, tenant_id, turn)
        case "goal":
            goal_id = parse_number(kind, reference)
            end = goal_views.explain(tx, tenant_id, goal_id)
            lines = explain_goal(tx, tenant_id, goal_id)
        case "job":
            job = jobs.get(tx, tenant_id, reference)
            lines, end = explain_job(tx, tenant_id, job), present_states.describe_job(tx, tenant_id, job)
    return select_lines(lines, WhyLine(None, tx.now, to_one_line(end)), limit)


def select_lines(lines: Sequence[WhyLine], end: WhyLine, limit: int) -> Explanation:
    """Keep the first line, then the newest key lines, then the newest details, in order of time. The end is always kept."""
    if len(lines) < limit:
        return Explanation([*lines, end])
    indexes = sorted(range(len(lines)), key=lambda index: (index > 0, not lines[index].is_key, -index))
    kept = sorted(indexes[: max(limit - 1, 1)])
    return Explanation([*(lines[index] for index in kept), end], len(lines) - len(kept))


def find_reference(tx: Transaction, tenant_id: int, reference: str) -> WhyReference:
    """Parse `todo:12`, `goal:3`, `turn:ID`, `job:ID` or the bare id of a turn or a job."""
    kind, separator, rest = reference.partition(":")
    if separator and kind in get_args(WhyKind):
        return WhyReference(kind, rest)  # type: ignore[arg-type]
    digits = reference.removeprefix("#")
    if digits.isascii() and digits.isdigit():
        raise Invalid(f"{digits[:20]} can be a todo or a goal. Write todo:{digits[:20]} or goal:{digits[:20]}.")
    if conversation_store.find_turn(tx, tenant_id, reference):
        return WhyReference("turn", reference)
    if jobs.find(tx, tenant_id, reference):
        return WhyReference("job", reference)
    raise NotFound(f"No turn or job {reference[:80]!r}.")


def parse_number(kind: WhyKind, reference: str) -> int:
    digits = reference.removeprefix("#")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or int(digits) > MAX_INTEGER:
        raise Invalid(f"{reference[:60]!r} is not the id of a {kind}; ids look like 14 or #14.")
    return int(digits)


def read_events(
    tx: Transaction,
    tenant_id: int,
    about: Literal["turn_id", "subject"],
    value: str,
    kinds: Sequence[str],
    limit: int = EVENTS_LIMIT,
    since: int = MAX_INTEGER,
) -> tuple[list[CausedEvent], list[WhyLine]]:
    """Return the newest events and, if there are more than `limit`, a line that says from when on the list is complete. The same if
    events since a time, when what they are about was created, were deleted because of their age."""
    window = event_store.list_newest(tx, tenant_id, about, value, kinds, limit)
    bounds = event_store.get_bounds(tx, tenant_id)
    if since <= bounds.pruned_at and not (window.events and window.events[0].at <= since):
        note = f"Events up to number {bounds.pruned} were deleted because of their age (HEADWAY_RETENTION)."
        return window.events, [WhyLine(None, bounds.pruned_at, note)]
    if not window.start or not window.events:
        return window.events, []
    note = f"Only the newest {limit:,} events were read. The list is complete from event {window.start} on."
    return window.events, [WhyLine(None, window.events[0].at, note)]


# Todos


def explain_todo(tx: Transaction, tenant_id: int, todo: Todo) -> list[WhyLine]:
    events, notes = read_events(tx, tenant_id, "subject", f"todo:{todo.id}", TODO_KINDS, since=todo.created_at)
    changes = [event for event in events if event.kind == "todo_changed"]
    lines = [*notes, *describe_changes(changes)]
    lines += describe_events(event for event in events if event.kind != "todo_changed")
    for dependency_id in todo.depends_on[:DEPENDENCIES_LIMIT]:
        dependency = todo_store.find(tx, tenant_id, dependency_id)
        if dependency and dependency.ended:
            ends, _ = read_events(tx, tenant_id, "subject", f"todo:{dependency_id}", ("todo_changed",), HALTS_LIMIT)
            lines.append(describe_last_end(dependency, ends))
    if todo.turn_id is not None:
        turn_events, _ = read_events(tx, tenant_id, "turn_id", todo.turn_id, TURN_KINDS_OF_TODO)
        lines += describe_events(event for event in turn_events if not todo.ended or event.at <= todo.completed_at)
    return sort_lines(lines)


# Turns


def explain_turn(tx: Transaction, tenant_id: int, turn: Turn) -> list[WhyLine]:
    events, notes = read_events(tx, tenant_id, "turn_id", turn.id, TURN_KINDS, since=turn.started_at)
    request = next((event for event in events if event.kind == "message" and not notes), None)  # the first is what the turn answers
    lines = [*notes, *describe_plan([event for event in events if event.kind == "todo_changed"])]
    lines += describe_events(event for event in events if event is not request and event.kind != "todo_changed")
    if request:
        content = json.loads(request.data)["content"]
        lines.append(WhyLine(request.seq, request.at, to_one_line(f"It answers: “{content[:200]}”"), is_key=False))
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    lines += list_halts(tx, tenant_id, turn.started_at, turn.ended_at or tx.now)
    return sort_lines([*lines, *(list_job_events(tx, tenant_id, run.id) if run else ())])


def list_halts(tx: Transaction, tenant_id: int, since: int, until: int) -> list[WhyLine]:
    """List the halts that began or ended while something was under way."""
    events, _ = read_events(tx, tenant_id, "subject", "halt", ("halted", "unhalted"), HALTS_LIMIT)
    return describe_events(event for event in events if since <= event.at <= until)


# Goals


def explain_goal(tx: Transaction, tenant_id: int, goal_id: int) -> list[WhyLine]:
    goal = goals.get(tx, tenant_id, goal_id)
    events, _ = read_events(tx, tenant_id, "subject", f"goal:{goal_id}", GOAL_KINDS)
    journaled = {json.loads(event.data)["entry"]["n"]: event for event in events if event.kind == "journal_appended"}
    lines = describe_events(event for event in events if event.kind != "journal_appended")
    entries = goal_store.list_entries(tx, tenant_id, goal_id, ENTRIES_LIMIT, MAX_INTEGER)
    for entry in entries:
        event = journaled.get(entry.n)
        actor = f" ({format_actor(event.actor).strip()})" if event and event.actor else ""
        sentence = describe_entry({"kind": entry.kind, "data": json.loads(entry.data)})
        is_key = entry.kind not in ("cycle_began", "sub_goal_started")
        lines.append(WhyLine(event.seq if event else None, entry.at, f"{sentence}{to_one_line(actor)}", is_key))
    lines += list_halts(tx, tenant_id, goal.created_at, goal.ended_at or tx.now)
    return sort_lines([*lines, *(list_job_events(tx, tenant_id, goal.run_id) if goal.run_id else ())])


def explain_sub_goal(tx: Transaction, tenant_id: int, goal: str, sub_goal_id: int) -> Explanation:
    """Explain in one line what holds up a sub-goal."""
    text = goal_views.explain(tx, tenant_id, parse_number("goal", goal), sub_goal_id)
    return Explanation([WhyLine(None, tx.now, to_one_line(text))])


# Jobs


def explain_job(tx: Transaction, tenant_id: int, job: Job) -> list[WhyLine]:
    """Explain a job by its own events, its failures, and what it works on: a turn, a goal or a sub-agent of either."""
    run = run_store.find(tx, tenant_id, job.id)
    lines = [WhyLine(None, job.created_at, f"The job was created: {present_states.describe_work(job, run)}.")]
    lines += list_job_events(tx, tenant_id, job.id)
    lines += [
        WhyLine(None, job.updated_at, to_one_line(f"Failure {number}: {error[:200]}"), is_key=False)
        for number, error in enumerate(json.loads(job.errors), 1)
    ]
    if run and run.is_main and run.goal_id is not None:
        lines += explain_goal(tx, tenant_id, run.goal_id)
    elif run and run.turn_id is not None:
        turn = conversations.get_turn(tx, tenant_id, run.turn_id)
        lines += [line for line in explain_turn(tx, tenant_id, turn) if run.answers_turn or run.id in line.text]
    else:
        lines += list_halts(tx, tenant_id, job.created_at, job.updated_at if job.over else tx.now)
    return sort_lines(lines)


def list_job_events(tx: Transaction, tenant_id: int, job_id: str) -> list[WhyLine]:
    events, _ = read_events(tx, tenant_id, "subject", f"job:{job_id}", JOB_KINDS)
    started = next((event for event in events if event.kind == "schedule_changed"), None)  # later ones repeat it
    return [line for event in events if event.kind != "schedule_changed" or event is started if (line := describe_event(event))]


def sort_lines(lines: Sequence[WhyLine]) -> list[WhyLine]:
    """Sort by time, events of one transaction by number, and drop repeated events."""
    by_event = {(line.seq or (line.at, line.text)): line for line in lines}
    return sorted(by_event.values(), key=lambda line: (line.at, line.seq or 0))

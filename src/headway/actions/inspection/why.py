"""Explanations of how a todo, turn, goal or job got into its state, from the log and the present rows."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.actions.goals import goals, views
from headway.actions.inspection.sentences import (
    EVENT_SENTENCES,
    WhyLine,
    describe_entry,
    describe_event,
    describe_events,
    excerpt,
    format_actor,
    format_name,
)
from headway.actions.installation import halts
from headway.actions.runs import jobs, waiting
from headway.actions.todos import claims, finding, todos
from headway.actions.turns import turns
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.events import restore_texts
from headway.ledger.job import LEASE_MS, NEVER, Job
from headway.ledger.run import Run
from headway.ledger.tenancy import Turn
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.ledger.todo import ENDED_STATUSES, Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import goals as goal_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores import worker_leases
from headway.storage.stores.events import CausedEvent
from headway.storage.transaction import Transaction

MENTION_LIMIT: Final = 5
HALT_ADVICE: Final = "All work is halted. Lift the halt with `headway unhalt`."
POOL_SPENT: Final = "The cost pool is spent. Work continues when the limit is raised or the 24-hour window moves on."
NO_PROCESS: Final = "No process is running jobs. Start `headway serve` or `headway worker`."


def format_moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# Todos


def describe_todo(tx: Transaction, tenant_id: int, todo: Todo) -> str:
    name = f"Todo #{todo.id} is {todo.status.replace('_', ' ')}"
    if todo.ended:
        return f"{name}. Set it back to pending to reopen it: `headway todo reopen {todo.id}`."
    if todo.turn_id is not None:
        return f"{name}. {describe_plan_item(tx, tenant_id, todo.turn_id)}"
    if todo.status == "in_progress":
        lease = claims.find_lease(tx, tenant_id, todo.id)
        if lease is None:
            return f"{name}, by agent {format_name(todo.agent_id)}. It changes when someone completes, cancels or returns it."
        if lease.expires_at <= tx.now:
            return f"{name}, but the lease of agent {format_name(lease.agent_id)} has expired. The next claim takes it over."
        holder = f"agent {format_name(lease.agent_id)} holds a lease until {format_moment(lease.expires_at)}"
        return f"{name}: {holder}. It changes when that agent ends it, or when another one claims it after that time."
    open_ones = [
        dependency
        for number in todo.depends_on
        if (dependency := todo_store.find_todo(tx, tenant_id, number)) and not dependency.ended
    ]
    if open_ones:
        names = ", ".join(f"#{one.id} “{excerpt(one.subject, 60)}” ({one.status})" for one in open_ones[:MENTION_LIMIT])
        more = f" and {len(open_ones) - MENTION_LIMIT} more" if len(open_ones) > MENTION_LIMIT else ""
        return f"{name} and blocked: it waits for {names}{more}. End these, or remove the dependency."
    return f"{name} and ready: it can be started or claimed now."


def describe_plan_item(tx: Transaction, tenant_id: int, turn_id: str) -> str:
    turn = conversation_store.find_turn(tx, tenant_id, turn_id)
    if turn is None or turn.ended:
        return (
            "The turn that planned it has ended, so no agent works on it. Complete it, cancel it, or ask for it in a new message."
        )
    return f"It is in the plan of turn {turn_id}, which is {turn.shown_status}. Its agent must end it before the turn can finish."


# Turns


def describe_turn(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    match turn.shown_status:
        case "waiting":
            return describe_wait(tx, tenant_id, turn)
        case "paused":
            return f"The turn is paused. {POOL_SPENT}"
        case "finished":
            return describe_outcome(tx, tenant_id, turn)
        case "failed":
            advice = f"Retry it with `headway admin job retry {run.id}`." if run else "Send a new message to try again."
            return f"The turn failed: {excerpt(run.result if run else '')} {advice}"
        case "canceled":
            return "The turn was canceled. Finished work was kept. Send a new message to continue."
    if run is None:
        return "The turn is driven by an agent loop outside Headway, which decides when it ends."
    job = job_store.find_job(tx, tenant_id, run.id)
    if obstacle := describe_obstacle(tx, job):
        return f"The turn is running. {obstacle}"
    children = run_store.list_unfinished_descendants(tx, tenant_id, run.id)
    if run.status == "waiting" and children:
        names = ", ".join(f"{format_name(child.role)} ({child.id})" for child in children[:MENTION_LIMIT])
        return f"The turn is running: its agent waits for {len(children)} sub-agents: {names}."
    return f"The turn is running: its agent has taken {run.iterations} of at most {run.limit} steps."


def describe_wait(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    wait = waiting.find_by_turn(tx, tenant_id, turn.id)
    if wait is None:
        return "The turn waits for a person."
    more = f" ({turn.waiting - 1} more wait)" if turn.waiting > 1 else ""
    advice = waiting.advise(**wait)
    return f"The turn waits for {wait['kind']} #{wait['id']}{more}. {advice}, or cancel the turn."


def describe_outcome(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    items = turns.list_incomplete(tx, tenant_id, turn.id)
    names = ", ".join(f"#{item['id']} “{excerpt(item['title'], 60)}”" for item in items[:MENTION_LIMIT])
    more = f" and {len(items) - MENTION_LIMIT} more" if len(items) > MENTION_LIMIT else ""
    left = f" Open items: {names}{more}. Continue the turn, or end them yourself." if items else ""
    match turn.outcome:
        case "drained":
            return f"The turn finished: every item of its plan was ended.{left}"
        case "incomplete":
            return f"The turn finished incomplete: its agent kept answering without a change to the plan.{left}"
        case "limit":
            return f"The turn finished at a limit on its steps or resubmissions.{left}"
        case "filtered":
            return f"The turn finished, because the model's provider withheld its answer.{left}"
    return f"The turn finished with an answer.{left}"


# Jobs


def describe_work(job: Job, run: Run | None) -> str:
    if run is None:
        payload = json.loads(job.payload)
        return (
            f"it calls the tool {format_name(payload.get('name'))}"
            if job.kind == "tool"
            else f"its kind is {format_name(job.kind)}"
        )
    if run.is_main:
        return f"it pursues goal #{run.goal_id}"
    if run.parent_run_id is None:
        return f"it answers turn {run.turn_id}"
    return f"it is a {format_name(run.role)}, a sub-agent of run {run.parent_run_id}"


def describe_job(tx: Transaction, tenant_id: int, job: Job) -> str:
    errors = json.loads(job.errors)
    match job.state:
        case "dead":
            reason = excerpt(errors[-1]) if errors else "it failed for good."
            advice = f"Retry it with `headway admin job retry {job.id}`, or delete it with `headway admin job rm {job.id}`."
            return f"The job is a dead letter: {reason} {advice}"
        case "completed" | "canceled":
            return f"The job is {job.state}. Nothing changes it any more."
    obstacle = describe_obstacle(tx, job)
    run = run_store.find_run(tx, tenant_id, job.id)
    if run and run.answers_turn and run.turn_id and (turn := conversation_store.find_turn(tx, tenant_id, run.turn_id)):
        return f"The job is {job.state}. {obstacle or describe_turn(tx, tenant_id, turn)}"
    if job.state == "delayed" and not obstacle:
        until = "something wakes it" if job.due_at >= NEVER else format_moment(job.due_at)
        return f"The job is delayed until {until}: it waits for a person, a sub-agent or budget."
    return f"The job is {job.state}. {obstacle}".rstrip()


def describe_obstacle(tx: Transaction, job: Job | None) -> str:
    """Describe what keeps a job that has not ended from running; empty if nothing does."""
    if halts.find_active(tx):
        return HALT_ADVICE
    if job is None:
        return ""
    if job.retry_at:
        error = excerpt(json.loads(job.errors)[-1])
        return f"Attempt {job.attempts} of {job.max_attempts} failed: {error} The next one starts at {format_moment(job.due_at)}."
    if job.state in ("queued", "running") and not worker_leases.has_live_process(tx, LEASE_MS):
        return NO_PROCESS
    return "It is queued: a process with a free slot takes it." if job.state == "queued" else ""


# Describes the changes of a todo, from the states that its events recorded.


State = dict[str, Any]


def describe_changes(events: Sequence[CausedEvent]) -> list[WhyLine]:
    """Describe each event by what it changed."""
    changes = [(event, json.loads(event.data)) for event in events]
    lines: list[WhyLine] = []
    old: State | None = None
    for event, data in changes:
        new: State = restore_texts(data, "todo", old)
        sentence, is_key = describe_change(old, new, data["change"], format_actor(event.actor))
        if sentence:
            lines.append(WhyLine(event.seq, event.at, to_one_line(sentence), is_key))
        old = new
    return lines


def describe_plan(events: Sequence[CausedEvent]) -> list[WhyLine]:
    """Describe how the items of a turn's plan were added, started and ended. These are details of the turn."""
    states: dict[int, State] = {}
    lines: list[WhyLine] = []
    for event in events:
        data = json.loads(event.data)
        old = states.get(data["todo"]["id"])
        new: State = restore_texts(data, "todo", old)
        states[new["id"]] = new
        by = format_actor(event.actor)
        if old is None:
            sentence = f"“{excerpt(new['subject'])}” became item #{new['id']} of the plan{by}."
        elif old["status"] != new["status"]:
            sentence = f"Item #{new['id']}{describe_status(old, new, by).removeprefix('It')}"
        else:
            continue
        lines.append(WhyLine(event.seq, event.at, to_one_line(sentence), is_key=False))
    return lines


def describe_change(old: State | None, new: State, change: str, by: str) -> tuple[str, bool]:
    """Return a sentence and whether it is a key step."""
    if change == "created":
        return (
            f"“{excerpt(new['subject'])}” was created{by or ' without a named author'} {describe_place(new)}{describe_waits(new)}.",
            True,
        )
    if old is None:
        return f"It was changed{by}; its status was {new['status']}.", True
    if old["status"] != new["status"]:
        return describe_status(old, new, by), True
    if old["depends_on"] != new["depends_on"]:
        return f"Its dependencies changed{by}: it {describe_waits(new).removeprefix(', ') or 'depends on nothing'}.", True
    if old["turn_id"] and new["turn_id"] and old["turn_id"] != new["turn_id"]:
        return f"It moved to turn {new['turn_id']}, which continues turn {old['turn_id']}{by}.", True
    if old["agent_id"] != new["agent_id"]:
        return f"It was given to agent {format_name(new['agent_id'])}{by}.", True
    fields = [name for name in new if name != "updated_at" and new[name] != old.get(name)]
    if len(fields) > 1 and "position" in fields:  # others may have moved it in the meantime; their event is not one of the todo
        fields.remove("position")
    return (f"Its {', '.join(fields).replace('_', ' ')} changed{by}.", False) if fields else ("", False)


def describe_place(todo: State) -> str:
    if todo["turn_id"]:
        return f"in the plan of turn {todo['turn_id']}"
    return f"in conversation {todo['conversation_id']}" if todo["conversation_id"] else "in the tenant's list"


def describe_waits(todo: State) -> str:
    return f", waits for {', '.join(f'#{number}' for number in todo['depends_on'])}" if todo["depends_on"] else ""


def describe_status(old: State, new: State, by: str) -> str:
    outcome = f": {excerpt(new['outcome'])}" if new["outcome"] and new["outcome"] != old["outcome"] else "."
    if new["status"] in ENDED_STATUSES:
        return f"It was {new['status']}{by}{outcome}"
    if old["status"] in ENDED_STATUSES:
        return f"It was reopened{by}: from {old['status']} to {new['status']}."
    if new["status"] == "in_progress":
        agent = f" as agent {format_name(new['agent_id'])}" if new["agent_id"] != old["agent_id"] else ""
        return f"It was started{by}{agent}."
    return f"It was set back from {old['status']} to {new['status']}{by}."


def describe_last_end(todo: Todo, events: Sequence[CausedEvent]) -> WhyLine:
    """Describe when a dependency ended."""
    ends = [event for event in events if json.loads(event.data)["todo"]["status"] == todo.status]
    earlier = [event for event in ends if event.at >= todo.completed_at]
    event = earlier[0] if earlier else None
    sentence = f"Dependency #{todo.id} “{excerpt(todo.subject)}” was {todo.status}{format_actor(event.actor if event else '')}."
    return WhyLine(event.seq if event else None, todo.completed_at, to_one_line(sentence))


# Explains why a todo, turn, goal or job is in its present state: the events and decisions that led there, from stored
# rows.


WhyKind = Literal["todo", "turn", "goal", "job"]

SCREEN_LINES: Final = 25
EVENTS_LIMIT: Final = 5_000
HALTS_LIMIT: Final = 50
ENTRIES_LIMIT: Final = 1_000
DEPENDENCIES_LIMIT: Final = 10

TURN_KINDS: Final = (
    "todo_changed",
    *sorted(EVENT_SENTENCES.keys() - {"halted", "unhalted", "schedule_changed", "job_dead", "comment_changed"}),
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
            todo = todos.get_todo(tx, tenant_id, parse_number(kind, reference))
            lines, end = explain_todo(tx, tenant_id, todo), describe_todo(tx, tenant_id, todo)
        case "turn":
            turn = finding.get_turn(tx, tenant_id, reference)
            lines, end = explain_turn(tx, tenant_id, turn), describe_turn(tx, tenant_id, turn)
        case "goal":
            goal_id = parse_number(kind, reference)
            end = views.explain(tx, tenant_id, goal_id)
            lines = explain_goal(tx, tenant_id, goal_id)
        case "job":
            job = jobs.get_job(tx, tenant_id, reference)
            lines, end = explain_job(tx, tenant_id, job), describe_job(tx, tenant_id, job)
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
    if jobs.find_job(tx, tenant_id, reference):
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
    window = event_store.list_newest_events(tx, tenant_id, about, value, kinds, limit)
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
        dependency = todo_store.find_todo(tx, tenant_id, dependency_id)
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
    goal = goals.get_goal(tx, tenant_id, goal_id)
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
    text = views.explain(tx, tenant_id, parse_number("goal", goal), sub_goal_id)
    return Explanation([WhyLine(None, tx.now, to_one_line(text))])


# Jobs


def explain_job(tx: Transaction, tenant_id: int, job: Job) -> list[WhyLine]:
    """Explain a job by its own events, its failures, and what it works on: a turn, a goal or a sub-agent of either."""
    run = run_store.find_run(tx, tenant_id, job.id)
    lines = [WhyLine(None, job.created_at, f"The job was created: {describe_work(job, run)}.")]
    lines += list_job_events(tx, tenant_id, job.id)
    lines += [
        WhyLine(None, job.updated_at, to_one_line(f"Failure {number}: {error[:200]}"), is_key=False)
        for number, error in enumerate(json.loads(job.errors), 1)
    ]
    if run and run.is_main and run.goal_id is not None:
        lines += explain_goal(tx, tenant_id, run.goal_id)
    elif run and run.turn_id is not None:
        turn = finding.get_turn(tx, tenant_id, run.turn_id)
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

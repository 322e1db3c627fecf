"""Forks: a turn continued in another way from one of its points, beside the original."""

import json
from typing import NamedTuple
from uuid import uuid4

from headway.actions.access import quotas
from headway.actions.inspection.copies import ConversationCopy
from headway.actions.inspection.steps import Steps, TurnStep, load_steps
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.actions.todos import conversations, finding
from headway.actions.turns import steering, turns
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.events import TURN_ENDS, LoggedEvent
from headway.ledger.limits import Limits
from headway.ledger.run import Run
from headway.ledger.tenancy import Conversation, Turn
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import files as attachment_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

AGENT_WRIT = "/agent"  # recorded like a tool call, but without events of its own


class ForkPoint(NamedTuple):
    end: int  # the number of the first message of the transcript that is not copied
    first_seq: int  # the event that started the turn
    seq: int  # the first event that is not copied
    last_message: int  # the first event of a message to people that is not copied
    at: int  # when the next step was stored, in milliseconds
    plan: dict[int, str] | None  # the statuses of the plan's items, as the model saw them, or None to take them from the events


def find_point(tx: Transaction, turn: Turn, run: Run, steps: Steps, at: int) -> ForkPoint:
    """Find the point after a number of steps, just before the model gave its next answer."""
    if not 0 <= at <= steps.complete:
        raise Invalid(f"at must be between 0 and {steps.complete}, the number of completed steps of turn {turn.id}.")
    next_step = steps.steps[at] if at < len(steps.steps) else None
    first_seq = event_store.find_turn_start(tx, run.tenant_id, turn.conversation_id, turn.id)
    kinds = ("tool_call", "tool_result", "message", *TURN_ENDS)
    if not first_seq or fork_store.is_transcript_pruned(tx, run.tenant_id, run.id):
        raise Conflict(f"Turn {turn.id} cannot be forked: its history was deleted because of its age (HEADWAY_RETENTION).")
    events = [
        event
        for event in fork_store.list_events(tx, run.tenant_id, turn.conversation_id, kinds, first_seq - 1, MAX_INTEGER)
        if event.turn_id == turn.id
    ]
    seq = find_boundary(tx, turn, run, steps, events, at)
    unsaid = next_step or (steps.steps[-1] if at and not steps.steps[-1].has_calls else None)  # the fork says a last answer itself
    last_message = find_last_message(events, seq, unsaid)
    plans = [facts["plan"] for n, facts in steps.facts if next_step and n < next_step.n and "plan" in facts]
    plan = {int(item["id"]): str(item["status"]) for item in plans[-1]} if plans else None
    return ForkPoint(find_cut(steps, at), first_seq, seq, last_message, next_step.at if next_step else MAX_INTEGER, plan)


def find_cut(steps: Steps, at: int) -> int:
    """Return where to cut the transcript. A request to sum up, made at the step limit, is not copied: a fork has its own limit."""
    if at == 0:
        return 0
    end = steps.steps[at].n if at < len(steps.steps) else steps.end
    last_calls = {n for n, facts in steps.facts if "last_call" in facts}
    while end - 1 in last_calls:
        end -= 1
    return end


def find_boundary(tx: Transaction, turn: Turn, run: Run, steps: Steps, events: list[LoggedEvent], at: int) -> int:
    """Return the number of the first event that the next answer caused.

    An answer with calls is found by counting the events of the calls before it, an answer in words by the time of its storage.
    """
    next_step = steps.steps[at] if at < len(steps.steps) else None
    if next_step is None:
        ends = [event.seq for event in events if event.kind in TURN_ENDS]
        return ends[-1] if ends and run.ended else MAX_INTEGER
    made = sum(call.tool != AGENT_WRIT for step in steps.steps[:at] for call in step.calls)
    calls, results = list_of_run(events, "tool_call", run), list_of_run(events, "tool_result", run)
    if next_step.has_calls and len(calls) > made:
        return calls[made]
    first_seq = events[0].seq if events else 0
    last_seq = results[made - 1] if made and len(results) >= made else first_seq
    found = fork_store.find_first_event_since(tx, run.tenant_id, turn.conversation_id, last_seq, next_step.at)
    return found or MAX_INTEGER


def list_of_run(events: list[LoggedEvent], kind: str, run: Run) -> list[int]:
    """List the numbers of the events of this kind that the run itself caused, not its sub-agents."""
    return [event.seq for event in events if event.kind == kind and json.loads(event.data)["run_id"] == run.id]


def find_last_message(events: list[LoggedEvent], seq: int, step: TurnStep | None) -> int:
    """Return the first message that is not copied: the text of a step that is not copied, which is logged before its calls. How the
    turn ended early, or what it was saying when it was stopped, is not copied either."""
    messages = [event for event in events if event.kind == "message" and event.seq < seq]
    while messages and json.loads(messages[-1].data).get("kind", "text") != "text":
        seq = messages.pop().seq
    if not messages or step is None:
        return seq
    data = json.loads(messages[-1].data)
    first_line = next(iter(data["content"].strip().splitlines()), "")
    is_next = data["role"] == "assistant" and bool(first_line) and first_line in step.text
    return messages[-1].seq if is_next else seq


# Forks of turns: a copy of a turn up to one of its steps, in a new conversation, that continues from there.


class ForkRequest(NamedTuple):
    at: int  # steps of the turn to keep; 0: only the request
    message: str = ""  # at 0 it replaces the request, later the agent reads it next
    model: str = ""  # empty: the role's
    role: str = ""  # empty: the original's
    live: bool = False  # whether calls without a recorded result are made
    limit: int = Limits().iterations
    attempts: int = Limits().attempts
    owner: str = ""  # the process that runs it from the start; empty: it is queued
    sender: str = "person"  # of the message


def fork_turn(tx: Transaction, tenant_id: int, turn_id: str, request: ForkRequest) -> Run:
    """Copy a turn up to a step into a new conversation, and create the run that continues there. The original is not changed."""
    halts.check(tx)
    quotas.check_turns(tx, tenant_id)
    turn, source = lock_source(tx, tenant_id, turn_id)
    if 0 <= request.at < turn.fork_at:  # a copied step: how things were then is recorded only with the original
        return fork_turn(tx, tenant_id, turn.forked_from, inherit(request, source))
    if request.message and not text.check_text(request.message, "message").strip():
        raise Invalid("message must not be blank.")
    point = find_point(tx, turn, source, load_steps(tx, source), request.at)
    original = finding.get_conversation(tx, tenant_id, turn.conversation_id)
    title = f"{original.title[: text.SUBJECT_LIMIT - 40]} (fork at step {request.at})".strip()
    conversation = conversations.add_conversation(tx, tenant_id, title)
    if original.folder:
        conversations.open_in_folder(tx, tenant_id, original.folder, conversation.key)
    copy = ConversationCopy(tx, tenant_id, original.id, conversation.id)
    copy.copy_history(source, event_store.find_turn_start(tx, tenant_id, original.id, turn.id))
    run = insert_fork(tx, turn, source, conversation.id, request)
    copy.copy_run(source, run, point.end)
    fork_store.copy_memory(tx, tenant_id, original.id, conversation.id, point.at)
    copy.copy_todos(point.seq, turn.id, point.plan)
    if request.at:
        copy.copy_events(source, run, point.first_seq, point.seq, point.last_message)
        if request.message:
            steering.send(tx, run, request.message, request.sender)
    else:
        files = attachment_store.list_by_turns(tx, tenant_id, [run.turn_id or ""]).get(run.turn_id or "", ())
        turns.append_message(tx, run, "user", run.task, tuple(files))
    return run


def inherit(request: ForkRequest, source: Run) -> ForkRequest:
    """Return the request with the role and the model of the run that is forked, where it names none."""
    return request._replace(role=request.role or source.role, model=request.model or source.model)


def lock_source(tx: Transaction, tenant_id: int, turn_id: str) -> tuple[Turn, Run]:
    """Lock the job of a turn, so that its steps wait, and return the turn and its run."""
    turn = finding.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    if run is None:
        raise Conflict(f"Turn {turn.id} is driven by an agent loop outside Headway, so its steps are not recorded.")
    job_store.find_locked_job(tx, tenant_id, run.id)
    locked = run_store.find_run(tx, tenant_id, run.id)
    assert locked is not None
    return finding.get_turn(tx, tenant_id, turn.id), locked


def insert_fork(tx: Transaction, turn: Turn, source: Run, conversation_id: int, request: ForkRequest) -> Run:
    """Insert the fork's turn, run and job."""
    request = inherit(request, source)
    task = request.message if request.message and not request.at else source.task
    fork = Turn(
        str(uuid4()),
        conversation_id,
        task,
        turn.mode,
        started_at=tx.now,
        forked_from=turn.id,
        fork_at=request.at,
        context=turn.context,
    )
    conversation_store.insert_turn(tx, source.tenant_id, fork)
    run = Run(
        id=make_run_id(source.id),
        tenant_id=source.tenant_id,
        conversation_id=conversation_id,
        turn_id=fork.id,
        parent_run_id=None,
        role=request.role,
        task=task,
        depth=0,
        status="running",
        created_at=tx.now,
        updated_at=tx.now,
        limit=request.at + request.limit,
        iterations=request.at,
        model=request.model,
        replays="" if request.live else source.id,
    )
    run_store.insert_run(tx, run)
    payload = {
        "turn_id": fork.id,
        "conversation_id": conversation_id,
        "request": text.to_one_line(task)[: text.SUBJECT_LIMIT],
    }
    owner, attempts = request.owner, request.attempts
    jobs.create_job(tx, source.tenant_id, turns.JOB_KIND, payload, job_id=run.id, owner=owner, max_attempts=attempts)
    origin = {"turn_id": turn.id, "at": request.at}
    data = {"conversation_id": conversation_id, "run_id": run.id, "mode": turn.mode, "forked_from": origin}
    conversations.emit_conversation_changed(tx, source.tenant_id, conversation_id, "state", "running")
    turns.emit_event(tx, run, "turn_started", data)
    return run


def make_run_id(source_id: str) -> str:
    """Make a run id with the beginning of another, because the handles of results in copied messages begin with it."""
    return source_id[:8] + str(uuid4())[8:]


# Forks of conversations


def copy_before(tx: Transaction, tenant_id: int, turn_id: str) -> Conversation:
    """Copy a conversation as it was before one of its turns: the earlier turns, and the todos and notes of that time."""
    turn, source = lock_source(tx, tenant_id, turn_id)
    original = finding.get_conversation(tx, tenant_id, turn.conversation_id)
    first_seq = event_store.find_turn_start(tx, tenant_id, original.id, turn.id)
    if not first_seq:
        raise Conflict(f"The history before turn {turn.id} was deleted because of its age (HEADWAY_RETENTION).")
    conversation = conversations.add_conversation(tx, tenant_id, original.title)
    copy = ConversationCopy(tx, tenant_id, original.id, conversation.id)
    copy.copy_history(source, first_seq)
    fork_store.copy_memory(tx, tenant_id, original.id, conversation.id, turn.started_at)
    copy.copy_todos(first_seq, turn.id, None)
    return conversation


def fork_conversation(tx: Transaction, tenant_id: int, conversation_id: int, request: ForkRequest) -> Run:
    """Fork the turn of a message, whose id is `request.at`, at that message.

    A user's message that began a turn is sent again, as it is or as `request.message`. An agent's message is written again: the
    step that wrote it is the first that is not copied.
    """
    finding.get_conversation(tx, tenant_id, conversation_id)
    message = message_store.find_message(tx, tenant_id, conversation_id, request.at)
    if message is None:
        raise NotFound(f"Conversation {conversation_id} has no message {request.at}.")
    if message.role == "user":
        if message.id not in message_store.list_first_ids(tx, tenant_id, conversation_id, [message.turn_id]):
            raise Invalid(f"Message {message.id} was sent to a running turn. Fork at the message that began it, or at a step.")
        return fork_turn(tx, tenant_id, message.turn_id, request._replace(at=0))
    if request.message:
        raise Invalid(f"Message {message.id} is an agent's and cannot be edited. Leave message out, or name a user's message.")
    _, source = lock_source(tx, tenant_id, message.turn_id)
    steps = load_steps(tx, source).steps
    first_line = next(iter(message.content.strip().splitlines()), "")
    writers = [step.number for step in steps if first_line in step.text]
    number = writers[-1] if writers else len(steps)
    if message.kind == "stopped":  # it did not become a step
        number = len(steps) + 1
    return fork_turn(tx, tenant_id, message.turn_id, request._replace(at=max(0, number - 1)))

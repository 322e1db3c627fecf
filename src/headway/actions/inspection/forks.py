"""Forks of turns: a copy of a turn up to one of its steps, in a new conversation, that continues from there."""

from typing import NamedTuple
from uuid import uuid4

from headway.actions import conversations, halts, jobs, turns
from headway.actions.access import quotas
from headway.actions.inspection.copies import ConversationCopy
from headway.actions.inspection.points import find_point
from headway.actions.inspection.steps import load_steps
from headway.actions.people import steering
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.run import Limits, Run
from headway.ledger.tenancy import Conversation, Turn
from headway.storage.stores import attachments as attachment_store
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction


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
    original = conversations.get(tx, tenant_id, turn.conversation_id)
    title = f"{original.title[: text.SUBJECT_LIMIT - 40]} (fork at step {request.at})".strip()
    conversation = conversations.add(tx, tenant_id, title)
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
    turn = conversations.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    if run is None:
        raise Conflict(f"Turn {turn.id} is driven by an agent loop outside Headway, so its steps are not recorded.")
    job_store.find_locked(tx, tenant_id, run.id)
    locked = run_store.find(tx, tenant_id, run.id)
    assert locked is not None
    return conversations.get_turn(tx, tenant_id, turn.id), locked


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
    run_store.insert(tx, run)
    payload = {
        "turn_id": fork.id,
        "conversation_id": conversation_id,
        "request": text.to_one_line(task)[: text.SUBJECT_LIMIT],
    }
    owner, attempts = request.owner, request.attempts
    jobs.create(tx, source.tenant_id, turns.JOB_KIND, payload, job_id=run.id, owner=owner, max_attempts=attempts)
    origin = {"turn_id": turn.id, "at": request.at}
    data = {"conversation_id": conversation_id, "run_id": run.id, "mode": turn.mode, "forked_from": origin}
    conversations.emit_changed(tx, source.tenant_id, conversation_id, "state", "running")
    turns.emit_event(tx, run, "turn_started", data)
    return run


def make_run_id(source_id: str) -> str:
    """Make a run id with the beginning of another, because the handles of results in copied messages begin with it."""
    return source_id[:8] + str(uuid4())[8:]


# Forks of conversations


def copy_before(tx: Transaction, tenant_id: int, turn_id: str) -> Conversation:
    """Copy a conversation as it was before one of its turns: the earlier turns, and the todos and notes of that time."""
    turn, source = lock_source(tx, tenant_id, turn_id)
    original = conversations.get(tx, tenant_id, turn.conversation_id)
    first_seq = event_store.find_turn_start(tx, tenant_id, original.id, turn.id)
    if not first_seq:
        raise Conflict(f"The history before turn {turn.id} was deleted because of its age (HEADWAY_RETENTION).")
    conversation = conversations.add(tx, tenant_id, original.title)
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
    conversations.get(tx, tenant_id, conversation_id)
    message = message_store.find(tx, tenant_id, conversation_id, request.at)
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

"""A turn that an agent answers: its start, its messages and its end."""

import json
from typing import Any, NamedTuple, get_args
from uuid import uuid4

from headway.actions.access import quotas, spending
from headway.actions.access.spending import Usage
from headway.actions.installation import halts
from headway.actions.runs import jobs, notices, runs, waiting
from headway.actions.todos import conversations, finding
from headway.actions.turns import plan
from headway.ledger import text
from headway.ledger.attachment import Attachment, check_attachments
from headway.ledger.errors import Conflict, Invalid, NotFound, TurnRunning, TurnWaiting
from headway.ledger.events import TURN_ENDS, Event, EventKind, encode_json
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.run import Message, MessageKind, MessageRole, Run, TurnMode
from headway.ledger.tenancy import Turn
from headway.ledger.titles import make_title
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import events as event_store
from headway.storage.stores import files as attachment_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.stores import todos as todo_store
from headway.storage.stores.messages import MessageDraft
from headway.storage.transaction import Row, Transaction

JOB_KIND = "turn"  # the kind of a turn's job
CONTINUE_REQUEST = "Continue with the open todos."  # what people who only press a button say
INCOMPLETE_LIMIT = 500
CONTEXT_LIMIT = 50_000  # characters, because every model call sends them


class TurnRequest(NamedTuple):
    """The parameters of a new turn."""

    content: str
    mode: TurnMode | None = None  # by default the mode of the turn that it continues, otherwise plan
    role: str = "index"
    limit: int = Limits().iterations
    attempts: int = Limits().attempts
    owner: str = ""  # the process that runs it from the start; empty: it is queued
    attachments: tuple[Attachment, ...] = ()
    continues: str = ""  # an ended turn of the conversation, whose open todos this one takes over
    context: str = ""  # what the client tells the agent beside the message
    client_tools: str = ""  # the client's own tools, in JSON
    fingerprint: str = ""  # of the client's history up to the message


class StartedTurn(NamedTuple):
    run: Run
    job: Job


def start_turn(tx: Transaction, tenant_id: int, conversation_id: int, request: TurnRequest) -> Run:
    """Store the message and the run that will answer it. A conversation has one running turn at a time."""
    return start_with_job(tx, tenant_id, conversation_id, request).run


def start_with_job(tx: Transaction, tenant_id: int, conversation_id: int, request: TurnRequest) -> StartedTurn:
    halts.check(tx)
    finding.get_conversation(tx, tenant_id, conversation_id)
    if not text.check_text(request.content, "content").strip():
        raise Invalid("content must not be blank. Say what the agent should do.")
    source = get_continued(tx, tenant_id, conversation_id, request.continues) if request.continues else None
    mode = request.mode or (source.mode if source else "plan")
    if mode not in get_args(TurnMode):
        raise Invalid(f"mode must be {' or '.join(get_args(TurnMode))}, not {mode!r}.")
    check_attachments(request.attachments)
    quotas.check_storage(tx, tenant_id)
    quotas.check_turns(tx, tenant_id)
    turn = Turn(
        str(uuid4()),
        conversation_id,
        request.content,
        mode,
        started_at=tx.now,
        context=text.check_text(request.context, "context", CONTEXT_LIMIT),
        client_tools=request.client_tools,
        fingerprint=request.fingerprint,
    )
    conversation_store.insert_turn(tx, tenant_id, turn)
    run = Run(
        id=str(uuid4()),
        tenant_id=tenant_id,
        conversation_id=conversation_id,
        turn_id=turn.id,
        parent_run_id=None,
        role=request.role,
        task=request.content,
        depth=0,
        status="running",
        created_at=tx.now,
        updated_at=tx.now,
        limit=request.limit,
    )
    if not run_store.insert_run(tx, run):
        raise find_obstacle(tx, tenant_id, conversation_id) or TurnRunning()
    payload = {
        "turn_id": turn.id,
        "conversation_id": conversation_id,
        "request": text.to_one_line(request.content)[: text.SUBJECT_LIMIT],
    }
    job = jobs.create_job(tx, tenant_id, JOB_KIND, payload, job_id=run.id, owner=request.owner, max_attempts=request.attempts)
    conversation_store.touch(tx, tenant_id, conversation_id, make_title(request.content))
    conversations.emit_conversation_changed(tx, tenant_id, conversation_id, "state", "running")
    started: dict[str, Any] = {"conversation_id": conversation_id, "run_id": run.id, "mode": mode}
    if source:
        started["continues"] = source.id
    if request.client_tools:
        started["client_tools"] = [tool["name"] for tool in json.loads(request.client_tools)]
    emit_event(tx, run, "turn_started", started)
    if request.attachments:
        attachment_store.insert_attachment(tx, tenant_id, turn.id, request.attachments)
    append_message(tx, run, "user", request.content, request.attachments)
    if source:
        plan.take_over(tx, tenant_id, source, turn.id)
    return StartedTurn(run, job)


def get_continued(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str) -> Turn:
    turn = finding.get_turn(tx, tenant_id, turn_id)
    if turn.conversation_id != conversation_id:
        raise Invalid(f"Turn {turn_id} belongs to conversation {turn.conversation_id}. Continue it there.")
    return turn


def find_obstacle(tx: Transaction, tenant_id: int, conversation_id: int) -> TurnRunning | None:
    """Return the error for a message to a conversation whose turn has not ended. It names what that turn waits for."""
    run = find_running(tx, tenant_id, conversation_id)
    if run is None:
        return None
    wait = waiting.find_by_turn(tx, tenant_id, run.turn_id or "")
    obstacle = TurnRunning()
    if wait:
        request = f"{wait['kind']} #{wait['id']}"
        obstacle = TurnWaiting(f"The conversation's turn waits for a person: {request}. Decide, or cancel the turn.")
    obstacle.conversation_id = conversation_id
    return obstacle


def get_unfinished(tx: Transaction, tenant_id: int, conversation_id: int) -> str:
    """Return the id of the conversation's last turn, which has open todos to continue with."""
    finding.get_conversation(tx, tenant_id, conversation_id)
    turn_id = conversation_store.find_last_turn(tx, tenant_id, conversation_id)
    if turn_id is None or not list_incomplete(tx, tenant_id, turn_id):
        raise Conflict("The last turn of this conversation has no open todos to continue with.")
    return turn_id


def append_message(
    tx: Transaction,
    run: Run,
    role: MessageRole,
    content: str,
    attachments: tuple[Attachment, ...] = (),
    kind: MessageKind = "text",
) -> Message | None:
    """Append a message for people to read. Blank messages are not stored."""
    if not run.answers_turn or not content.strip():
        return None
    message = message_store.insert_message(
        tx, run.tenant_id, run.conversation_id, MessageDraft(run.turn_id or "", role, content, kind)
    )
    message = message._replace(attachments=tuple(attachment.info for attachment in attachments))
    emit_event(tx, run, "message", message.as_json())
    return message


def emit_event(tx: Transaction, run: Run, kind: EventKind, data: dict[str, Any], **encoded: str) -> None:
    """Emit an event of the run's turn or goal. `encoded` holds members that are JSON already."""
    owner = {"turn_id": run.turn_id} if run.goal_id is None else {"turn_id": None, "goal_id": run.goal_id}
    subject = None if run.goal_id is None else f"goal:{run.goal_id}"
    tx.emit(Event(run.tenant_id, kind, encode_json({**owner, **data}, **encoded), run.conversation_id, run.turn_id, subject))


def emit_after_list(tx: Transaction, run: Run, kind: EventKind, data: dict[str, Any]) -> None:
    """Emit an event of the turn after the todos_updated and todos_current events that end this transaction."""

    def emit(tx: Transaction) -> None:
        if kind in TURN_ENDS:
            conversations.emit_conversation_changed(tx, run.tenant_id, run.conversation_id, "state", "idle")
        emit_event(tx, run, kind, data)

    tx.before_commit((kind, run.id), emit)


def list_incomplete(tx: Transaction, tenant_id: int, turn_id: str) -> list[dict[str, Any]]:
    """List the open items of the turn's plan."""
    return describe_incomplete(tx.fetch(todo_store.build_list_open_by_turn(tenant_id, turn_id, INCOMPLETE_LIMIT))[0])


def describe_incomplete(rows: list[Row]) -> list[dict[str, Any]]:
    return [{"id": todo.id, "title": todo.subject, "status": todo.status} for todo in map(todo_store.TODOS.load, rows)]


def get_turn_id(job: Job) -> str:
    return str(json.loads(job.payload)["turn_id"])


def revive(tx: Transaction, run: Run) -> None:
    """Let a failed turn continue from the end of its transcript."""
    if find_running(tx, run.tenant_id, run.conversation_id):
        raise TurnRunning
    finding.get_conversation(tx, run.tenant_id, run.conversation_id)  # it may have been deleted
    run = run._replace(status="running", result=None, updated_at=tx.now, ended_at=0)
    run_store.save_run(tx, run)
    turn = finding.get_turn(tx, run.tenant_id, run.turn_id or "")
    conversation_store.save_turn(tx, run.tenant_id, turn._replace(status="running", outcome=None, ended_at=0))
    emit_event(tx, run, "turn_resumed", {})
    conversations.emit_conversation_changed(tx, run.tenant_id, run.conversation_id, "state", "running")


# Waiting for budget: the whole turn waits when one of its runs finds the pool empty


def pause(tx: Transaction, run: Run, reason: str) -> None:
    turn = finding.lock_turn(tx, run.tenant_id, run.turn_id or "")
    if turn.status == "running":
        conversation_store.save_turn(tx, run.tenant_id, turn._replace(status="paused"))
        emit_event(tx, run, "turn_paused", {"reason": reason})
        conversations.emit_conversation_changed(tx, run.tenant_id, run.conversation_id, "state", "paused")


def resume(tx: Transaction, run: Run) -> None:
    turn = finding.lock_turn(tx, run.tenant_id, run.turn_id or "")
    if turn.status == "paused":
        conversation_store.save_turn(tx, run.tenant_id, turn._replace(status="running"))
        notices.settle_turn(tx, run.tenant_id, turn.id)
        emit_event(tx, run, "turn_resumed", {})
        conversations.emit_conversation_changed(tx, run.tenant_id, run.conversation_id, "state", "running")


# Reading


def find_running(tx: Transaction, tenant_id: int, conversation_id: int) -> Run | None:
    """Return the run that answers the conversation's unfinished turn."""
    return run_store.find_running_turn(tx, tenant_id, conversation_id)


def find_id_by_run(tx: Transaction, tenant_id: int, run_id: str) -> str | None:
    """Return the id of the turn that an unfinished run answers. Sub-agents and the runs of goals answer none."""
    run = run_store.find_run(tx, tenant_id, text.check_text(run_id, "run_id"))
    return run.turn_id if run and not run.ended and run.parent_run_id is None else None


def find_start(tx: Transaction, tenant_id: int, turn_id: str) -> tuple[int, int]:
    """Return the conversation of a turn and the number of its first event."""
    conversation_id = finding.get_turn(tx, tenant_id, turn_id).conversation_id
    return conversation_id, event_store.find_turn_start(tx, tenant_id, conversation_id, turn_id)


class TurnPosition(NamedTuple):
    """The position of a turn's events in the log."""

    conversation_id: int
    after: int  # they have higher numbers
    is_over: bool  # whether the turn has ended and has no more events


def find_turn_position(tx: Transaction, tenant_id: int, turn_id: str, after: int | None = None) -> TurnPosition:
    """Return where to read the events of a turn, from its start or after a number."""
    turn = finding.get_turn(tx, tenant_id, turn_id)
    if after is None:
        after = max(0, event_store.find_turn_start(tx, tenant_id, turn.conversation_id, turn_id) - 1)
    end = event_store.find_turn_end(tx, tenant_id, turn.conversation_id, turn_id) if turn.ended else 0
    return TurnPosition(turn.conversation_id, after, turn.ended and end <= after)


def show_turn(tx: Transaction, tenant_id: int, turn_id: str, limits: Limits) -> dict[str, Any]:
    """Return a turn with its progress and the open items of its plan. Turns driven by an external loop have no run."""
    turn_rows, run_rows, open_rows, spent_rows = tx.fetch(
        conversation_store.build_find_turn(tenant_id, text.check_text(turn_id, "turn_id")),
        run_store.build_find_by_turn(tenant_id, turn_id),
        todo_store.build_list_open_by_turn(tenant_id, turn_id, INCOMPLETE_LIMIT),
        spending_store.build_list_turn(tenant_id, turn_id),
    )
    turn = finding.load_turn(turn_rows, turn_id)
    run = Run._make(run_rows[0]) if run_rows else None
    return {
        "id": turn.id,
        "conversation_id": turn.conversation_id,
        "request": turn.request,
        "mode": turn.mode,
        "status": turn.shown_status,
        "waiting_for": waiting.find_by_turn(tx, tenant_id, turn.id) if turn.waiting else None,
        "iterations": run.iterations if run else 0,
        "limit": run.limit if run else limits.iterations,
        "resubmissions": run.resubmissions if run else 0,
        "outcome": turn.outcome,
        "answer": run.result if run and turn.status == "finished" else None,
        "error": run.result if run and turn.status == "failed" else None,
        "incomplete": describe_incomplete(open_rows),
        "forked_from": {"turn_id": turn.forked_from, "at": turn.fork_at} if turn.forked_from else None,
        "plan_source": turn.plan_source,
        "retry_at": jobs.retry_times(tx, tenant_id, [run.id]).get(run.id, 0) if run and not run.ended else 0,
        **spending.load_turn_spending(spent_rows).as_json(),
        "changes": runs.load_changes(tx, run) if run else None,
        "duration_s": turn.duration_s,
        "started_at": turn.started_at // 1000,
        "ended_at": turn.ended_at // 1000,
    }


def get_run(tx: Transaction, tenant_id: int, turn_id: str) -> Run:
    """Return the run that answers a turn. A turn that an external loop answers has none."""
    run = run_store.find_by_turn(tx, tenant_id, text.check_text(turn_id, "turn_id"))
    if run is None:
        raise NotFound(f"No turn {turn_id[:80]!r}.")
    return run


def get_usage(tx: Transaction, tenant_id: int, turn_id: str) -> Usage:
    """Return the tokens and the cost of a turn, with its sub-agents."""
    (rows,) = tx.fetch(spending_store.build_list_turn(tenant_id, turn_id))
    return spending.load_turn_spending(rows).usage


def list_messages(
    tx: Transaction, tenant_id: int, conversation_id: int, limit: int, before: int = text.MAX_INTEGER
) -> list[Message]:
    """List the last messages with an id below `before`, oldest first."""
    finding.get_conversation(tx, tenant_id, conversation_id)
    messages = message_store.list_message_page(tx, tenant_id, conversation_id, limit, before)
    infos = attachment_store.list_infos(tx, tenant_id, [message.turn_id for message in messages if message.role == "user"])
    if not infos:
        return messages
    first_ids = message_store.list_first_ids(tx, tenant_id, conversation_id, list(infos))
    return [
        message._replace(attachments=tuple(infos[message.turn_id])) if message.id in first_ids else message for message in messages
    ]


def get_attachment(tx: Transaction, tenant_id: int, turn_id: str, n: int) -> Attachment:
    """Return an attachment of the turn's message, numbered from 1."""
    finding.get_turn(tx, tenant_id, turn_id)
    attachment = attachment_store.find_attachment(tx, tenant_id, turn_id, n)
    if attachment is None:
        raise NotFound(f"The turn's message has no attachment {n}.")
    return attachment


def find_log_position(tx: Transaction, tenant_id: int) -> int:
    """Return the number of the last event."""
    return event_store.get_last_seq(tx, tenant_id)

"""Steering: messages that people send to a running turn or sub-agent, which reads them at its next step."""

from collections.abc import Mapping

from headway.actions.access import quotas
from headway.actions.runs import inbox, runs
from headway.actions.todos import finding
from headway.actions.turns import turns
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, TurnEnded
from headway.ledger.events import Event, encode_json
from headway.ledger.run import Run, SteeringMessage
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

UNREAD_LIMIT = 100  # per run
NO_RESULT = "The client gave no result."


def send_to_turn(tx: Transaction, tenant_id: int, turn_id: str, content: str, sender: str) -> SteeringMessage:
    return send(tx, find_run(tx, tenant_id, turn_id), content, sender)


def send_instead_of_results(tx: Transaction, run: Run, content: str, results: Mapping[int, str], sender: str) -> bool:
    """If a turn waits for tools of its client, continue it with the results that the client has, by question, and with a message
    that its agent reads. Returns whether it waited for any."""
    open_calls = inbox.list_client_calls(tx, run)
    for question in open_calls:
        inbox.answer(tx, run.tenant_id, question.id, results.get(question.id, NO_RESULT), sender)
    if open_calls:
        send(tx, run, content, sender)
    return bool(open_calls)


def send_to_agent(tx: Transaction, tenant_id: int, run_id: str, content: str, sender: str) -> SteeringMessage:
    return send(tx, runs.get_run(tx, tenant_id, run_id), content, sender)


def send(tx: Transaction, run: Run, content: str, sender: str) -> SteeringMessage:
    """Store a message for a run that has not ended. The run cannot end with an answer before it has read the message."""
    if not text.check_text(content, "content").strip():
        raise Invalid("content must not be blank. Say what the agent should do.")
    run = runs.get_locked_run(tx, run)
    check_can_read(run)
    quotas.check_storage(tx, run.tenant_id)
    message = message_store.insert_steering(tx, run, content, sender)
    if run.answers_turn:
        turns.append_message(tx, run, "user", content)
    else:
        data = {"run_id": run.id, "turn_id": run.turn_id, "goal_id": run.goal_id, "message": message.as_json()}
        tx.emit(Event(run.tenant_id, "agent_message", encode_json(data), run.conversation_id, run.turn_id))
    return message


def check_can_read(run: Run) -> None:
    """Raise a Conflict if the run would not read a message."""
    if run.ended and run.answers_turn:
        raise TurnEnded(f"Turn {run.turn_id} has already ended. Send a new message to its conversation.")
    if run.ended:
        raise Conflict(f"Run {run.id} has already ended: {run.status}.")
    if run.is_main and run.sub_goal_id is None:
        advice = "Pause the goal and ask for a new plan with a note, or send the message to one of its sub-agents."
        raise Conflict(f"The main agent of goal #{run.goal_id} works on no sub-goal now, so it reads no messages. {advice}")
    if run.unread >= UNREAD_LIMIT:
        raise Conflict(f"Run {run.id} has {run.unread} unread messages, which is the limit. Wait until it has read them.")


def read(tx: Transaction, run: Run) -> list[SteeringMessage]:
    """Mark the run's unread messages as read and return them, oldest first. Only the owner of the run's job may do this."""
    messages = message_store.read_steering(tx, run)
    if messages:
        turns.emit_event(tx, run, "messages_read", {"run_id": run.id, "messages": [message.id for message in messages]})
    return messages


def list_by_turn(tx: Transaction, tenant_id: int, turn_id: str, limit: int) -> list[SteeringMessage]:
    """List the last messages that were sent to a running turn, oldest first."""
    run = run_store.find_by_turn(tx, tenant_id, finding.get_turn(tx, tenant_id, turn_id).id)
    return message_store.list_steering(tx, run, limit) if run else []


def list_by_agent(tx: Transaction, tenant_id: int, run_id: str, limit: int) -> list[SteeringMessage]:
    """List the last messages that were sent to a run, oldest first."""
    return message_store.list_steering(tx, runs.get_run(tx, tenant_id, run_id), limit)


def find_run(tx: Transaction, tenant_id: int, turn_id: str) -> Run:
    """Return the run that answers a turn."""
    turn = finding.get_turn(tx, tenant_id, turn_id)
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    if run is not None:
        return run
    if turn.ended:
        raise TurnEnded(f"Turn {turn.id} has already ended: {turn.status}.")
    raise Conflict(f"Turn {turn.id} is driven by an agent loop outside Headway, which reads no messages.")

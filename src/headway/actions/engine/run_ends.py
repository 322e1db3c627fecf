"""The end of a run, which is also the end of its turn, of its sub-goal or of its parent's task."""

from typing import Any, NamedTuple

from headway.actions.access import spending
from headway.actions.goals import goals
from headway.actions.runs import jobs, notices, runs, waiting
from headway.actions.todos import conversations, finding
from headway.actions.turns import turns
from headway.actions.turns.live_text import LiveText, PartialAnswer
from headway.ledger import text
from headway.ledger.errors import TurnEnded
from headway.ledger.events import Event, encode_json
from headway.ledger.run import Run, RunEnd, RunStatus
from headway.ledger.tenancy import TurnStatus
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import messages as message_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import spending as spending_store
from headway.storage.transaction import Transaction


def end_run(tx: Transaction, run: Run, end: RunEnd) -> Run:
    """End the run in the way that suits its work. A goal's main agent ends only its current sub-goal and waits for the next one."""
    if run.is_main:
        return goals.end_inline(tx, run, end)
    if run.answers_turn and end.outcome:
        return finish_turn(tx, run, end)
    if run.answers_turn:
        return fail_turn(tx, run, end.error or "", end.code)
    if end.code:
        jobs.close(tx, run.tenant_id, run.id, "failed", end.error or "")
    return runs.end_child(tx, run, end)


# Turns


class EndedTurn(NamedTuple):
    run: Run
    spent: dict[str, Any]  # for the event of the end: the models, what they used, and how long the turn took


def finish_turn(tx: Transaction, run: Run, ending: RunEnd) -> Run:
    """End the turn with its agent's answer, and after it the runtime's closing words, if the turn ends early."""
    assert run.turn_id is not None
    turns.append_message(tx, run, "assistant", ending.answer)
    turns.append_message(tx, run, "assistant", ending.closing, kind="closing")
    incomplete = turns.list_incomplete(tx, run.tenant_id, run.turn_id)
    run, spent = end_turn(tx, run, "completed", "finished", ending.outcome, ending.text)
    changes = {"changes": runs.decode_changes(run)} if run.changes else {}
    turns.emit_after_list(tx, run, "turn_finished", {"outcome": ending.outcome, "incomplete": incomplete, **changes, **spent})
    return run


def fail_turn(tx: Transaction, run: Run, message: str, code: str) -> Run:
    run, spent = end_turn(tx, run, "failed", "failed", None, message)
    turns.emit_after_list(tx, run, "turn_failed", {"error": message, "code": code, **spent})
    return run


def cancel_turn(tx: Transaction, tenant_id: int, turn_id: str, live_text: LiveText | None = None) -> list[str]:
    """Cancel the turn and stop its agents. Completed work is kept, planned items stay open. Returns the ids of the ended runs.

    What the agent was saying is stored, if this process has it in `live_text`. Otherwise the process that runs the agent stores it.
    """
    run = run_store.find_by_turn(tx, tenant_id, text.check_text(turn_id, "turn_id"))
    if run:
        job_store.find_locked_job(tx, tenant_id, run.id)  # only the holder of the job's lock may change the run
        run = run_store.find_run(tx, tenant_id, run.id)
    turn = finding.lock_turn(tx, tenant_id, turn_id)
    if turn.ended:
        raise TurnEnded(f"Turn {turn_id} has already ended: {turn.status}.")
    ended: list[str] = []
    spent: dict[str, Any] = {}
    if run:
        ended = [*runs.cancel_descendants(tx, run), run.id]
        answer = live_text.of(run.id, run_store.get_next_message_number(tx, tenant_id, run.id)) if live_text else None
        turns.append_message(tx, run, "assistant", answer.text if answer else "", kind="stopped")
        spent = end_turn(tx, run, "canceled", "canceled", None, None).spent
    else:
        conversation_store.save_turn(tx, tenant_id, turn._replace(status="canceled", ended_at=tx.now))
    document = {"turn_id": turn_id, "incomplete": turns.list_incomplete(tx, tenant_id, turn_id), **spent}
    conversations.emit_conversation_changed(tx, tenant_id, turn.conversation_id, "state", "idle")
    tx.emit(Event(tenant_id, "turn_canceled", encode_json(document), turn.conversation_id, turn_id))
    return ended


def store_stopped(tx: Transaction, run: Run, answer: PartialAnswer) -> None:
    """Store what the agent of a canceled turn was saying, unless it was stored before, or the answer was."""
    job_store.find_locked_job(tx, run.tenant_id, run.id)  # also a process that has lost the run may have a part of the answer
    found = run_store.find_run(tx, run.tenant_id, run.id)
    if found is None or found.status != "canceled" or answer.step != run_store.get_next_message_number(tx, run.tenant_id, run.id):
        return
    if not message_store.list_last_words(tx, run.tenant_id, [run.turn_id or ""]):
        turns.append_message(tx, run, "assistant", answer.text, kind="stopped")


def end_turn(
    tx: Transaction, run: Run, status: RunStatus, turn_status: TurnStatus, outcome: str | None, result: str | None
) -> EndedTurn:
    turn_rows, job_rows, spent_rows = tx.fetch(
        conversation_store.build_find_turn(run.tenant_id, run.turn_id or ""),
        job_store.build_find_locked(tx, run.tenant_id, run.id),
        spending_store.build_list_turn(run.tenant_id, run.turn_id or ""),
    )
    turn = finding.load_turn(turn_rows, run.turn_id or "")
    if turn.waiting:
        waiting.cancel_open(tx, run)
    if turn.status == "paused":
        notices.settle_turn(tx, run.tenant_id, turn.id)
    run = spending.release(tx, run)
    run = run._replace(status=status, result=result, updated_at=tx.now, ended_at=tx.now)
    run_store.save_run(tx, run)
    turn = turn._replace(status=turn_status, outcome=outcome, ended_at=tx.now)
    conversation_store.save_turn(tx, run.tenant_id, turn)
    if job_rows:
        jobs.close_locked(tx, job_store.load_job(tx, job_rows[0]), status, result or "")
    if run.repository and status != "completed":
        runs.create_cleanup(tx, run)
    spent = spending.load_turn_spending(spent_rows).as_json()
    return EndedTurn(run, {**spent, "duration_s": turn.duration_s})

"""The end of a run, which is also the end of its turn, of its sub-goal or of its parent's task."""

from headway.actions import goals, jobs, runs, turns
from headway.ledger.run import Run, RunEnd
from headway.storage.transaction import Transaction


def end_run(tx: Transaction, run: Run, end: RunEnd) -> Run:
    """End the run in the way that suits its work. A goal's main agent ends only its current sub-goal and waits for the next one."""
    if run.is_main:
        return goals.end_inline(tx, run, end)
    if run.answers_turn and end.outcome:
        return turns.finish(tx, run, end.outcome, end.answer)
    if run.answers_turn:
        return turns.fail(tx, run, end.error or "", end.code)
    if end.code:
        jobs.close(tx, run.tenant_id, run.id, "failed", end.error or "")
    return runs.end_child(tx, run, end)

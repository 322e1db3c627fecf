"""Agent runs: starting, ending and canceling sub-agents, and reporting all runs."""

import json
from typing import Any, NamedTuple
from uuid import uuid4

from headway.actions.access import spending
from headway.actions.access.spending import LockedPool
from headway.actions.runs import jobs, sub_goals, waiting
from headway.ledger import text
from headway.ledger.cursors import NEWEST, CursorCodec
from headway.ledger.errors import Conflict, NotFound
from headway.ledger.events import RUN_TEXTS, Event, encode_json, list_unchanged_texts, omit_texts
from headway.ledger.job import MAX_ATTEMPTS, NEVER, Job
from headway.ledger.money import to_dollars
from headway.ledger.run import Run, RunEnd
from headway.ledger.todo import Todo
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

JOB_KIND = "agent"  # the kind of a sub-agent's job
WORKTREE_KIND = "worktree"  # the kind of a job that cleans up after a run that worked in a repository
CANCELED_END = RunEnd("canceled", error="It was canceled.")


def begin_child(
    tx: Transaction,
    parent: Run,
    role: str,
    task: str,
    limit: int,
    attempts: int = MAX_ATTEMPTS,
    sub_goal_id: int | None = None,
    repository: str = "",
) -> Run:
    """Create a sub-agent, queued. The sub-agents of one parent share a number of slots, and its repository unless one is given."""
    child = Run(
        id=str(uuid4()),
        tenant_id=parent.tenant_id,
        conversation_id=parent.conversation_id,
        turn_id=parent.turn_id,
        parent_run_id=parent.id,
        role=role,
        task=task,
        depth=parent.depth + 1,
        status="queued",
        created_at=tx.now,
        updated_at=tx.now,
        limit=limit,
        goal_id=parent.goal_id,
        sub_goal_id=sub_goal_id or parent.sub_goal_id,
        repository=repository or parent.repository,
        replays=parent.replays,
    )
    run_store.insert_run(tx, child)
    payload = {"run_id": child.id, "role": role, "task": task[: text.SUBJECT_LIMIT]}
    jobs.create_job(tx, parent.tenant_id, JOB_KIND, payload, job_id=child.id, family=parent.id, max_attempts=attempts)
    emit_run_changed(tx, child)
    return child


def end_child(tx: Transaction, run: Run, end: RunEnd) -> Run:
    """Store the sub-agent's result, close its job and wake its parent."""
    waiting.cancel_open(tx, run)
    run = spending.release(tx, run)
    result = {**end.as_result(), "cost_usd": to_dollars(run.cost)}
    run = run._replace(status=end.status, result=encode_json(result), updated_at=tx.now, ended_at=tx.now)
    run_store.save_run(tx, run)
    jobs.close(tx, run.tenant_id, run.id, "canceled" if end.status == "canceled" else "completed", "")
    if run.parent_run_id:
        jobs.wake_job(tx, run.tenant_id, run.parent_run_id)
    emit_run_changed(tx, run)
    if run.repository:
        create_cleanup(tx, run)
    sub_goals.end_with_run(tx, run, {**result, "changes": decode_changes(run)} if run.changes else result)
    return run


def set_repository(tx: Transaction, run: Run, repository: str) -> Run:
    """Let a run that has not begun work in the repository that its role names."""
    run = run._replace(repository=repository)
    run_store.save_repository(tx, run)
    return run


def create_cleanup(tx: Transaction, run: Run) -> None:
    """Create the job that commits the run's uncommitted changes and removes its worktree."""
    jobs.create_job(tx, run.tenant_id, WORKTREE_KIND, {"run_id": run.id}, family=run.id)


def save_changes(tx: Transaction, run: Run, changes: dict[str, Any], diff: str) -> Run:
    """Store what the run changed in its repository."""
    run = run._replace(changes=encode_json(changes))
    run_store.save_changes(tx, run, diff)
    return run


def decode_changes(run: Run) -> dict[str, Any] | None:
    """Return what the run changed in its repository, without the diff; None if it has no repository or has not ended."""
    changes: dict[str, Any] | None = json.loads(run.changes) if run.changes else None
    return changes


def load_changes(tx: Transaction, run: Run) -> dict[str, Any] | None:
    """Return what the run changed in its repository, with the diff."""
    changes = decode_changes(run)
    return {**changes, "diff": run_store.find_diff(tx, run.tenant_id, run.id)} if changes else None


def revive(tx: Transaction, run: Run) -> None:
    """Let a failed sub-agent continue from the end of its transcript."""
    run = run._replace(status="queued", result=None, updated_at=tx.now, ended_at=0)
    run_store.save_run(tx, run)
    emit_run_changed(tx, run)


def cancel_run(tx: Transaction, tenant_id: int, run_id: str) -> Run:
    """Cancel a sub-agent and all its descendants."""
    run = get_run(tx, tenant_id, run_id)
    if run.parent_run_id is None:
        advice = "answers a turn: cancel the turn" if run.goal_id is None else "pursues a goal: abandon the goal"
        raise Conflict(f"This run {advice} instead.")
    return cancel_tree(tx, run)


def cancel_tree(tx: Transaction, run: Run) -> Run:
    run = get_locked_run(tx, run)
    if run.ended:
        raise Conflict(f"Run {run.id} has already ended: {run.status}.")
    cancel_descendants(tx, run)
    return end_child(tx, run, CANCELED_END)


def cancel_descendants(tx: Transaction, run: Run) -> list[str]:
    """Cancel the run's unfinished descendants and return their ids."""
    ended: list[str] = []
    for descendant in run_store.list_unfinished_descendants(tx, run.tenant_id, run.id):
        locked = get_locked_run(tx, descendant)
        if not locked.ended:
            ended.append(locked.id)
            end_child(tx, locked, CANCELED_END)
    return ended


def cancel_workers(tx: Transaction, tenant_id: int, sub_goal_id: int) -> None:
    """Cancel all sub-agents of a sub-goal."""
    for worker in run_store.list_unfinished_workers(tx, tenant_id, sub_goal_id):
        run = get_locked_run(tx, worker)
        if not run.ended:  # canceling its parent may have ended it already
            cancel_tree(tx, run)


def release_workers(tx: Transaction, tenant_id: int, sub_goal_id: int) -> None:
    """Requeue the sub-agents of a sub-goal that were held back after an interruption."""
    for run in run_store.list_unfinished_workers(tx, tenant_id, sub_goal_id):
        job = job_store.find_locked_job(tx, tenant_id, run.id)
        if job and job.state == "delayed" and job.due_at == NEVER:
            jobs.move(tx, job, "queued")


def set_hint(tx: Transaction, run: Run, hint: str) -> None:
    """Store a hint that the agent reads before its next step."""
    run = get_locked_run(tx, run)
    if not run.ended:
        run_store.save_run(tx, run._replace(hint=hint))


def get_locked_run(tx: Transaction, run: Run) -> Run:
    """Lock the run's job, waiting for a step in progress, and return the run as it is then."""
    lock_root(tx, run)
    job_store.find_locked_job(tx, run.tenant_id, run.id)
    return get_run(tx, run.tenant_id, run.id)


def lock_root(tx: Transaction, run: Run) -> None:
    """Lock the job of a sub-agent's turn or goal, before its own. Agents of one turn or goal wake, stop and count each other; this
    lock makes them take their steps one at a time, so that they cannot deadlock."""
    if run.parent_run_id is not None:
        job_store.lock_root(tx, run.tenant_id, run.turn_id, run.goal_id)


class StepRows(NamedTuple):
    """The rows that a step of a run starts from."""

    job: Job
    run: Run
    is_halted: bool
    plan: list[Todo]  # of the turn that was asked for
    pool: LockedPool


def begin_step(tx: Transaction, run: Run, turn_id: str, owner: str, *, locks_pool: bool = False) -> StepRows | None:
    """Lock the run's job and read what a step needs, in one round trip. Returns None if another process owns the job.

    The run is read by its own statement: after waiting for the lock, a joint statement would return the new job with the old run.
    With `locks_pool`, for a run whose calls cost money, the tenant's pool is locked as well.
    """
    lock_root(tx, run)
    queries = [job_store.build_find_locked(tx, run.tenant_id, run.id), run_store.build_find_with_halt(run.tenant_id, run.id)]
    if turn_id:
        queries.append(todo_store.build_list_by_turn(run.tenant_id, turn_id))
    if locks_pool:
        queries += spending.build_lock_pool(tx, run.tenant_id)
    jobs_found, runs_found, *others = tx.fetch(*queries)
    pool = spending.load_pool(tx, run.tenant_id, *others[-2:]) if locks_pool else None
    if not jobs_found or not runs_found:
        return None
    job = job_store.load_job(tx, jobs_found[0])
    if job.state != "running" or job.owner != owner:
        return None
    *columns, is_halted = runs_found[0]
    plan = [todo_store.TODOS.load(row) for row in others[0]] if turn_id else []
    return StepRows(job, Run._make(columns), bool(is_halted), plan, LockedPool(tx, run.tenant_id, pool))


def get_run(tx: Transaction, tenant_id: int, run_id: str) -> Run:
    run = run_store.find_run(tx, tenant_id, text.check_text(run_id, "run_id"))
    if run is None:
        raise NotFound(f"No run {run_id[:80]!r}.")
    return run


def list_runs(tx: Transaction, tenant_id: int, turn_id: str | None, limit: int, goal_id: int | None = None) -> list[Run]:
    """List runs, newest first, optionally only the runs of a turn or a goal."""
    return run_store.list_run_page(tx, tenant_id, None if turn_id is None else text.check_name(turn_id, "turn_id"), limit, goal_id)


def emit_run_changed(tx: Transaction, run: Run, retry_at: int = 0) -> None:
    """Emit the run. A long task, which never changes, is left out, unless the run was created just now."""
    document: dict[str, Any] = {"run": as_json(run, retry_at)}
    if run.created_at != tx.now:
        omit_texts(document, "run", list_unchanged_texts(run, run, RUN_TEXTS))
    tx.emit(Event(run.tenant_id, "agent_changed", encode_json(document), run.conversation_id, run.turn_id))


def emit_delay(tx: Transaction, run: Run, job: Job, reason: str) -> None:
    """Emit that the run will retry its call later, as an event of the turn that it answers or else of the run.

    `attempt` is the number of the next attempt, and `reason` says why the last one failed.
    """
    if not run.answers_turn:
        emit_run_changed(tx, run, job.retry_at)
        return
    data = {
        "turn_id": run.turn_id,
        "retry_at": job.retry_at,
        "delay_s": max(0, round((job.due_at - tx.now) / 1000)),
        "reason": reason,
        "attempt": job.attempts + 1,
        "attempts": job.max_attempts,
    }
    tx.emit(Event(run.tenant_id, "turn_delayed", encode_json(data), run.conversation_id, run.turn_id))


def build_result(tx: Transaction, run: Run) -> dict[str, Any]:
    """Return a sub-agent's result as its parent receives it. An unfinished one has the status `running`."""
    if not run.ended:
        return {"run_id": run.id, "status": "running"}
    result = {"run_id": run.id, **json.loads(run.result or "{}")}
    return {**result, "changes": load_changes(tx, run)} if run.changes else result


def show_run(tx: Transaction, run: Run) -> dict[str, Any]:
    document = as_json(run, jobs.retry_times(tx, run.tenant_id, [run.id]).get(run.id, 0))
    return {**document, "changes": load_changes(tx, run)} if run.changes else document


def as_json(run: Run, retry_at: int = 0) -> dict[str, Any]:
    structured = run.ended and (run.parent_run_id is not None or run.is_main)
    return {
        "id": run.id,
        "parent_run_id": run.parent_run_id,
        "conversation_id": run.conversation_id,
        "turn_id": run.turn_id,
        "goal_id": run.goal_id,
        "sub_goal_id": run.sub_goal_id,
        "role": run.role,
        "task": run.task,
        "depth": run.depth,
        "status": run.status,
        "result": json.loads(run.result or "null") if structured else run.result,
        "iterations": run.iterations,
        "limit": run.limit,
        "changes": decode_changes(run),
        "cost_usd": to_dollars(run.cost),
        "retry_at": retry_at,
        "created_at": run.created_at // 1000,
        "updated_at": run.updated_at // 1000,
        "ended_at": run.ended_at // 1000,
        "start_ms": run.created_at,
        "end_ms": run.ended_at,
    }


# Lists, newest first


AGENT_CURSORS = CursorCodec("agents", NEWEST)


class AgentPage(NamedTuple):
    agents: list[Run]
    next_cursor: str | None
    retry_times: dict[str, int]  # of turns that wait to retry a model call

    def as_json(self) -> dict[str, Any]:
        agents = [as_json(run, self.retry_times.get(run.id, 0)) for run in self.agents]
        return {"agents": agents, "next_cursor": self.next_cursor}


class RunFilter(NamedTuple):
    """Selects the runs of a turn or of a goal; all runs if neither is given."""

    turn_id: str | None = None
    goal_id: int | None = None


def list_agents(tx: Transaction, tenant_id: int, run_filter: RunFilter, limit: int, cursor: str | None = None) -> AgentPage:
    turn_id = None if run_filter.turn_id is None else text.check_name(run_filter.turn_id, "turn_id")
    rows = run_store.list_run_page(tx, tenant_id, turn_id, limit + 1, run_filter.goal_id, AGENT_CURSORS.decode(cursor))
    retry_times = jobs.retry_times(tx, tenant_id, [run.id for run in rows if not run.ended])
    next_cursor = AGENT_CURSORS.encode_next(rows, limit, lambda run: (run.created_at, run.id))
    return AgentPage(rows[:limit], next_cursor, retry_times)

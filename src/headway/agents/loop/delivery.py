"""Work in repositories, as part of a run: its worktree before the first step, and the delivery of its work before its end."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from pydantic_ai.messages import ModelResponse

from headway.actions.runs import jobs, runs
from headway.agents.loop.context import Runtime
from headway.agents.loop.requests import Delivered, PermanentFailure, RetryableFailure
from headway.agents.loop.step import Step
from headway.agents.repositories import delivery
from headway.agents.repositories.delivery import BranchTaken, Delivery, Lineage
from headway.agents.repositories.git import GitBusy, GitFailed
from headway.agents.tools.execution import ResolvedScope
from headway.ledger.errors import Invalid
from headway.ledger.job import Job
from headway.ledger.run import Run, RunEnd
from headway.ledger.scope import Scope
from headway.storage.retry import retry_storage
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

CODE: Final = "repository_failed"
GIT_THREADS: Final = 4
EXECUTOR: Final = ThreadPoolExecutor(GIT_THREADS, "headway-git")  # its own, because its threads may wait for a repository's lock
T = TypeVar("T")


async def run_in_thread(work: Callable[..., T], *arguments: Any, **options: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(EXECUTOR, partial(work, *arguments, **options))


async def take_repository(runtime: Runtime, run: Run, repository: str) -> Run:
    """Let a turn that has not begun work in the repository that its role names. One that has begun stays where it is."""
    if run.repository or run.iterations:
        return run
    return await runtime.database.write(lambda tx: runs.set_repository(tx, run, repository))


async def load_lineage(runtime: Runtime, run: Run) -> Lineage:
    role = runtime.roles.find(run.role)
    execution = runtime.execution(ResolvedScope(Scope(run.tenant_id), None), role)
    work = partial(list_lineage, run=run)
    rows = await retry_storage(lambda: runtime.database.read(work), f"run {run.id}", max_refusals=1)
    return Lineage(runtime.worktrees, execution.workspace, execution.sandbox, rows)


def list_lineage(tx: Transaction, run: Run) -> list[Run]:
    """List the run with its ancestors in the same repository, the oldest first."""
    lineage = [runs.get_run(tx, run.tenant_id, run.id)]
    while lineage[0].parent_run_id is not None:
        parent = runs.get_run(tx, run.tenant_id, lineage[0].parent_run_id)
        if parent.repository != run.repository:
            break
        lineage.insert(0, parent)
    return lineage


async def prepare(runtime: Runtime, run: Run) -> PermanentFailure | RetryableFailure | None:
    """Create the worktrees of the run and its ancestors, unless they exist. Returns the failure, if there is one."""
    try:
        lineage = await load_lineage(runtime, run)
        if await run_in_thread(delivery.is_ready, lineage):
            return None
        for count in range(1, len(lineage.runs) + 1):
            lineage = await prepare_one(runtime, lineage, count)
    except (GitFailed, Invalid, OSError) as error:
        return to_failure(error)
    return None


async def prepare_one(runtime: Runtime, lineage: Lineage, count: int) -> Lineage:
    """Create the worktree of one run. The commit that its work starts from is stored before its branch is created."""
    part = lineage._replace(runs=lineage.runs[:count])
    run = part.run
    if not run.base:
        base = await choose_base(runtime, part)
        run = run._replace(base=await runtime.database.write(partial(run_store.save_base, run=run, base=base)))
        lineage = lineage._replace(runs=[*lineage.runs[: count - 1], run, *lineage.runs[count:]])
    await run_in_thread(delivery.create_worktree, lineage._replace(runs=lineage.runs[:count]))
    return lineage


async def choose_base(runtime: Runtime, lineage: Lineage) -> str:
    run = lineage.run
    continues = run.answers_turn and await runtime.database.read(partial(run_store.has_branch, run=run))
    try:
        return await run_in_thread(delivery.choose_base, lineage, continues=continues)
    except BranchTaken:
        current = await runtime.database.read(lambda tx: runs.get_run(tx, run.tenant_id, run.id))
        if not current.base:
            raise
        return current.base  # another sub-agent has created the branch of their parent meanwhile


def to_failure(error: Exception) -> PermanentFailure | RetryableFailure:
    if isinstance(error, GitBusy):
        return RetryableFailure(str(error), None, CODE)
    return PermanentFailure(str(error), CODE)


async def deliver(runtime: Runtime, run: Run, end: RunEnd) -> Delivered | PermanentFailure | RetryableFailure:
    """Commit the run's work, and merge a sub-agent's if it succeeded. A sub-agent whose work cannot be merged has failed."""
    try:
        lineage = await load_lineage(runtime, run)
        delivered = await run_in_thread(delivery.deliver, lineage, merge=end.status == "completed")
    except (GitFailed, Invalid, OSError) as error:
        return to_failure(error)
    if delivered.conflicts:
        end = end._replace(status="failed", error=delivery.describe_conflict(lineage, delivered.conflicts))
    return Delivered(end, delivered.changes, delivered.diff)


def accept(step: Step, reply: Delivered) -> None:
    """Store what the run changed, and end it. If a person has sent a message meanwhile, it continues instead."""
    response = step.entries[-1].message
    if step.run.unread and isinstance(response, ModelResponse) and not response.tool_calls:
        step.read_on(reply.end.answer)
        return
    step.run = runs.save_changes(step.tx, step.run, reply.changes, reply.diff)
    step.close(reply.end)


async def commit_goal(runtime: Runtime, run: Run) -> str:
    """Commit the work of a goal's main agent, and store what the goal has changed. Returns the reason if that fails."""
    failure = await prepare(runtime, run)
    if failure:
        return failure.message
    delivered = await deliver(runtime, run, RunEnd("completed"))
    if not isinstance(delivered, Delivered):
        return delivered.message

    def store(tx: Transaction) -> None:
        if jobs.find_owned(tx, run.tenant_id, run.id, runtime.owner):
            runs.save_changes(tx, run, delivered.changes, delivered.diff)

    await retry_storage(lambda: runtime.database.write(store), f"run {run.id}", max_refusals=1)
    return ""


async def clean_up(runtime: Runtime, job: Job) -> None:
    """Commit what an ended run left in its worktree, and remove what is no longer needed."""
    run_id = str(json.loads(job.payload)["run_id"])
    find_run = partial(run_store.find_run, tenant_id=job.tenant_id, run_id=run_id)
    run = await runtime.database.read(find_run)
    released: Delivery | None = None
    failure: Exception | None = None
    try:
        if run is not None and run.ended:
            lineage = await load_lineage(runtime, run)
            released = await run_in_thread(delivery.release, lineage)
            run = await runtime.database.read(find_run)
            if released and run is not None and run.ended and not run.answers_turn:
                await run_in_thread(delivery.discard, lineage, released)
    except (GitFailed, Invalid, OSError) as error:
        failure = error
    settle = partial(settle_cleanup, runtime=runtime, job=job, run_id=run_id, released=released, failure=failure)
    await retry_storage(lambda: runtime.database.write(settle), f"{job.kind} {job.id}", max_refusals=1)


def settle_cleanup(
    tx: Transaction, runtime: Runtime, job: Job, run_id: str, released: Delivery | None, failure: Exception | None
) -> None:
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, runtime.owner)
    if owned_job is None:
        return
    if isinstance(failure, GitBusy):
        jobs.retry_later(tx, owned_job, str(failure), runtime.limits)
        return
    if failure:
        jobs.fail_permanently(tx, owned_job, str(failure))
        return
    run = run_store.find_run(tx, job.tenant_id, run_id)
    if released and run and run.ended and not run.changes:
        run = runs.save_changes(tx, run, released.changes, released.diff)
        if not run.answers_turn:
            runs.emit_run_changed(tx, run)
    jobs.complete_job(tx, owned_job)

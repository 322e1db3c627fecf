"""Handlers for the engine's jobs: drive turns and sub-agents, call scheduled tools."""

import json
from functools import partial

from headway.actions import jobs, run_ends, runs, turns
from headway.agents.loop.context import Runtime
from headway.agents.loop.driver import drive
from headway.agents.tools.execution import resolve_scope
from headway.agents.tools.toolbox import Result, call_external, call_in_transaction, to_result
from headway.agents.transcript import to_storable
from headway.engine import INTERRUPTED_ERROR, JobHandler
from headway.ledger.errors import HeadwayError, StorageError
from headway.ledger.job import Job
from headway.ledger.run import RunEnd
from headway.ledger.scope import Scope
from headway.storage.retry import retry_storage
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

IN_FLIGHT = "begun"  # the stored result of a tool call that has started and not returned


def build_handlers(means: Runtime) -> dict[str, JobHandler]:
    run = JobHandler(partial(drive_run, means), fail_run)
    return {turns.JOB_KIND: run, runs.JOB_KIND: run, jobs.TOOL: JobHandler(partial(call_tool, means), fail_job)}


async def drive_run(means: Runtime, job: Job) -> None:
    run = await means.database.read(lambda tx: run_store.find(tx, job.tenant_id, job.id))
    if run is not None:
        await drive(means, run, taken_over=job.count_trailing_failures(INTERRUPTED_ERROR) > 0)


def fail_run(tx: Transaction, job: Job, error: str) -> None:
    """Fail a run that an internal error ended or that repeatedly crashed its worker."""
    run = run_store.find(tx, job.tenant_id, job.id)
    if run is None or run.ended:
        fail_job(tx, job, error)
    else:
        run_ends.end_run(tx, run, RunEnd.fail(error, "internal"))


def fail_job(tx: Transaction, job: Job, error: str) -> None:
    jobs.fail_permanently(tx, job, error)


async def call_tool(means: Runtime, job: Job) -> None:
    """Call a scheduled tool.

    A ledger tool runs in the transaction that ends its job. An external tool that was interrupted, or that failed transiently, is
    called again only if it is idempotent.
    """
    wanted = json.loads(job.payload)
    scope = Scope(job.tenant_id, wanted.get("conversation_id", 0), None, wanted.get("role", "schedule"))
    try:
        role = means.roles.find(wanted.get("role", "index"))
        tool = means.toolbox.find(wanted["name"])
        place = await means.database.read(lambda tx: resolve_scope(tx, scope))
    except StorageError:
        raise  # the job itself is fine
    except HeadwayError as error:
        await means.database.write(partial(record_tool_result, means=means, job=job, result=to_result({"error": str(error)})))
        return
    execution = means.execution(place, role)._replace(effect_key=wanted.get("effect_key", job.id))
    if tool.in_transaction is not None:

        def work(tx: Transaction) -> None:
            if jobs.find_owned(tx, job.tenant_id, job.id, means.owner):
                record_tool_result(tx, means, job, call_in_transaction(tool, wanted["arguments"], execution, tx))

        await means.database.write(work)
        return
    if json.loads(job.result) == IN_FLIGHT and not tool.idempotent:
        result = Result({"error": "It was interrupted, and whether it took effect is unknown."}, is_error=True)
    elif await means.database.write(partial(mark_tool_started, job=job, owner=means.owner)):
        result = await call_external(tool, wanted["arguments"], execution)
    else:
        return
    stored = partial(record_tool_result, means=means, job=job, result=result)
    await retry_storage(lambda: means.database.write(stored), f"{job.kind} {job.id}", max_refusals=1)


def mark_tool_started(tx: Transaction, job: Job, owner: str) -> bool:
    """Record that the call has started before making it, so that after a crash it is never mistaken for one that was not made."""
    held = jobs.find_owned(tx, job.tenant_id, job.id, owner)
    if held:
        jobs.move(tx, held, "running", result=json.dumps(IN_FLIGHT))
    return held is not None


def record_tool_result(tx: Transaction, means: Runtime, job: Job, result: Result) -> None:
    held = jobs.find_owned(tx, job.tenant_id, job.id, means.owner)
    if held is None:
        return
    if not result.is_error:
        jobs.complete(tx, held, result.value)
        return
    held, error = held._replace(result="null"), to_storable(result.error)
    if result.passes:
        jobs.retry_later(tx, held, error, means.limits)
    else:
        jobs.fail_permanently(tx, held, error)

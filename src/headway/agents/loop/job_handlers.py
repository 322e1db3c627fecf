"""Handlers for the engine's jobs: drive turns and sub-agents, call scheduled tools."""

import json
from functools import partial
from typing import Any

from headway.actions.engine import run_ends
from headway.actions.runs import jobs, runs
from headway.actions.turns import turns
from headway.agents.checks.completion import Prover
from headway.agents.loop.context import Runtime
from headway.agents.loop.driver import drive
from headway.agents.permission import find_denial
from headway.agents.tools.execution import Execution, record_files, resolve_scope
from headway.agents.tools.external_calls import call_external
from headway.agents.tools.toolbox import Result, Tool, call_in_transaction, to_result
from headway.engine.runner import JobHandler
from headway.engine.takeover import INTERRUPTED_ERROR
from headway.ledger.errors import ChecksRequired, HeadwayError, StorageError
from headway.ledger.job import Job
from headway.ledger.run import RunEnd
from headway.ledger.scope import Scope
from headway.ledger.text import to_storable
from headway.storage.retry import retry_storage
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

IN_FLIGHT = "begun"  # the stored result of a tool call that has started and not returned


def build_handlers(runtime: Runtime) -> dict[str, JobHandler]:
    run = JobHandler(lambda job: drive_run(runtime.of(job.tenant_id), job), fail_run)
    return {
        turns.JOB_KIND: run,
        runs.JOB_KIND: run,
        jobs.TOOL: JobHandler(lambda job: call_tool(runtime.of(job.tenant_id), job), fail_job),
        runs.WORKTREE_KIND: JobHandler(lambda job: clean_up_worktree(runtime.of(job.tenant_id), job), fail_job),
    }


async def clean_up_worktree(runtime: Runtime, job: Job) -> None:
    from headway.agents.loop.delivery import clean_up  # noqa: PLC0415  most runs do not work in a repository

    await clean_up(runtime, job)


async def drive_run(runtime: Runtime, job: Job) -> None:
    run = await runtime.database.read(lambda tx: run_store.find_run(tx, job.tenant_id, job.id))
    if run is not None:
        await drive(runtime, run, taken_over=job.count_trailing_failures(INTERRUPTED_ERROR) > 0)


def fail_run(tx: Transaction, job: Job, error: str) -> None:
    """Fail a run that an internal error ended or that repeatedly crashed its worker."""
    run = run_store.find_run(tx, job.tenant_id, job.id)
    if run is None or run.ended:
        fail_job(tx, job, error)
    else:
        run_ends.end_run(tx, run, RunEnd.fail(error, "internal"))


def fail_job(tx: Transaction, job: Job, error: str) -> None:
    jobs.fail_permanently(tx, job, error)


async def call_tool(runtime: Runtime, job: Job) -> None:
    """Call a scheduled tool.

    A ledger tool runs in the transaction that ends its job. An external tool that was interrupted, or that failed transiently, is
    called again only if it is idempotent.
    """
    payload = json.loads(job.payload)
    scope = Scope(job.tenant_id, payload.get("conversation_id", 0), None, payload.get("role", "schedule"))
    try:
        role = runtime.roles.find(payload.get("role", "index"))
        tool = runtime.toolbox.find(payload["name"])
        resolved_scope = await runtime.database.read(lambda tx: resolve_scope(tx, scope))
    except StorageError:
        raise  # the job itself is fine
    except HeadwayError as error:
        await runtime.database.write(partial(record_tool_result, runtime=runtime, job=job, result=to_result({"error": str(error)})))
        return
    execution = runtime.execution(resolved_scope, role)._replace(effect_key=payload.get("effect_key", job.id))
    denial = await runtime.database.read(partial(find_denial, tool=tool, arguments=payload["arguments"], execution=execution))
    if denial:
        result = to_result({"error": denial})
        await runtime.database.write(partial(record_tool_result, runtime=runtime, job=job, result=result))
        return
    if tool.changes_ledger:
        await call_ledger_tool(runtime, job, tool, payload["arguments"], execution)
        return
    if json.loads(job.result) == IN_FLIGHT and not tool.idempotent:
        result = Result({"error": "It was interrupted, and whether it took effect is unknown."}, is_error=True)
    elif await runtime.database.write(partial(mark_tool_started, job=job, owner=runtime.owner)):
        result = await call_external(tool, payload["arguments"], execution)
    else:
        return
    stored = partial(record_tool_result, runtime=runtime, job=job, result=result, execution=execution)
    await retry_storage(lambda: runtime.database.write(stored), f"{job.kind} {job.id}", max_refusals=1)


async def call_ledger_tool(runtime: Runtime, job: Job, tool: Tool, arguments: dict[str, Any], execution: Execution) -> None:
    """Call a ledger tool. If it would complete a todo that has checks, these run first."""
    refusals: dict[int, str] = {}

    def work(tx: Transaction) -> None:
        if not jobs.find_owned(tx, job.tenant_id, job.id, runtime.owner):
            return
        try:
            result = call_in_transaction(tool, arguments, execution, tx)
        except ChecksRequired as required:
            if required.todo_id not in refusals:
                raise
            result = to_result(tool.refuse(refusals[required.todo_id]))
        record_tool_result(tx, runtime, job, result)

    await Prover(runtime.checks, execution, "schedule").write(runtime.database.write, work, refusals)


def mark_tool_started(tx: Transaction, job: Job, owner: str) -> bool:
    """Record that the call has started before making it, so that after a crash it is never mistaken for one that was not made."""
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, owner)
    if owned_job:
        jobs.move(tx, owned_job, "running", result=json.dumps(IN_FLIGHT))
    return owned_job is not None


def record_tool_result(tx: Transaction, runtime: Runtime, job: Job, result: Result, execution: Execution | None = None) -> None:
    """End the job of a call, and record the files that it wrote."""
    owned_job = jobs.find_owned(tx, job.tenant_id, job.id, runtime.owner)
    if owned_job is None:
        return
    if execution is not None and result.written.files:
        record_files(tx, execution, json.loads(job.payload)["name"], result.written)
    if not result.is_error:
        jobs.complete_job(tx, owned_job, result.value)
        return
    owned_job, error = owned_job._replace(result="null"), to_storable(result.error)
    if result.is_transient:
        jobs.retry_later(tx, owned_job, error, runtime.limits)
    else:
        jobs.fail_permanently(tx, owned_job, error)

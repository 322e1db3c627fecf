"""How the engine's jobs are worked on: turns and sub-agents are driven, scheduled tools are called."""

import json
from functools import partial

from headway.actions import jobs, runs, turns
from headway.agents.execution import find_place
from headway.agents.loop import drive, patiently
from headway.agents.toolbox import Result, judged, perform, reach_out
from headway.agents.transcript import storable
from headway.agents.work import Means
from headway.engine import INTERRUPTED, Handler
from headway.ledger.errors import HeadwayError, StorageError
from headway.ledger.job import Job
from headway.ledger.scope import Scope
from headway.storage import run_store
from headway.storage.transaction import Transaction

BEGUN = "begun"  # the result of a tool that was called and has not answered


def handlers(means: Means) -> dict[str, Handler]:
    run = Handler(partial(drive_run, means), bury_run)
    return {turns.TURN: run, runs.AGENT: run, jobs.TOOL: Handler(partial(call_tool, means), jobs_die)}


async def drive_run(means: Means, job: Job) -> None:
    run = await means.database.read(lambda tx: run_store.get(tx, job.tenant_id, job.id))
    if run is not None:
        await drive(means, run, taken_over=job.failures_like(INTERRUPTED) > 0)


def bury_run(tx: Transaction, job: Job, error: str) -> None:
    """A run that a fault of ours ended, or that keeps bringing processes down."""
    run = run_store.get(tx, job.tenant_id, job.id)
    if run is None or run.ended:
        jobs_die(tx, job, error)
    elif run.parent_run_id is None:
        turns.fail(tx, run, error, "internal")
    else:
        jobs_die(tx, job, error)
        runs.end_child(tx, run, "failed", "", error=error)


def jobs_die(tx: Transaction, job: Job, error: str) -> None:
    jobs.die(tx, job, error)


async def call_tool(means: Means, job: Job) -> None:
    """A tool of the ledger is called in the transaction that ends its job. One that reaches outside and was interrupted, or failed
    in a way that may pass, is not called again unless that is harmless."""
    wanted = json.loads(job.payload)
    scope = Scope(job.tenant_id, wanted.get("conversation_id", 0), None, wanted.get("role", "schedule"))
    try:
        role = means.roles.find(wanted.get("role", "index"))
        tool = means.toolbox.find(wanted["name"])
        place = await means.database.read(lambda tx: find_place(tx, scope))
    except StorageError:
        raise  # nothing is wrong with the job
    except HeadwayError as error:
        await means.database.write(partial(end_tool, means=means, job=job, result=judged({"error": str(error)})))
        return
    execution = means.execution(place, role)._replace(effect_key=wanted.get("effect_key", job.id))
    if tool.in_transaction is not None:

        def work(tx: Transaction) -> None:
            if jobs.held_by(tx, job.tenant_id, job.id, means.owner):
                end_tool(tx, means, job, perform(tool, wanted["arguments"], execution, tx))

        await means.database.write(work)
        return
    if json.loads(job.result) == BEGUN and not tool.idempotent:
        result = Result({"error": "It was interrupted, and nobody knows whether it had its effect."}, is_error=True)
    elif await means.database.write(partial(begin_tool, job=job, owner=means.owner)):
        result = await reach_out(tool, wanted["arguments"], execution)
    else:
        return
    await patiently(lambda: means.database.write(partial(end_tool, means=means, job=job, result=result)))


def begin_tool(tx: Transaction, job: Job, owner: str) -> bool:
    """Written down before: however this process ends, nobody takes it for one that was not called yet."""
    held = jobs.held_by(tx, job.tenant_id, job.id, owner)
    if held:
        jobs.move(tx, held, "running", result=json.dumps(BEGUN))
    return held is not None


def end_tool(tx: Transaction, means: Means, job: Job, result: Result) -> None:
    held = jobs.held_by(tx, job.tenant_id, job.id, means.owner)
    if held is None:
        return
    if not result.is_error:
        jobs.complete(tx, held, result.value)
        return
    held, error = held._replace(result="null"), storable(result.error)
    if result.passes:
        jobs.set_back(tx, held, error, means.limits)
    else:
        jobs.die(tx, held, error)

"""Describes the present state of a todo, a turn or a job in a sentence or two, with what would change it."""

import json
from datetime import UTC, datetime
from typing import Final

from headway.actions import claims, halts, turns
from headway.actions.inspection.event_sentences import format_name
from headway.actions.inspection.journal_sentences import shorten
from headway.actions.people import waiting
from headway.ledger.job import LEASE_MS, NEVER, Job
from headway.ledger.run import Run
from headway.ledger.tenancy import Turn
from headway.ledger.todo import Todo
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction

MENTION_LIMIT: Final = 5
HALT_ADVICE: Final = "All work is halted. Lift the halt with `headway unhalt`."
POOL_SPENT: Final = "The cost pool is spent. Work continues when the limit is raised or the 24-hour window moves on."
NO_PROCESS: Final = "No process is running jobs. Start `headway serve` or `headway worker`."


def format_moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# Todos


def describe_todo(tx: Transaction, tenant_id: int, todo: Todo) -> str:
    name = f"Todo #{todo.id} is {todo.status.replace('_', ' ')}"
    if todo.ended:
        return f"{name}. Set it back to pending to reopen it: `headway todo reopen {todo.id}`."
    if todo.turn_id is not None:
        return f"{name}. {describe_plan_item(tx, tenant_id, todo.turn_id)}"
    if todo.status == "in_progress":
        lease = claims.find_lease(tx, tenant_id, todo.id)
        if lease is None:
            return f"{name}, by agent {format_name(todo.agent_id)}. It changes when someone completes, cancels or returns it."
        if lease.expires_at <= tx.now:
            return f"{name}, but the lease of agent {format_name(lease.agent_id)} has expired. The next claim takes it over."
        holder = f"agent {format_name(lease.agent_id)} holds a lease until {format_moment(lease.expires_at)}"
        return f"{name}: {holder}. It changes when that agent ends it, or when another one claims it after that time."
    open_ones = [
        dependency for number in todo.depends_on if (dependency := todo_store.find(tx, tenant_id, number)) and not dependency.ended
    ]
    if open_ones:
        names = ", ".join(f"#{one.id} “{shorten(one.subject, 60)}” ({one.status})" for one in open_ones[:MENTION_LIMIT])
        more = f" and {len(open_ones) - MENTION_LIMIT} more" if len(open_ones) > MENTION_LIMIT else ""
        return f"{name} and blocked: it waits for {names}{more}. End these, or remove the dependency."
    return f"{name} and ready: it can be started or claimed now."


def describe_plan_item(tx: Transaction, tenant_id: int, turn_id: str) -> str:
    turn = conversation_store.find_turn(tx, tenant_id, turn_id)
    if turn is None or turn.ended:
        return (
            "The turn that planned it has ended, so no agent works on it. Complete it, cancel it, or ask for it in a new message."
        )
    return f"It is in the plan of turn {turn_id}, which is {turn.shown_status}. Its agent must end it before the turn can finish."


# Turns


def describe_turn(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    run = run_store.find_by_turn(tx, tenant_id, turn.id)
    match turn.shown_status:
        case "waiting":
            return describe_wait(tx, tenant_id, turn)
        case "paused":
            return f"The turn is paused. {POOL_SPENT}"
        case "finished":
            return describe_outcome(tx, tenant_id, turn)
        case "failed":
            advice = f"Retry it with `headway admin job retry {run.id}`." if run else "Send a new message to try again."
            return f"The turn failed: {shorten(run.result if run else '')} {advice}"
        case "canceled":
            return "The turn was canceled. Finished work was kept. Send a new message to continue."
    if run is None:
        return "The turn is driven by an agent loop outside Headway, which decides when it ends."
    job = job_store.find(tx, tenant_id, run.id)
    if obstacle := describe_obstacle(tx, job):
        return f"The turn is running. {obstacle}"
    children = run_store.list_unfinished_descendants(tx, tenant_id, run.id)
    if run.status == "waiting" and children:
        names = ", ".join(f"{format_name(child.role)} ({child.id})" for child in children[:MENTION_LIMIT])
        return f"The turn is running: its agent waits for {len(children)} sub-agents: {names}."
    return f"The turn is running: its agent has taken {run.iterations} of at most {run.limit} steps."


def describe_wait(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    wait = waiting.find_by_turn(tx, tenant_id, turn.id)
    if wait is None:
        return "The turn waits for a person."
    more = f" ({turn.waiting - 1} more wait)" if turn.waiting > 1 else ""
    advice = waiting.advise(**wait)
    return f"The turn waits for {wait['kind']} #{wait['id']}{more}. {advice}, or cancel the turn."


def describe_outcome(tx: Transaction, tenant_id: int, turn: Turn) -> str:
    items = turns.list_incomplete(tx, tenant_id, turn.id)
    names = ", ".join(f"#{item['id']} “{shorten(item['title'], 60)}”" for item in items[:MENTION_LIMIT])
    more = f" and {len(items) - MENTION_LIMIT} more" if len(items) > MENTION_LIMIT else ""
    left = f" Open items: {names}{more}. Continue the turn, or end them yourself." if items else ""
    match turn.outcome:
        case "drained":
            return f"The turn finished: every item of its plan was ended.{left}"
        case "incomplete":
            return f"The turn finished incomplete: its agent kept answering without a change to the plan.{left}"
        case "limit":
            return f"The turn finished at a limit on its steps or resubmissions.{left}"
        case "filtered":
            return f"The turn finished, because the model's provider withheld its answer.{left}"
    return f"The turn finished with an answer.{left}"


# Jobs


def describe_work(job: Job, run: Run | None) -> str:
    if run is None:
        payload = json.loads(job.payload)
        return (
            f"it calls the tool {format_name(payload.get('name'))}"
            if job.kind == "tool"
            else f"its kind is {format_name(job.kind)}"
        )
    if run.is_main:
        return f"it pursues goal #{run.goal_id}"
    if run.parent_run_id is None:
        return f"it answers turn {run.turn_id}"
    return f"it is a {format_name(run.role)}, a sub-agent of run {run.parent_run_id}"


def describe_job(tx: Transaction, tenant_id: int, job: Job) -> str:
    errors = json.loads(job.errors)
    match job.state:
        case "dead":
            reason = shorten(errors[-1]) if errors else "it failed for good."
            advice = f"Retry it with `headway admin job retry {job.id}`, or delete it with `headway admin job rm {job.id}`."
            return f"The job is a dead letter: {reason} {advice}"
        case "completed" | "canceled":
            return f"The job is {job.state}. Nothing changes it any more."
    obstacle = describe_obstacle(tx, job)
    run = run_store.find(tx, tenant_id, job.id)
    if run and run.answers_turn and run.turn_id and (turn := conversation_store.find_turn(tx, tenant_id, run.turn_id)):
        return f"The job is {job.state}. {obstacle or describe_turn(tx, tenant_id, turn)}"
    if job.state == "delayed" and not obstacle:
        until = "something wakes it" if job.due_at >= NEVER else format_moment(job.due_at)
        return f"The job is delayed until {until}: it waits for a person, a sub-agent or budget."
    return f"The job is {job.state}. {obstacle}".rstrip()


def describe_obstacle(tx: Transaction, job: Job | None) -> str:
    """Describe what keeps a job that has not ended from running; empty if nothing does."""
    if halts.find_active(tx):
        return HALT_ADVICE
    if job is None:
        return ""
    if job.retry_at:
        error = shorten(json.loads(job.errors)[-1])
        return f"Attempt {job.attempts} of {job.max_attempts} failed: {error} The next one starts at {format_moment(job.due_at)}."
    if job.state in ("queued", "running") and not job_store.has_live_process(tx, LEASE_MS):
        return NO_PROCESS
    return "It is queued: a process with a free slot takes it." if job.state == "queued" else ""

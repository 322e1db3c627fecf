"""`headway admin job`: the queue and its dead jobs."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import click

from headway.actions.engine import dead_letters
from headway.actions.engine.dead_letters import BulkAction, BulkSelection
from headway.actions.goals import goals
from headway.actions.runs import jobs as job_actions
from headway.actions.runs import runs
from headway.actions.runs.jobs import JobPage
from headway.actions.turns import turns
from headway.cells.rules import Cell
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.job import Job, JobState
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import within_tenant
from headway.surfaces.cli.arguments import format_duration, limit_option
from headway.surfaces.cli.context import (
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    TenantDatabase,
    get_local_tenant,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.every_cell import ask_every_cell, report_failures
from headway.surfaces.cli.render import format_wait
from headway.surfaces.cli.tables import print_fields, print_row, print_table

F = TypeVar("F", bound=Callable[..., Any])

JOB_HEADINGS = ("job", "kind", "state", "attempts", "error")
COUNT_HEADINGS = ("state", "kind", "jobs")


@click.group(
    "job",
    cls=CommandGroup,
    unused=TENANT_WIDE,
    aliases={"drop": "rm"},
    examples=("headway admin job list --dead", "headway admin job retry --all-dead --kind webhook"),
)
def jobs() -> None:
    """Inspect the queue. A job that failed too often is dead: it stays until you retry or delete it."""


@jobs.command("list")
@click.option("--dead", is_flag=True, help="Only dead jobs.")
@click.option("--state", type=click.Choice(get_args(JobState)), help="Only jobs in this state.")
@click.option("--kind", metavar="KIND", help="Only jobs of this kind, such as turn, agent, goal, tool or webhook.")
@limit_option
@pass_invocation
def list_jobs(invocation: Invocation, limit: int, state: JobState | None, kind: str | None, *, dead: bool) -> None:
    """List jobs, newest first. With cells, --dead without --tenant lists the dead jobs of every tenant in every cell."""
    if dead and state not in (None, "dead"):
        raise Invalid("Give either --dead or --state.")
    if dead and kind is None and invocation.tenant is None:
        list_dead_jobs(invocation, limit)
        return
    with invocation.open_ledger() as ledger:
        page = ledger.read(job_actions.list_jobs, "dead" if dead else state, limit, kind=kind)
    print_job_page(invocation, page)


def print_job_page(invocation: Invocation, page: JobPage) -> None:
    cell = {"cell": invocation.cell} if invocation.cell else {}
    rows = list(map(build_job_row, page.jobs))
    invocation.answer({**page.as_json(), **cell}, lambda: print_table(JOB_HEADINGS, rows, "no jobs", more=bool(page.next_cursor)))


def list_dead_jobs(invocation: Invocation, limit: int) -> None:
    """List the dead jobs of the local tenant, or with cells of all tenants."""

    def read(cell: Cell | None, database: DirectDatabase) -> tuple[list[tuple[str, Job]], str | None]:
        """Return jobs with the names of their tenants, and without cells the cursor of the next page."""
        if cell:
            return database.read(lambda tx: job_actions.list_all_dead_jobs(tx, limit + 1)), None
        tenant = get_local_tenant(database)
        page = database.read(within_tenant(tenant.id, lambda tx: job_actions.list_jobs(tx, tenant.id, "dead", limit)))
        return [(tenant.name, job) for job in page.jobs], page.next_cursor

    answers = ask_every_cell(invocation, read)
    found = [(answer.cell, tenant, job) for answer in answers if answer.value for tenant, job in answer.value[0]]
    if answers[0].value and not answers[0].cell:
        print_job_page(invocation, JobPage([job for _, _, job in found], answers[0].value[1]))
        return
    found.sort(key=lambda row: (row[2].created_at, row[2].id), reverse=True)
    rows = [(cell, tenant, *build_job_row(job)) for cell, tenant, job in found[:limit]]
    documents = [{"cell": cell, "tenant": tenant, **job.as_json()} for cell, tenant, job in found[:limit]]
    cells = [answer.build_document(lambda _: {}) for answer in answers]
    document = {"jobs": documents, "has_more": len(found) > limit, "cells": cells}
    invocation.answer(document, lambda: print_table(("cell", "tenant", *JOB_HEADINGS), rows, "no jobs", more=len(found) > limit))
    report_failures(answers)


@jobs.command("show")
@click.argument("job_id")
@pass_invocation
def show_job(invocation: Invocation, job_id: str) -> None:
    """Show a job: its attempts, errors and payload."""
    with invocation.open_ledger() as ledger:
        job, document = ledger.read(job_actions.get_job, job_id), ledger.read(dead_letters.show_job, job_id)
    links = {name: value for name, value in (document["links"] or {}).items() if value}
    invocation.answer(document, lambda: print_fields({**build_wait_fields(job), **job.as_json(), **links}))


@jobs.command("stats")
@pass_invocation
def show_queue(invocation: Invocation) -> None:
    """Count the jobs that wait, run or are dead, by kind, and print the longest wait."""
    with invocation.open_ledger() as ledger:
        queue = ledger.read(dead_letters.build_queue)

    def render() -> None:
        rows = [(count["state"], count["kind"], str(count["count"])) for count in queue["counts"]]
        print_table(COUNT_HEADINGS, rows, "no jobs")
        if queue["due"]:
            click.echo(f"{queue['due']} due, the oldest for {format_duration(queue['oldest_due_s'])}")

    invocation.answer({"queue": queue}, render)


def selects_dead_jobs(command: F) -> F:
    """Add the options that select many dead jobs."""
    command = click.option("--kind", metavar="KIND", help="With --all-dead: only jobs of this kind.")(command)
    command = click.option("--all-dead", is_flag=True, help="All dead jobs of the tenant.")(command)
    return click.argument("job_id", required=False)(command)


def check_selection(job_id: str | None, kind: str | None, *, all_dead: bool) -> None:
    if (job_id is not None) == all_dead:
        raise Invalid("Give either a job or --all-dead.")
    if kind is not None and not all_dead:
        raise Invalid("--kind needs --all-dead.")


@jobs.command("retry")
@selects_dead_jobs
@pass_invocation
def retry_job(invocation: Invocation, job_id: str | None, kind: str | None, *, all_dead: bool) -> None:
    """Run a dead job again with the same context, or retry a delayed job now."""
    check_selection(job_id, kind, all_dead=all_dead)
    if job_id is None:
        change_dead_jobs(invocation, "retry", kind)
        return
    with invocation.open_ledger() as ledger:
        job = ledger.write(dead_letters.retry, job_id)
    invocation.answer({"job": job.as_json()}, lambda: print_row(build_job_row(job)))


@jobs.command("cancel")
@click.argument("job_id")
@pass_invocation
def cancel_job(invocation: Invocation, job_id: str) -> None:
    """Cancel a scheduled tool call, running or not yet started."""
    with invocation.open_ledger() as ledger:
        job = cancel_with_hint(ledger, job_actions.cancel_job, job_id)
    invocation.answer({"job": job.as_json()}, lambda: print_row(build_job_row(job)))


@jobs.command("rm")
@selects_dead_jobs
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def remove_job(invocation: Invocation, job_id: str | None, kind: str | None, *, all_dead: bool, yes: bool) -> None:
    """Delete a dead job for good."""
    check_selection(job_id, kind, all_dead=all_dead)
    if job_id is None:
        require_confirmation(f"Drop all dead jobs{f' of kind {kind}' if kind else ''} for good?", yes=yes)
        change_dead_jobs(invocation, "drop", kind)
        return
    with invocation.open_ledger() as ledger:
        job_actions.check_dead(ledger.read(job_actions.get_job, job_id))
        require_confirmation(f"Drop job {job_id} for good?", yes=yes)
        ledger.write(job_actions.drop, job_id)
    invocation.answer({"deleted": True}, lambda: click.echo(f"dropped {job_id}"))


def change_dead_jobs(invocation: Invocation, action: BulkAction, kind: str | None) -> None:
    """Change all dead jobs, a page per transaction, and print what could not be changed."""
    changed: list[str] = []
    refused: list[dict[str, str]] = []
    selection = BulkSelection(kind=kind)
    with invocation.open_ledger() as ledger:
        while True:
            page = ledger.write(dead_letters.change_dead_jobs, action, selection)
            changed += page["changed"]
            refused += page["refused"]
            if page["next_cursor"] is None:
                break
            selection = selection._replace(cursor=page["next_cursor"])

    def render() -> None:
        verb = {"retry": "retried", "drop": "dropped"}[action]
        click.echo(f"{verb} {len(changed)} jobs")
        for job in refused:
            click.echo(f"left {job['id']}: {job['detail']}")

    invocation.answer({"changed": changed, "refused": refused}, render)


def build_job_row(job: Job) -> Sequence[str]:
    return job.id, job.kind, job.state, f"{job.attempts}/{job.max_attempts}", job.as_json()["error"] or ""


T = TypeVar("T")


def cancel_with_hint(ledger: TenantDatabase, cancel: Callable[..., T], row_id: str) -> T:
    """Cancel a job or a run. If the action refuses because the row belongs to a turn, name the command that cancels the turn."""
    try:
        return ledger.write(cancel, row_id)
    except Conflict as error:
        turn_id = ledger.read(turns.find_id_by_run, row_id)
        if turn_id is None:
            raise
        raise Conflict(f"{error} Use `headway turn cancel {turn_id}`.") from None


def build_wait_fields(job: Job) -> dict[str, str]:
    """Describe when and why a job waits to retry a failed model call. Empty if no retry is scheduled."""
    if not job.retry_at or job.kind not in (turns.JOB_KIND, runs.JOB_KIND, goals.JOB_KIND):
        return {}
    return {"waits": format_wait(job.retry_at, job.as_json()["error"])}

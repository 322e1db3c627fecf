"""`headway jobs`, `headway agents` and `headway schedule`: inspect and control the engine."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from headway.actions import dead_letters, goals, runs, schedules, turns, views
from headway.actions import jobs as job_actions
from headway.actions.goals import DEFAULT_PRIORITY
from headway.actions.people import steering
from headway.actions.schedules import MIN_INTERVAL_MS, SCHEDULES_LIMIT, Timing
from headway.actions.views import JobPage, RunFilter
from headway.ledger.cells import Cell
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.job import Job
from headway.ledger.run import Run, to_dollars
from headway.ledger.schedule import Schedule
from headway.ledger.text import to_one_line
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import within_tenant
from headway.surfaces.cli.arguments import GOAL_ID, SECONDS, format_duration, parse_json_object
from headway.surfaces.cli.context import (
    SENDER,
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    TenantDatabase,
    get_local_tenant,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.every_cell import ask_every_cell, report_failures
from headway.surfaces.cli.render import format_time, format_wait
from headway.surfaces.cli.tables import print_row, print_table

T = TypeVar("T")

DEFAULT_PAGE_SIZE = 50
JOB_HEADINGS = ("job", "kind", "state", "attempts", "error")
RUN_HEADINGS = ("run", "role", "state", "steps", "cost", "task")
SCHEDULE_HEADINGS = ("name", "when", "next", "last", "work")


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def jobs() -> None:
    """Show and manage jobs and dead letters."""


@jobs.command("list")
@click.option("--dead", is_flag=True, help="Only dead jobs.")
@click.option("--limit", default=DEFAULT_PAGE_SIZE, show_default=True, type=click.IntRange(1, 500))
@pass_invocation
def list_jobs(invocation: Invocation, limit: int, *, dead: bool) -> None:
    """List jobs, newest first. With cells, --dead without --tenant lists those of all tenants of all cells."""
    if dead and invocation.tenant is None:
        list_dead_jobs(invocation, limit)
        return
    with invocation.open_ledger() as ledger:
        page = ledger.read(views.list_jobs, "dead" if dead else None, limit)
    print_job_page(invocation, page)


def print_job_page(invocation: Invocation, page: JobPage) -> None:
    cell = {"cell": invocation.cell} if invocation.cell else {}
    rows = list(map(build_job_row, page.jobs))
    invocation.answer({**page.as_json(), **cell}, lambda: print_table(JOB_HEADINGS, rows, "no jobs", more=bool(page.next_cursor)))


def list_dead_jobs(invocation: Invocation, limit: int) -> None:
    """List the dead jobs of the local tenant, or with cells those of all tenants."""

    def read(cell: Cell | None, database: DirectDatabase) -> tuple[list[tuple[str, Job]], str | None]:
        """Return jobs with the names of their tenants, and without cells the cursor of the next page."""
        if cell:
            return database.read(lambda tx: views.list_all_dead_jobs(tx, limit + 1)), None
        tenant = get_local_tenant(database)
        page = database.read(within_tenant(tenant.id, lambda tx: views.list_jobs(tx, tenant.id, "dead", limit)))
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
        job = ledger.read(job_actions.get, job_id)
    invocation.answer({"job": job.as_json()}, lambda: print_fields({**build_wait_fields(job), **job.as_json()}))


def build_wait_fields(job: Job) -> dict[str, str]:
    """Describe when and why a job waits to retry a failed model call. Empty if no retry is scheduled."""
    if not job.retry_at or job.kind not in (turns.JOB_KIND, runs.JOB_KIND, goals.JOB_KIND):
        return {}
    return {"waits": format_wait(job.retry_at, job.as_json()["error"])}


@jobs.command("retry")
@click.argument("job_id")
@pass_invocation
def retry_job(invocation: Invocation, job_id: str) -> None:
    """Run a dead job again with the same context, or retry a delayed job now."""
    with invocation.open_ledger() as ledger:
        job = ledger.write(dead_letters.retry, job_id)
    invocation.answer({"job": job.as_json()}, lambda: print_row(build_job_row(job)))


@jobs.command("cancel")
@click.argument("job_id")
@pass_invocation
def cancel_job(invocation: Invocation, job_id: str) -> None:
    """Cancel a scheduled tool call, running or not yet started."""
    with invocation.open_ledger() as ledger:
        job = cancel_with_hint(ledger, job_actions.cancel, job_id)
    invocation.answer({"job": job.as_json()}, lambda: print_row(build_job_row(job)))


@jobs.command("drop")
@click.argument("job_id")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def drop_job(invocation: Invocation, job_id: str, *, yes: bool) -> None:
    """Delete a dead job for good."""
    with invocation.open_ledger() as ledger:
        job_actions.check_dead(ledger.read(job_actions.get, job_id))
        require_confirmation(f"Drop job {job_id} for good?", yes=yes)
        ledger.write(job_actions.drop, job_id)
    invocation.answer({"deleted": True}, lambda: click.echo(f"dropped {job_id}"))


def cancel_with_hint(ledger: TenantDatabase, cancel: Callable[..., T], row_id: str) -> T:
    """Cancel a job or a run. If the action refuses because the row belongs to a turn, name the command that cancels the turn."""
    try:
        return ledger.write(cancel, row_id)
    except Conflict as error:
        turn_id = ledger.read(turns.find_id_by_run, row_id)
        if turn_id is None:
            raise
        raise Conflict(f"{error} Use `headway turn cancel {turn_id}`.") from None


def build_job_row(job: Job) -> Sequence[str]:
    return job.id, job.kind, job.state, f"{job.attempts}/{job.max_attempts}", job.as_json()["error"] or ""


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def agents() -> None:
    """Show, steer and cancel agent runs: those that answer turns, and sub-agents."""


@agents.command("list")
@click.option("--turn", metavar="UUID", help="Only runs of this turn.")
@click.option("--goal", type=GOAL_ID, metavar="ID", help="Only runs of this goal.")
@click.option("--limit", default=DEFAULT_PAGE_SIZE, show_default=True, type=click.IntRange(1, 500))
@pass_invocation
def list_agents(invocation: Invocation, turn: str | None, goal: int | None, limit: int) -> None:
    """List runs, newest first."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(views.list_agents, RunFilter(turn, goal), limit)
    invocation.answer(
        page.as_json(),
        lambda: print_table(RUN_HEADINGS, map(build_run_row, page.agents), "no agents", more=bool(page.next_cursor)),
    )


@agents.command("show")
@click.argument("run_id")
@pass_invocation
def show_agent(invocation: Invocation, run_id: str) -> None:
    """Show everything about a run."""
    with invocation.open_ledger() as ledger:
        run = ledger.read(runs.get, run_id)
        job = ledger.read(job_actions.find, run_id)
    document = runs.as_json(run, job.retry_at if job else 0)
    invocation.answer({"agent": document}, lambda: print_fields({**(build_wait_fields(job) if job else {}), **document}))


@agents.command("cancel")
@click.argument("run_id")
@pass_invocation
def cancel_agent(invocation: Invocation, run_id: str) -> None:
    """Cancel a sub-agent and everything it started."""
    with invocation.open_ledger() as ledger:
        run = cancel_with_hint(ledger, runs.cancel, run_id)
    invocation.answer({"agent": runs.as_json(run)}, lambda: print_row(build_run_row(run)))


@agents.command("send")
@click.argument("run_id")
@click.argument("message")
@pass_invocation
def send_to_agent(invocation: Invocation, run_id: str, message: str) -> None:
    """Send MESSAGE to a running agent, which reads it at its next step."""
    with invocation.open_ledger() as ledger:
        sent = ledger.write(steering.send_to_agent, run_id, message, SENDER)
    invocation.answer({"message": sent.as_json()}, lambda: click.echo(f"sent to {run_id}"))


def build_run_row(run: Run) -> Sequence[str]:
    return run.id, f"{'  ' * run.depth}{run.role}", run.status, str(run.iterations), f"${to_dollars(run.cost):.4f}", run.task


@click.group(cls=CommandGroup)
def schedule() -> None:
    """Manage recurring work."""


@schedule.command("put")
@click.argument("name")
@click.option("--cron", metavar="EXPRESSION", help='Cron expression, such as "0 6 * * *".')
@click.option("--tz", metavar="ZONE", help="Time zone of --cron (default: UTC).")
@click.option("--every", type=SECONDS, metavar="DURATION", help="Interval, such as 30s, 15m or 6h.")
@click.option("--goal", metavar="TEXT", help="Set this goal, unless the last one is still open.")
@click.option("--message", metavar="TEXT", help="Send this message to an agent, in --conversation.")
@click.option("--tool", "tool_name", metavar="NAME", help="Call this tool.")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="Arguments of --tool, as a JSON object.")
@pass_invocation
def put_schedule(
    invocation: Invocation,
    name: str,
    cron: str | None,
    tz: str | None,
    every: float | None,
    goal: str | None,
    message: str | None,
    tool_name: str | None,
    arguments: str,
) -> None:
    """Create a schedule, or change the existing one with that name."""
    timing = parse_timing(cron, tz, every)
    with invocation.open_ledger() as ledger:
        work = {**build_goal_work(goal), **build_message_work(ledger, message), **build_tool_work(ledger, tool_name, arguments)}
        if "tool" in work:
            check_tool(invocation.settings(), ledger, work["tool"])
        row = ledger.write(schedules.put, name, timing, work)
    answer_with_schedule(invocation, row)


def parse_timing(cron: str | None, tz: str | None, every: float | None) -> Timing:
    if every is not None and tz is not None:
        raise Invalid("--tz applies to --cron only; omit it with --every.")
    if every is not None and every * 1000 < MIN_INTERVAL_MS:
        raise Invalid("--every must be at least a second.")
    return Timing(cron or "", tz or "UTC", int((every or 0) * 1000))


def build_goal_work(description: str | None) -> dict[str, Any]:
    if description is None:
        return {}
    return {"goal": {"description": description, "success_criteria": "", "priority": DEFAULT_PRIORITY}}


def build_message_work(ledger: TenantDatabase, message: str | None) -> dict[str, Any]:
    if message is None:
        return {}
    if not ledger.scope.conversation_id:
        raise Invalid("--message needs --conversation.")
    return {"message": {"conversation_id": ledger.scope.conversation_id, "content": message}}


def check_tool(settings: Settings, ledger: TenantDatabase, work: dict[str, Any]) -> None:
    """Check that the tool and its arguments are valid. The command line may schedule any tool."""
    from pathlib import Path  # noqa: PLC0415  this import and the next four take longer than the rest of the command

    from headway.agents.instructions import role_files  # noqa: PLC0415
    from headway.agents.instructions.roles import Roles  # noqa: PLC0415
    from headway.agents.tools import catalogue, scheduled  # noqa: PLC0415
    from headway.agents.tools.builtin import ExternalAccess  # noqa: PLC0415

    toolbox = catalogue.build_toolbox(
        ExternalAccess(settings.http_allow, settings.commands, settings.sandbox), Path(settings.home, "tools")
    )
    roles = Roles(role_files.load(Path(settings.home, "agents"), toolbox.tools))
    ledger.read(scheduled.check_call, work, toolbox, roles)


def build_tool_work(ledger: TenantDatabase, name: str | None, arguments: str) -> dict[str, Any]:
    if name is None:
        return {}
    return {"tool": {"name": name, "arguments": parse_json_object(arguments), "conversation_id": ledger.scope.conversation_id}}


@schedule.command("list")
@click.option("--limit", default=SCHEDULES_LIMIT, show_default=True, type=click.IntRange(1, SCHEDULES_LIMIT))
@pass_invocation
def list_schedules(invocation: Invocation, limit: int) -> None:
    """List schedules with their last and next run."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(schedules.list_page, limit)
    invocation.answer(
        page.as_json(),
        lambda: print_table(
            SCHEDULE_HEADINGS, map(build_schedule_row, page.schedules), "no schedules", more=bool(page.next_cursor)
        ),
    )


@schedule.command("pause")
@click.argument("name")
@pass_invocation
def pause_schedule(invocation: Invocation, name: str) -> None:
    """Pause a schedule."""
    with invocation.open_ledger() as ledger:
        answer_with_schedule(invocation, ledger.write(schedules.pause, name))


@schedule.command("resume")
@click.argument("name")
@pass_invocation
def resume_schedule(invocation: Invocation, name: str) -> None:
    """Resume a schedule from now on. Ticks missed while paused are not made up."""
    with invocation.open_ledger() as ledger:
        answer_with_schedule(invocation, ledger.write(schedules.resume, name))


@schedule.command("run")
@click.argument("name")
@pass_invocation
def run_schedule(invocation: Invocation, name: str) -> None:
    """Run a schedule once, now. A `serve` or `worker` process does the work."""
    with invocation.open_ledger() as ledger:
        answer_with_schedule(invocation, ledger.write(schedules.run_now, name, invocation.settings().limits))


@schedule.command("rm")
@click.argument("name")
@pass_invocation
def remove_schedule(invocation: Invocation, name: str) -> None:
    """Delete a schedule."""
    with invocation.open_ledger() as ledger:
        ledger.write(schedules.remove, name)
    invocation.answer({"deleted": True}, lambda: click.echo(f"deleted {to_one_line(name)}"))


def answer_with_schedule(invocation: Invocation, row: Schedule) -> None:
    invocation.answer({"schedule": row.as_json()}, lambda: print_row(build_schedule_row(row)))


def build_schedule_row(schedule: Schedule) -> Sequence[str]:
    when = f"{schedule.cron} {schedule.timezone}" if schedule.cron else f"every {format_duration(schedule.every_ms / 1000)}"
    next_run = "paused" if schedule.paused else f"next {format_time(schedule.next_at)}"
    last = f"last {format_time(schedule.last_at)}" if schedule.last_at else "never run"
    return schedule.name, when, next_run, last, describe_work(json.loads(schedule.work))


def describe_work(work: dict[str, Any]) -> str:
    if "goal" in work:
        return f"goal: {work['goal']['description']}"
    return str(work["message"]["content"] if "message" in work else work["tool"]["name"])


def print_fields(document: dict[str, Any]) -> None:
    """Print one line per field that has a value. Fields ending in `_at` are printed as local times."""
    for name, raw in document.items():
        value = format_time(raw * 1000) if name.endswith("_at") else raw
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"{name:<14} {to_one_line(text)}")

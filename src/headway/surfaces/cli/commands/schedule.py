"""`headway schedule`: start goals, messages and tools at set times."""

import json
from collections.abc import Sequence
from typing import Any

import click

from headway.actions.engine import schedules
from headway.actions.engine.schedules import MIN_INTERVAL_MS, SCHEDULES_LIMIT, ScheduleChange, Timing
from headway.actions.goals.goals import DEFAULT_PRIORITY
from headway.ledger.errors import Invalid
from headway.ledger.job import Schedule
from headway.ledger.text import to_one_line
from headway.settings import Settings
from headway.surfaces.cli.arguments import SECONDS, format_duration, parse_json_object
from headway.surfaces.cli.context import CommandGroup, Invocation, TenantDatabase, pass_invocation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

SCHEDULE_HEADINGS = ("name", "when", "next", "last", "work")


@click.group(
    cls=CommandGroup,
    aliases={"put": "add"},
    examples=(
        "headway schedule add news --cron '0 6 * * *' --tz Europe/Berlin --goal 'Summarize the news'",
        "headway schedule run news",
    ),
)
def schedule() -> None:
    """Start a goal, send a message or call a tool at set times."""


@schedule.command("add")
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
    """Add a schedule, or replace the one with that name."""
    timing = parse_timing(cron, tz, every)
    with invocation.open_ledger() as ledger:
        work = {**build_goal_work(goal), **build_message_work(ledger, message), **build_tool_work(ledger, tool_name, arguments)}
        if "tool" in work:
            check_tool(invocation.settings(), ledger, work["tool"])
        row = ledger.write(schedules.put, name, timing, work)
    answer_with_schedule(invocation, row)


@schedule.command("edit")
@click.argument("name")
@click.option("--rename", "new_name", metavar="NAME", help="A new name.")
@click.option("--cron", metavar="EXPRESSION", help="Another cron expression.")
@click.option("--tz", metavar="ZONE", help="Another time zone of the cron expression.")
@click.option("--every", type=SECONDS, metavar="DURATION", help="An interval, instead of a cron expression.")
@click.option("--goal", metavar="TEXT", help="Set this goal from now on.")
@click.option("--message", metavar="TEXT", help="Send this message from now on, in --conversation.")
@click.option("--tool", "tool_name", metavar="NAME", help="Call this tool from now on.")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="Arguments of --tool, as a JSON object.")
@pass_invocation
def edit_schedule(invocation: Invocation, /, name: str, new_name: str | None, **given: Any) -> None:
    """Change a schedule. Options that you leave out keep their values."""
    cron, tz, every = given["cron"], given["tz"], given["every"]
    with invocation.open_ledger() as ledger:
        work = {
            **build_goal_work(given["goal"]),
            **build_message_work(ledger, given["message"]),
            **build_tool_work(ledger, given["tool_name"], given["arguments"]),
        }
        if "tool" in work:
            check_tool(invocation.settings(), ledger, work["tool"])
        timing = None
        if (cron, tz, every) != (None, None, None):
            row = ledger.read(schedules.get_schedule, name)
            timing = parse_timing(
                cron or (row.cron if every is None else None), tz or (row.timezone if every is None else None), every
            )
        row = ledger.write(schedules.change_schedule, name, ScheduleChange(timing, work or None, None, new_name))
    answer_with_schedule(invocation, row)


@schedule.command("preview")
@click.option("--cron", metavar="EXPRESSION", help='Cron expression, such as "0 6 * * *".')
@click.option("--tz", metavar="ZONE", help="Time zone of --cron (default: UTC).")
@click.option("--every", type=SECONDS, metavar="DURATION", help="Interval, such as 30s, 15m or 6h.")
@pass_invocation
def preview_schedule(invocation: Invocation, cron: str | None, tz: str | None, every: float | None) -> None:
    """Print the next five times of a schedule, in local time, without creating it."""
    timing = parse_timing(cron, tz, every)
    with invocation.open_ledger() as ledger:
        times = ledger.read(lambda tx, _tenant_id: schedules.preview(timing, tx.now))
    document = {"times": [moment // 1000 for moment in times], "timezone": timing.timezone}
    invocation.answer(document, lambda: click.echo("\n".join(map(format_time, times))))


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
    from headway.agents.tools import catalogue  # noqa: PLC0415
    from headway.agents.tools.builtin import ExternalAccess  # noqa: PLC0415

    toolbox = catalogue.build_toolbox(
        ExternalAccess(settings.http_allow, settings.commands, settings.sandbox), Path(settings.home, "tools")
    )
    roles = Roles(role_files.load(Path(settings.home, "agents"), toolbox.tools))
    ledger.read(catalogue.check_call, work, toolbox, roles)


def build_tool_work(ledger: TenantDatabase, name: str | None, arguments: str) -> dict[str, Any]:
    if name is None:
        return {}
    return {"tool": {"name": name, "arguments": parse_json_object(arguments), "conversation_id": ledger.scope.conversation_id}}


@schedule.command("list")
@click.option(
    "--limit",
    default=SCHEDULES_LIMIT,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, SCHEDULES_LIMIT),
    help="List at most this many.",
)
@pass_invocation
def list_schedules(invocation: Invocation, limit: int) -> None:
    """List schedules with their last and next run."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(schedules.list_schedules, limit)
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
    """Resume a schedule. Times that passed while it was paused are skipped."""
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
        ledger.write(schedules.remove_schedule, name)
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

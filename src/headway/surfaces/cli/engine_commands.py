"""`headway jobs …`, `agents …`, `schedule …`: the engine room from the shell."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.actions import dead_letters, engine_views, goals, runs, schedules, turns
from headway.actions import jobs as job_actions
from headway.actions.engine_views import WhoseRuns
from headway.actions.goals import DEFAULT_PRIORITY
from headway.actions.schedules import SCHEDULES_LIMIT, SHORTEST_MS, Timing
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.job import Job
from headway.ledger.run import Run, dollars
from headway.ledger.schedule import Schedule
from headway.ledger.text import one_line
from headway.settings import Settings
from headway.storage import job_store, run_store
from headway.surfaces.cli.arguments import GOAL_ID, SECONDS, duration
from headway.surfaces.cli.calling import TENANT_WIDE, Call, CliDesk, Family, confirmed, pass_call
from headway.surfaces.cli.drawing import clock_time, say_there_are_more, waiting_words

T = TypeVar("T")

LISTED = 50


@click.group(cls=Family, unused=TENANT_WIDE)
def jobs() -> None:
    """What keeps things running, and what died on the way."""


@jobs.command("list")
@click.option("--dead", is_flag=True, help="Only those that wait for a decision.")
@click.option("--limit", default=LISTED, show_default=True, type=click.IntRange(1, 500))
@pass_call
def list_jobs(call: Call, limit: int, *, dead: bool) -> None:
    """Show jobs, the newest first."""
    with call.desk() as desk:
        page = desk.read(engine_views.jobs, "dead" if dead else None, limit)
    call.answer(page.as_json(), lambda: show(list(map(job_line, page.jobs)), "no jobs", more=bool(page.next_cursor)))


@jobs.command("show")
@click.argument("job_id")
@pass_call
def show_job(call: Call, job_id: str) -> None:
    """Everything about a job: attempts, errors, payload."""
    with call.desk() as desk:
        job = desk.read(job_actions.get, job_id)
    call.answer({"job": job.as_json()}, lambda: fields({**waiting(job), **job.as_json()}))


def waiting(job: Job) -> dict[str, str]:
    """What it waits for, in words, if its model failed and is asked again later."""
    if not job.retry_at or job.kind not in (turns.TURN, runs.AGENT, goals.GOAL):
        return {}
    return {"waits": waiting_words(job.retry_at, job.as_json()["error"])}


@jobs.command("retry")
@click.argument("job_id")
@pass_call
def retry_job(call: Call, job_id: str) -> None:
    """Run a dead job anew, with the same context, or one that waits to be tried again now."""
    with call.desk() as desk:
        job = desk.write(dead_letters.retry, job_id)
    call.answer({"job": job.as_json()}, lambda: click.echo(job_line(job)))


@jobs.command("cancel")
@click.argument("job_id")
@pass_call
def cancel_job(call: Call, job_id: str) -> None:
    """Stop a scheduled tool call, or keep it from starting."""
    with call.desk() as desk:
        job = canceled(desk, job_actions.cancel, job_id)
    call.answer({"job": job.as_json()}, lambda: click.echo(job_line(job)))


@jobs.command("drop")
@click.argument("job_id")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@pass_call
def drop_job(call: Call, job_id: str, *, yes: bool) -> None:
    """Give a dead job up for good."""
    with call.desk() as desk:
        job_actions.must_be_dead(desk.read(job_actions.get, job_id))
        confirmed(f"Drop job {job_id} for good?", yes=yes)
        desk.write(job_actions.drop, job_id)
    call.answer({"deleted": True}, lambda: click.echo(f"dropped {job_id}"))


def canceled(desk: CliDesk, cancel: Callable[..., T], row_id: str) -> T:
    """A refusal says what to cancel instead; here it says how, too."""
    try:
        return desk.write(cancel, row_id)
    except Conflict as error:
        run = desk.read(run_store.get, row_id)
        if run is None or run.ended or run.parent_run_id is not None or run.goal_id is not None:
            raise
        raise Conflict(f"{error} `headway turn cancel {run.turn_id}` does so.") from None


def job_line(job: Job) -> str:
    known = job.as_json()
    error = f"  {one_line(known['error'])[:80]}" if known["error"] else ""
    return f"{job.id}  {job.kind:<6} {job.state:<9} {job.attempts}/{job.max_attempts}{error}"


@click.group(cls=Family, unused=TENANT_WIDE)
def agents() -> None:
    """Agents at work: those that answer turns, and their sub-agents."""


@agents.command("list")
@click.option("--turn", metavar="UUID", help="Only those of a turn.")
@click.option("--goal", type=GOAL_ID, metavar="ID", help="Only those of a goal.")
@click.option("--limit", default=LISTED, show_default=True, type=click.IntRange(1, 500))
@pass_call
def list_agents(call: Call, turn: str | None, goal: int | None, limit: int) -> None:
    """Show runs, the newest first."""
    with call.desk() as desk:
        page = desk.read(engine_views.agents, WhoseRuns(turn, goal), limit)
    call.answer(page.as_json(), lambda: show(list(map(run_line, page.agents)), "no agents", more=bool(page.next_cursor)))


@agents.command("show")
@click.argument("run_id")
@pass_call
def show_agent(call: Call, run_id: str) -> None:
    """Everything about a run."""
    with call.desk() as desk:
        run = desk.read(runs.get, run_id)
        job = desk.read(job_store.get, run_id)
    shown = runs.as_json(run, job.retry_at if job else 0)
    call.answer({"agent": shown}, lambda: fields({**(waiting(job) if job else {}), **shown}))


@agents.command("cancel")
@click.argument("run_id")
@pass_call
def cancel_agent(call: Call, run_id: str) -> None:
    """Stop a sub-agent, and all that it began."""
    with call.desk() as desk:
        run = canceled(desk, runs.cancel, run_id)
    call.answer({"agent": runs.as_json(run)}, lambda: click.echo(run_line(run)))


def run_line(run: Run) -> str:
    who = f"{'  ' * run.depth}{run.role}"
    return f"{run.id}  {who:<14} {run.status:<9} {run.iterations:>3} steps  ${dollars(run.cost):.4f}  {one_line(run.task)[:60]}"


@click.group(cls=Family)
def schedule() -> None:
    """Recurring work."""


@schedule.command("put")
@click.argument("name")
@click.option("--cron", metavar="EXPRESSION", help='For example "0 6 * * *".')
@click.option("--tz", metavar="ZONE", help="The time zone of --cron (default: UTC).")
@click.option("--every", type=SECONDS, metavar="DURATION", help="For example 30s, 15m, 6h.")
@click.option("--goal", metavar="TEXT", help="Set this goal, once the last one has ended.")
@click.option("--message", metavar="TEXT", help="Have an agent answer this, in --conversation.")
@click.option("--tool", "tool_name", metavar="NAME", help="Call a tool.")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="Its arguments.")
@pass_call
def put_schedule(
    call: Call,
    name: str,
    cron: str | None,
    tz: str | None,
    every: float | None,
    goal: str | None,
    message: str | None,
    tool_name: str | None,
    arguments: str,
) -> None:
    """Make a schedule, or change the one of that name."""
    timing = timing_of(cron, tz, every)
    with call.desk() as desk:
        work = {**goal_work(goal), **message_work(desk, message), **tool_work(desk, tool_name, arguments)}
        if "tool" in work:
            check_tool(call.settings(), desk, work["tool"])
        made = desk.write(schedules.put, name, timing, work)
    answer_one(call, made)


def timing_of(cron: str | None, tz: str | None, every: float | None) -> Timing:
    if every is not None and tz is not None:
        raise Invalid("--tz is the time zone of --cron; an interval is the same everywhere: leave --tz away.")
    if every is not None and every * 1000 < SHORTEST_MS:
        raise Invalid("--every must be at least a second.")
    return Timing(cron or "", tz or "UTC", int((every or 0) * 1000))


def goal_work(description: str | None) -> dict[str, Any]:
    if description is None:
        return {}
    return {"goal": {"description": description, "success_criteria": "", "priority": DEFAULT_PRIORITY}}


def message_work(desk: CliDesk, message: str | None) -> dict[str, Any]:
    if message is None:
        return {}
    if not desk.scope.conversation_id:
        raise Invalid("--message needs --conversation: where to say it.")
    return {"message": {"conversation_id": desk.scope.conversation_id, "content": message}}


def check_tool(settings: Settings, desk: CliDesk, work: dict[str, Any]) -> None:
    """Whoever has the command line may schedule every tool there is."""
    from pathlib import Path  # noqa: PLC0415  with what follows, longer to load than all else here

    from headway.agents import families, role_files, scheduled_calls  # noqa: PLC0415
    from headway.agents.builtin_tools import World  # noqa: PLC0415
    from headway.agents.roles import Roles  # noqa: PLC0415

    toolbox = families.toolbox(World(settings.http_allow, settings.commands), Path(settings.home, "tools"))
    roles = Roles(role_files.load(Path(settings.home, "agents"), toolbox.tools))
    desk.read(scheduled_calls.check, work, toolbox, roles)


def tool_work(desk: CliDesk, name: str | None, arguments: str) -> dict[str, Any]:
    if name is None:
        return {}
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Invalid("--args must be one JSON object.")
    return {"tool": {"name": name, "arguments": given, "conversation_id": desk.scope.conversation_id}}


@schedule.command("list")
@click.option("--limit", default=SCHEDULES_LIMIT, show_default=True, type=click.IntRange(1, SCHEDULES_LIMIT))
@pass_call
def list_schedules(call: Call, limit: int) -> None:
    """Show schedules, with their last and next run."""
    with call.desk() as desk:
        page = desk.read(schedules.page, limit)
    call.answer(page.as_json(), lambda: show(list(map(schedule_line, page.schedules)), "no schedules", more=bool(page.next_cursor)))


@schedule.command("pause")
@click.argument("name")
@pass_call
def pause_schedule(call: Call, name: str) -> None:
    """Let it rest."""
    with call.desk() as desk:
        answer_one(call, desk.write(schedules.pause, name))


@schedule.command("resume")
@click.argument("name")
@pass_call
def resume_schedule(call: Call, name: str) -> None:
    """Let it go on, from now."""
    with call.desk() as desk:
        answer_one(call, desk.write(schedules.resume, name))


@schedule.command("run")
@click.argument("name")
@pass_call
def run_schedule(call: Call, name: str) -> None:
    """Run it once, now. A `serve` or `worker` process does the work."""
    with call.desk() as desk:
        answer_one(call, desk.write(schedules.run_now, name, call.settings().limits))


@schedule.command("rm")
@click.argument("name")
@pass_call
def remove_schedule(call: Call, name: str) -> None:
    """Delete a schedule."""
    with call.desk() as desk:
        desk.write(schedules.remove, name)
    call.answer({"deleted": True}, lambda: click.echo(f"deleted {one_line(name)}"))


def answer_one(call: Call, made: Schedule) -> None:
    call.answer({"schedule": made.as_json()}, lambda: click.echo(schedule_line(made)))


def schedule_line(one: Schedule) -> str:
    when = f"{one.cron} {one.timezone}" if one.cron else f"every {duration(one.every_ms / 1000)}"
    following = "paused" if one.paused else f"next {clock_time(one.next_at)}"
    last = f"last {clock_time(one.last_at)}" if one.last_at else "never run"
    return f"{one_line(one.name)}  {when}  {following}  {last}  {one_line(what(json.loads(one.work)))[:50]}"


def what(work: dict[str, Any]) -> str:
    if "goal" in work:
        return f"goal: {work['goal']['description']}"
    return str(work["message"]["content"] if "message" in work else work["tool"]["name"])


def show(lines: list[str], nothing: str, *, more: bool) -> None:
    click.echo("\n".join(lines) or nothing)
    if more:
        say_there_are_more(len(lines))


def fields(document: dict[str, Any]) -> None:
    """A line for each field that says something; moments as clocks show them."""
    for name, found in document.items():
        value = clock_time(found * 1000) if name.endswith("_at") else found
        if value not in (None, "", [], {}):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"{name:<14} {one_line(shown)}")

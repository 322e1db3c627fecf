"""`headway goal`: set, follow and control goals."""

from collections.abc import Callable
from typing import Any, get_args

import click

from headway.actions import goal_views, goals, jobs
from headway.actions.goals import DEFAULT_PRIORITY, LOWEST_PRIORITY, NewGoal
from headway.ledger.goal import Decision, Goal, GoalStatus
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction
from headway.surfaces.cli import goal_drawing as drawing
from headway.surfaces.cli.arguments import DOLLARS, GOAL_ID, SECONDS, SUB_GOAL_ID
from headway.surfaces.cli.context import (
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    TenantDatabase,
    pass_invocation,
    require_confirmation,
)

DEFAULT_PAGE_SIZE = 50


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def goal() -> None:
    """Manage goals: objectives that are pursued without a person."""


@goal.command("add")
@click.argument("text")
@click.option("--criteria", default="", metavar="TEXT", help="What must be true when it is reached.")
@click.option(
    "--priority", default=DEFAULT_PRIORITY, show_default=True, type=click.IntRange(0, LOWEST_PRIORITY), help="0 is highest."
)
@click.option("--budget", type=DOLLARS, metavar="USD", help="Cost limit in US dollars.")
@click.option("--deadline", type=SECONDS, metavar="DURATION", help="Time limit, such as 90s, 15m, 6h or 2d.")
@click.option("--no-wait", is_flag=True, help="Set the goal and exit.")
@pass_invocation
def add_goal(
    call: Invocation,
    text: str,
    criteria: str,
    priority: int,
    budget: float | None,
    deadline: float | None,
    *,
    no_wait: bool,
) -> None:
    """Set a goal. If no other process works on the database, this command pursues it until it ends or pauses."""
    wanted = NewGoal(text, criteria, priority, int((budget or 0) * NANOS_PER_DOLLAR))

    def set_goal(tx: Transaction, tenant_id: int) -> Goal:
        due = tx.now + int(deadline * 1000) if deadline is not None else 0
        return goals.add(tx, tenant_id, wanted._replace(deadline_at=due), call.settings().limits)

    with call.desk() as desk:
        goal_id = desk.write(set_goal).id
        if no_wait or count_workers(desk):
            answer_with_goal(call, desk, goal_id)
            return
        tenant_id = desk.scope.tenant_id
    follow_and_answer(call, tenant_id, goal_id)


@goal.command("list")
@click.option("--status", type=click.Choice(get_args(GoalStatus)), help="Only goals with this status.")
@click.option("--limit", default=DEFAULT_PAGE_SIZE, show_default=True, type=click.IntRange(1, 500))
@pass_invocation
def list_goals(call: Invocation, status: GoalStatus | None, limit: int) -> None:
    """List goals, newest first."""
    with call.desk() as desk:
        page = desk.read(goal_views.list_page, status, limit)
    call.answer(page._asdict(), lambda: drawing.print_goals(page.goals, more=page.next_cursor is not None))


@goal.command("show")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def show_goal(call: Invocation, goal_id: int) -> None:
    """Show a goal: its progress, its sub-goals and the latest journal entries."""
    with call.desk() as desk:
        found = desk.read(goal_views.show, goal_id, call.settings().goals)
        entries = [entry.as_json() for entry in desk.read(goal_views.list_entries, goal_id, drawing.LAST_ENTRIES)]
    call.answer({"goal": found}, lambda: drawing.print_goal(found, entries))


@goal.command("watch")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def watch_goal(call: Invocation, goal_id: int) -> None:
    """Follow a goal until it ends or pauses. Pursues it if no other process works on the database. Ctrl-C stops watching."""
    with call.desk() as desk:
        desk.read(goals.get, goal_id)
        tenant_id = desk.scope.tenant_id
    follow_and_answer(call, tenant_id, goal_id)


@goal.command("pause")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def pause_goal(call: Invocation, goal_id: int) -> None:
    """Pause a goal. Nothing new starts; running sub-agents are stopped and their work is kept."""
    change_goal(call, goal_id, goals.pause)


@goal.command("resume")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def resume_goal(call: Invocation, goal_id: int) -> None:
    """Resume a paused goal where it stopped."""
    change_goal(call, goal_id, goals.resume, call.settings().limits)


@goal.command("abandon")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def abandon_goal(call: Invocation, goal_id: int, *, yes: bool) -> None:
    """Abandon a goal for good. Finished work is kept."""
    with call.desk() as desk:
        known = desk.read(goals.get, goal_id)
        if not known.ended:
            require_confirmation(f"Abandon goal #{goal_id} {to_one_line(known.description)[:60]!r} for good?", yes=yes)
    change_goal(call, goal_id, goals.abandon)


@goal.command("decide")
@click.argument("goal_id", type=GOAL_ID)
@click.argument("action", type=click.Choice(get_args(Decision)))
@click.option("--note", default="", metavar="TEXT", help="A note for the new plan, or the reason.")
@pass_invocation
def decide_goal(call: Invocation, goal_id: int, action: Decision, note: str) -> None:
    """Decide about a paused goal: continue it, replan it or abandon it."""
    change_goal(call, goal_id, goals.decide, action, note, call.settings().limits)


@goal.command("why")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--sub-goal", type=SUB_GOAL_ID, metavar="ID", help="Explain this sub-goal instead.")
@pass_invocation
def explain_goal(call: Invocation, goal_id: int, sub_goal: int | None) -> None:
    """Explain why a goal is not making progress."""
    with call.desk() as desk:
        why = desk.read(goal_views.explain, goal_id, sub_goal)
    call.answer({"why": why}, lambda: click.echo(to_one_line(why)))


def change_goal(call: Invocation, goal_id: int, action: Callable[..., Goal], *arguments: Any) -> None:
    with call.desk() as desk:
        desk.write(action, goal_id, *arguments)
        answer_with_goal(call, desk, goal_id)


def answer_with_goal(call: Invocation, desk: TenantDatabase, goal_id: int) -> None:
    found = desk.read(goal_views.show, goal_id, call.settings().goals)

    def draw() -> None:
        drawing.print_lines([drawing.render_goal_line(found)])
        if found["status"] == "active":
            words = "Another process pursues it." if count_workers(desk) else "No process is running: start `headway serve`."
            click.echo(f"{words} `headway goal watch {goal_id}` shows its progress.", err=True)

    call.answer({"goal": found}, draw)


def count_workers(desk: TenantDatabase) -> int:
    return desk.database.read(jobs.count_live_workers)


def follow_and_answer(call: Invocation, tenant_id: int, goal_id: int) -> None:
    try:
        from headway.surfaces.cli.goal_following import follow_goal  # noqa: PLC0415  imports asyncio, which few commands need

        found = follow_goal(call, tenant_id, goal_id)
    except KeyboardInterrupt:  # interrupted before the view was open
        with call.desk() as desk:
            found = desk.read(goal_views.show, goal_id, call.settings().goals)

    def draw() -> None:
        drawing.print_goal_end(found)
        if found["status"] == "active":
            click.echo(f"Goal #{goal_id} continues with `headway serve` or `headway goal watch {goal_id}`.", err=True)

    call.answer({"goal": found}, draw)
    if found["status"] in ("paused", "abandoned"):
        raise click.exceptions.Exit(1)

"""`headway goal`: set, follow and control goals."""

from collections.abc import Callable
from typing import Any, get_args

import click

from headway.actions.goals import goals, views
from headway.actions.goals.forks import GoalForkRequest
from headway.actions.goals.forks import fork_goal as fork
from headway.actions.goals.goals import DEFAULT_PRIORITY, LOWEST_PRIORITY, GoalEdit, NewGoal
from headway.actions.runs import jobs
from headway.ledger.goal import Decision, Goal, GoalFilter, GoalSort, GoalStatus
from headway.ledger.money import to_nanos
from headway.ledger.parsing.checks import write_checks
from headway.ledger.text import to_one_line
from headway.ledger.todo import UNSET
from headway.storage.transaction import Transaction
from headway.surfaces.cli import goal_view as drawing
from headway.surfaces.cli.arguments import DOLLARS, GOAL_ID, SECONDS, SUB_GOAL_ID, check_options, limit_option, read_checks
from headway.surfaces.cli.context import (
    TENANT_WIDE,
    CommandGroup,
    Invocation,
    TenantDatabase,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.turn_view import list_diff_lines


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway goal add 'Write a summary of each file in docs' --budget 2", "headway goal watch 1"),
)
def goal() -> None:
    """Set goals and follow them. Agents plan a goal and pursue it on their own."""


@goal.command("add")
@click.argument("text")
@click.option("--criteria", default="", metavar="TEXT", help="What must be true when it is reached.")
@click.option(
    "--priority", default=DEFAULT_PRIORITY, show_default=True, type=click.IntRange(0, LOWEST_PRIORITY), help="0 is highest."
)
@click.option("--budget", type=DOLLARS, metavar="USD", help="Cost limit in US dollars.")
@click.option("--deadline", type=SECONDS, metavar="DURATION", help="Time limit, such as 90s, 15m, 6h or 2d.")
@click.option("--repository", default="", metavar="PATH", help="A git repository in the workspace, in which its agents work.")
@click.option("--no-wait", is_flag=True, help="Set the goal and exit.")
@check_options
@pass_invocation
def add_goal(
    invocation: Invocation,
    /,
    text: str,
    criteria: str,
    priority: int,
    budget: float | None,
    deadline: float | None,
    repository: str,
    *,
    no_wait: bool,
    **check_fields: Any,
) -> None:
    """Set a goal. If no other process works on the database, this command pursues it until it ends or pauses."""
    checks = write_checks(read_checks(check_fields), "operator")
    cost = to_nanos(budget or 0)
    new_goal = NewGoal(text, criteria, priority, cost, repository=repository, checks=checks)

    def set_goal(tx: Transaction, tenant_id: int) -> Goal:
        settings = invocation.settings()
        due = tx.now + int(deadline * 1000) if deadline is not None else 0
        checked = check_goal(new_goal, settings.get_workspace(tenant_id)) if repository else new_goal
        return goals.add_goal(tx, tenant_id, checked._replace(deadline_at=due), settings.limits)

    pursue_new(invocation, set_goal, no_wait=no_wait)


def pursue_new(invocation: Invocation, start: Callable[[Transaction, int], Goal], *, no_wait: bool) -> None:
    """Start a new goal. If no other process works on the database, pursue it until it ends or pauses."""
    with invocation.open_ledger() as ledger:
        goal_id = ledger.write(start).id
        if no_wait or count_workers(ledger):
            answer_with_goal(invocation, ledger, goal_id)
            return
        tenant_id = ledger.scope.tenant_id
    follow_and_answer(invocation, tenant_id, goal_id)


def check_goal(new_goal: NewGoal, workspace: str) -> NewGoal:
    from headway.agents.repositories.places import check_repository  # noqa: PLC0415  few goals name a repository

    return check_repository(new_goal, workspace)


@goal.command("list")
@click.option("--status", type=click.Choice(get_args(GoalStatus)), help="Only goals with this status.")
@click.option("--search", default="", metavar="WORDS", help="Only goals that have all these words.")
@click.option("--waiting", is_flag=True, help="Only goals that wait for you.")
@click.option("--sort", default="newest", show_default=True, type=click.Choice(get_args(GoalSort)), help="The order.")
@limit_option
@pass_invocation
def list_goals(
    invocation: Invocation, status: GoalStatus | None, search: str, limit: int, *, waiting: bool, sort: GoalSort
) -> None:
    """List goals."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(views.list_goals, GoalFilter(status, search, waiting, sort), limit)
    invocation.answer(page._asdict(), lambda: drawing.print_goals(page.goals, more=page.next_cursor is not None))


@goal.command("show")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--diff", is_flag=True, help="Also print the diff of its changes in its repository.")
@pass_invocation
def show_goal(invocation: Invocation, goal_id: int, *, diff: bool) -> None:
    """Show a goal with its progress, its sub-goals and its latest journal entries."""
    with invocation.open_ledger() as ledger:
        document = ledger.read(views.show_goal, goal_id, invocation.settings().goals)
        entries = [entry.as_json() for entry in ledger.read(views.list_entries, goal_id, drawing.LAST_ENTRIES)]

    def draw() -> None:
        drawing.print_goal(document, entries)
        if diff and document["changes"]:
            click.echo("\n".join(list_diff_lines(document["changes"])))

    invocation.answer({"goal": document}, draw)


@goal.command("watch")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def watch_goal(invocation: Invocation, goal_id: int) -> None:
    """Follow a goal until it ends or pauses. Pursues it if no other process works on the database. Ctrl-C leaves it."""
    with invocation.open_ledger() as ledger:
        ledger.read(goals.get_goal, goal_id)
        tenant_id = ledger.scope.tenant_id
    follow_and_answer(invocation, tenant_id, goal_id)


@goal.command("pause")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def pause_goal(invocation: Invocation, goal_id: int) -> None:
    """Pause a goal. Nothing new starts; sub-agents finish their current sub-goals."""
    change_goal(invocation, goal_id, goals.pause)


@goal.command("resume")
@click.argument("goal_id", type=GOAL_ID)
@pass_invocation
def resume_goal(invocation: Invocation, goal_id: int) -> None:
    """Resume a paused goal where it stopped."""
    change_goal(invocation, goal_id, goals.resume, invocation.settings().limits)


@goal.command("abandon")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def abandon_goal(invocation: Invocation, goal_id: int, *, yes: bool) -> None:
    """Abandon a goal for good. Finished work is kept."""
    with invocation.open_ledger() as ledger:
        current = ledger.read(goals.get_goal, goal_id)
        if not current.ended:
            require_confirmation(f"Abandon goal #{goal_id} {to_one_line(current.description)[:60]!r} for good?", yes=yes)
    change_goal(invocation, goal_id, goals.abandon)


@goal.command("decide")
@click.argument("goal_id", type=GOAL_ID)
@click.argument("action", type=click.Choice(get_args(Decision)))
@click.option("--note", default="", metavar="TEXT", help="A note for the new plan, or the reason.")
@pass_invocation
def decide_goal(invocation: Invocation, goal_id: int, action: Decision, note: str) -> None:
    """Decide about a paused goal: continue it, replan it or abandon it."""
    change_goal(invocation, goal_id, goals.decide_goal, action, note, invocation.settings().limits)


@goal.command("edit")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--text", metavar="TEXT", help="A new description. A plan that exists is then replaced.")
@click.option("--criteria", metavar="TEXT", help="What must be true when it is reached.")
@click.option("--priority", type=click.IntRange(0, LOWEST_PRIORITY), help="0 is highest.")
@click.option("--budget", type=DOLLARS, metavar="USD", help="Cost limit in US dollars, more than it has spent.")
@click.option("--no-budget", is_flag=True, help="Remove the cost limit.")
@click.option("--deadline", type=SECONDS, metavar="DURATION", help="Time limit from now on, such as 90s, 15m, 6h or 2d.")
@click.option("--no-deadline", is_flag=True, help="Remove the time limit.")
@pass_invocation
def edit_goal(
    invocation: Invocation,
    /,
    goal_id: int,
    text: str | None,
    criteria: str | None,
    priority: int | None,
    budget: float | None,
    deadline: float | None,
    *,
    no_budget: bool,
    no_deadline: bool,
) -> None:
    """Change a goal that has not ended. One that is paused at its budget or deadline continues if the new limit allows it."""
    if (budget is not None and no_budget) or (deadline is not None and no_deadline):
        raise click.UsageError("Give a limit, or remove it, but not both.")
    if (text, criteria, priority, budget, deadline) == (None,) * 5 and not (no_budget or no_deadline):
        raise click.UsageError("Nothing to change. Give at least one option.")
    edit = GoalEdit(
        description=UNSET if text is None else text,
        success_criteria=UNSET if criteria is None else criteria,
        priority=UNSET if priority is None else priority,
        budget=0 if no_budget else UNSET if budget is None else to_nanos(budget),
    )

    def change(tx: Transaction, tenant_id: int, goal_id: int) -> Goal:
        due = 0 if no_deadline else UNSET if deadline is None else tx.now + int(deadline * 1000)
        return goals.edit_goal(tx, tenant_id, goal_id, edit._replace(deadline_at=due), invocation.settings().limits)

    change_goal(invocation, goal_id, change)


@goal.command("again")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--no-wait", is_flag=True, help="Start the goal and exit.")
@pass_invocation
def repeat_goal(invocation: Invocation, goal_id: int, *, no_wait: bool) -> None:
    """Run an ended goal again, as a new goal with the same text, criteria, checks and limits."""

    def start(tx: Transaction, tenant_id: int) -> Goal:
        settings, new_goal = invocation.settings(), goals.build_repeat(tx, tenant_id, goal_id)
        checked = check_goal(new_goal, settings.get_workspace(tenant_id)) if new_goal.repository else new_goal
        return goals.run_again(tx, tenant_id, checked, settings.limits)

    pursue_new(invocation, start, no_wait=no_wait)


@goal.command("plans")
@click.argument("goal_id", type=GOAL_ID)
@limit_option
@pass_invocation
def list_plans(invocation: Invocation, goal_id: int, limit: int) -> None:
    """List the plans of a goal, the one in force first, with what each changed."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(views.list_plans, goal_id, limit)
    invocation.answer(page._asdict(), lambda: drawing.print_plans(page.plans))


@goal.command("fork")
@click.argument("goal_id", type=GOAL_ID)
@click.option("--at", "at", required=True, type=click.IntRange(1), metavar="N", help="Begin after this journal entry.")
@click.option("--message", default="", metavar="TEXT", help="Replace the description, and make a new plan.")
@click.option("--live", is_flag=True, help="Make calls that have no recorded result.")
@click.option("--no-wait", is_flag=True, help="Create the fork and exit.")
@pass_invocation
def fork_goal(invocation: Invocation, goal_id: int, at: int, message: str, *, live: bool, no_wait: bool) -> None:
    """Copy a goal as it was after a journal entry, and pursue the copy.

    Calls that the original's agents made get their recorded results. At a call without one the fork is paused; with --live the
    call is made.
    """
    request = GoalForkRequest(at, message, live, invocation.settings().limits)
    pursue_new(invocation, lambda tx, tenant_id: fork(tx, tenant_id, goal_id, request), no_wait=no_wait)


@goal.command("why", hidden=True)  # `headway why goal ID` says more
@click.argument("goal_id", type=GOAL_ID)
@click.option("--sub-goal", type=SUB_GOAL_ID, metavar="ID", help="Explain this sub-goal instead.")
@pass_invocation
def explain_goal(invocation: Invocation, goal_id: int, sub_goal: int | None) -> None:
    """Explain why a goal is not making progress."""
    with invocation.open_ledger() as ledger:
        explanation = ledger.read(views.explain, goal_id, sub_goal)
    invocation.answer({"why": explanation}, lambda: click.echo(to_one_line(explanation)))


def change_goal(invocation: Invocation, goal_id: int, action: Callable[..., Goal], *arguments: Any) -> None:
    with invocation.open_ledger() as ledger:
        ledger.write(action, goal_id, *arguments)
        answer_with_goal(invocation, ledger, goal_id)


def answer_with_goal(invocation: Invocation, ledger: TenantDatabase, goal_id: int) -> None:
    document = ledger.read(views.show_goal, goal_id, invocation.settings().goals)

    def draw() -> None:
        drawing.print_lines([drawing.render_goal_line(document)])
        if document["status"] == "active":
            hint = "Another process pursues it." if count_workers(ledger) else "No process is running: start `headway serve`."
            click.echo(f"{hint} `headway goal watch {goal_id}` shows its progress.", err=True)

    invocation.answer({"goal": document}, draw)


def count_workers(ledger: TenantDatabase) -> int:
    return ledger.database.read(jobs.count_live_workers)


def follow_and_answer(invocation: Invocation, tenant_id: int, goal_id: int) -> None:
    try:
        from headway.surfaces.cli.goal_following import follow_goal  # noqa: PLC0415  imports asyncio, which few commands need

        document = follow_goal(invocation, tenant_id, goal_id)
    except KeyboardInterrupt:  # interrupted before the view was open
        with invocation.open_ledger() as ledger:
            document = ledger.read(views.show_goal, goal_id, invocation.settings().goals)

    def draw() -> None:
        drawing.print_goal_end(document)
        if document["status"] == "active":
            click.echo(f"Goal #{goal_id} continues with `headway serve` or `headway goal watch {goal_id}`.", err=True)

    invocation.answer({"goal": document}, draw)
    if document["status"] in ("paused", "abandoned"):
        raise click.exceptions.Exit(1)

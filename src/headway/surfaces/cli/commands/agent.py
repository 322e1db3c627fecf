"""`headway agent`: inspect, steer and cancel what runs."""

from collections.abc import Sequence

import click

from headway.actions.runs import jobs as job_actions
from headway.actions.runs import runs
from headway.actions.runs.runs import RunFilter
from headway.actions.turns import steering
from headway.ledger.money import to_dollars
from headway.ledger.run import Run
from headway.surfaces.cli.arguments import GOAL_ID, limit_option
from headway.surfaces.cli.commands.jobs import build_wait_fields, cancel_with_hint
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.tables import print_fields, print_row, print_table

RUN_HEADINGS = ("run", "role", "state", "steps", "cost", "task")


@click.group(
    "agent",
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway agent list --goal 1", "headway agent send RUN_ID 'Skip the tests in old/'"),
)
def agents() -> None:
    """Inspect, steer and cancel running agents: the agents that answer turns, and their sub-agents."""


@agents.command("list")
@click.option("--turn", metavar="UUID", help="Only runs of this turn.")
@click.option("--goal", type=GOAL_ID, metavar="ID", help="Only runs of this goal.")
@limit_option
@pass_invocation
def list_agents(invocation: Invocation, turn: str | None, goal: int | None, limit: int) -> None:
    """List runs, newest first."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(runs.list_agents, RunFilter(turn, goal), limit)
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
        run = ledger.read(runs.get_run, run_id)
        job = ledger.read(job_actions.find_job, run_id)
    document = runs.as_json(run, job.retry_at if job else 0)
    invocation.answer({"agent": document}, lambda: print_fields({**(build_wait_fields(job) if job else {}), **document}))


@agents.command("cancel")
@click.argument("run_id")
@pass_invocation
def cancel_agent(invocation: Invocation, run_id: str) -> None:
    """Cancel a sub-agent and everything it started."""
    with invocation.open_ledger() as ledger:
        run = cancel_with_hint(ledger, runs.cancel_run, run_id)
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

"""`headway turn`: control turns from the shell."""

from typing import Any

import click

from headway.actions import conversations, run_ends, turns
from headway.actions.inspection import comparison
from headway.actions.inspection.forks import ForkRequest
from headway.actions.people import steering
from headway.storage.transaction import Transaction
from headway.surfaces.cli.arguments import fork_options
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.tables import print_row
from headway.surfaces.cli.turn_comparison import print_diff, print_turn


@click.group(
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway turn show TURN_ID", "headway turn fork TURN_ID --at 3 --model openai:gpt-5-mini"),
)
def turn() -> None:
    """Inspect, steer, copy and compare turns. A turn is the work on one message; `headway chat` starts one."""


@turn.command("show")
@click.argument("turn_id")
@click.option("--diff", is_flag=True, help="Also print the diff of its changes in its repository.")
@pass_invocation
def show_turn(invocation: Invocation, turn_id: str, *, diff: bool) -> None:
    """Show a turn and its steps: the model's answers with their tool calls, numbered as `turn fork --at` counts them."""
    limits = invocation.settings().limits
    with invocation.open_ledger() as ledger:
        shown = ledger.read(turns.show, turn_id, limits)
        steps = ledger.read(comparison.list_steps, turn_id)
    invocation.answer({"turn": shown, "steps": steps}, lambda: print_turn(shown, steps, with_diff=diff))


@turn.command("cancel")
@click.argument("turn_id")
@pass_invocation
def cancel_turn(invocation: Invocation, turn_id: str) -> None:
    """Cancel a turn and its sub-agents. Finished work is kept, planned work stays open."""
    limits = invocation.settings().limits

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        run_ends.cancel_turn(tx, tenant_id, turn_id)
        return turns.show(tx, tenant_id, turn_id, limits)

    with invocation.open_ledger() as ledger:
        ended = ledger.write(stop)
    invocation.answer({"turn": ended}, lambda: print_row((ended["id"], ended["status"], ended["request"])))


@turn.command("fork")
@click.argument("turn_id")
@click.option("--at", "at", required=True, type=click.IntRange(0, 1_000_000), metavar="STEP", help="Keep this many steps.")
@click.option(
    "--message", default="", metavar="TEXT", help="The message that the agent reads next; at step 0 it replaces the request."
)
@fork_options
@pass_invocation
def fork_turn(invocation: Invocation, turn_id: str, at: int, message: str, model: str, role: str, *, live: bool) -> None:
    """Copy a turn up to a step into a new conversation, and run it from there.

    The model is asked again. Calls that the original made get its recorded results. At a call without one the fork stops, with exit
    code 6; with --live the call is made.
    """
    from headway.surfaces.cli.commands.chat import run_fork  # noqa: PLC0415  imports asyncio, which few commands need

    request = ForkRequest(at, message, model, role, live, sender=SENDER)
    with invocation.open_ledger() as ledger:
        ledger.read(conversations.get_turn, turn_id)  # before the model layer is loaded
    run_fork(invocation, request, lambda forks, tx, tenant_id, checked: forks.begin(tx, tenant_id, turn_id, checked))


@turn.command("diff")
@click.argument("first")
@click.argument("second")
@pass_invocation
def diff_turns(invocation: Invocation, first: str, second: str) -> None:
    """Compare two turns: plans, calls, results, answers, tokens, cost and time, side by side."""
    with invocation.open_ledger() as ledger:
        diff = ledger.read(comparison.compare, first, second)
    invocation.answer({"diff": diff}, lambda: print_diff(diff))


@turn.command("send")
@click.argument("turn_id")
@click.argument("message")
@pass_invocation
def send_to_turn(invocation: Invocation, turn_id: str, message: str) -> None:
    """Send MESSAGE to a running turn. Its agent reads it at its next step."""
    with invocation.open_ledger() as ledger:
        sent = ledger.write(steering.send_to_turn, turn_id, message, SENDER)
    invocation.answer({"message": sent.as_json()}, lambda: click.echo(f"sent to {turn_id}"))

"""`headway turn`: control turns from the shell."""

from typing import Any

import click

from headway.actions import turns
from headway.actions.people import steering
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def turn() -> None:
    """Manage turns. `headway chat` starts one."""


@turn.command("cancel")
@click.argument("turn_id")
@pass_invocation
def cancel_turn(invocation: Invocation, turn_id: str) -> None:
    """Cancel a turn and its sub-agents. Finished work is kept, planned work stays open."""
    limits = invocation.settings().limits

    def stop(tx: Transaction, tenant_id: int) -> dict[str, Any]:
        turns.cancel(tx, tenant_id, turn_id)
        return turns.show(tx, tenant_id, turn_id, limits)

    with invocation.open_ledger() as ledger:
        ended = ledger.write(stop)
    line = f"{ended['id']}  {ended['status']}  {to_one_line(ended['request'])[:60]}".rstrip()
    invocation.answer({"turn": ended}, lambda: click.echo(line))


@turn.command("send")
@click.argument("turn_id")
@click.argument("message")
@pass_invocation
def send_to_turn(invocation: Invocation, turn_id: str, message: str) -> None:
    """Send MESSAGE to a running turn. Its agent reads it at its next step."""
    with invocation.open_ledger() as ledger:
        sent = ledger.write(steering.send_to_turn, turn_id, message, SENDER)
    invocation.answer({"message": sent.as_json()}, lambda: click.echo(f"sent to {turn_id}"))

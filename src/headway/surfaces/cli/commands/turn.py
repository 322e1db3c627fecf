"""`headway turn`: control turns from the shell."""

from typing import Any

import click

from headway.actions import turns
from headway.actions.people import steering
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction
from headway.surfaces.cli.changes_view import describe_changes, list_changed_files, list_diff_lines
from headway.surfaces.cli.context import SENDER, TENANT_WIDE, CommandGroup, Invocation, pass_invocation


@click.group(cls=CommandGroup, unused=TENANT_WIDE)
def turn() -> None:
    """Manage turns. `headway chat` starts one."""


@turn.command("show")
@click.argument("turn_id")
@click.option("--diff", is_flag=True, help="Print the diff of what it changed in its repository.")
@pass_invocation
def show_turn(invocation: Invocation, turn_id: str, *, diff: bool) -> None:
    """Show a turn: its status, its outcome and what it changed in its repository."""
    with invocation.open_ledger() as ledger:
        document = ledger.read(turns.show, turn_id, invocation.settings().limits)
    invocation.answer({"turn": document}, lambda: click.echo("\n".join(format_turn(document, with_diff=diff))))


def format_turn(document: dict[str, Any], *, with_diff: bool) -> list[str]:
    outcome = f" ({document['outcome']})" if document["outcome"] else ""
    lines = [
        f"{document['id']}  {document['status']}{outcome}  {to_one_line(document['request'])[:60]}".rstrip(),
        *(f"  open: {to_one_line(item['title'])}" for item in document["incomplete"]),
    ]
    changes = document["changes"]
    if changes:
        lines += [f"  {describe_changes(changes)}", *(f"    {line}" for line in list_changed_files(changes))]
    if changes and with_diff:
        lines += ["", *list_diff_lines(changes)]
    return lines


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

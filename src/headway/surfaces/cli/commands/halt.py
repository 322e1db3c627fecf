"""`headway halt` and `headway unhalt`: the kill switch of the whole installation."""

import click

from headway.actions import halts
from headway.ledger.text import to_one_line
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.cli.render import format_time


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--why", default="", metavar="TEXT", help="The reason, shown while everything is halted.")
@pass_invocation
def halt(call: Invocation, why: str) -> None:
    """Stop all agents until `headway unhalt`. No model is called, no tool runs and nothing starts."""
    with call.database() as database:
        before, found = database.write(lambda tx: (halts.find_active(tx), halts.halt(tx, why)))
    said = f"Already halted since {format_time(found.since)}" if before else "Halted"
    kept = " The earlier reason is kept." if before and why.strip() not in ("", found.why) else ""
    reason = f": {to_one_line(found.why)}" if found.why else ""
    call.answer({"halt": halts.as_json(found)}, lambda: click.echo(f"{said}{reason}.{kept} Resume with `headway unhalt`."))


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@pass_invocation
def unhalt(call: Invocation) -> None:
    """Lift the halt, so that everything resumes where it stopped."""
    with call.database() as database:
        lifted = database.write(halts.unhalt)
    words = "The halt is lifted." if lifted else "Nothing was halted."
    call.answer({"halt": halts.as_json(None)}, lambda: click.echo(words))

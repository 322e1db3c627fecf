"""`headway halt` and `headway unhalt`: the kill switch of the whole installation."""

import click

from headway.actions import halts
from headway.ledger.text import to_one_line
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, act_as_sender, pass_invocation
from headway.surfaces.cli.render import format_time


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--why", default="", metavar="TEXT", help="The reason, shown while everything is halted.")
@pass_invocation
def halt(invocation: Invocation, why: str) -> None:
    """Stop all agents until `headway unhalt`. No model is called, no tool runs and nothing starts."""
    with invocation.database() as database:
        before, active_halt = database.write(act_as_sender(lambda tx: (halts.find_active(tx), halts.halt(tx, why))))
    sentence = f"Already halted since {format_time(active_halt.since)}" if before else "Halted"
    note = " The earlier reason is kept." if before and why.strip() not in ("", active_halt.why) else ""
    reason = f": {to_one_line(active_halt.why)}" if active_halt.why else ""
    invocation.answer(
        {"halt": halts.as_json(active_halt)}, lambda: click.echo(f"{sentence}{reason}.{note} Resume with `headway unhalt`.")
    )


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@pass_invocation
def unhalt(invocation: Invocation) -> None:
    """Lift the halt, so that everything resumes where it stopped."""
    with invocation.database() as database:
        lifted = database.write(act_as_sender(halts.unhalt))
    sentence = "The halt is lifted." if lifted else "Nothing was halted."
    invocation.answer({"halt": halts.as_json(None)}, lambda: click.echo(sentence))

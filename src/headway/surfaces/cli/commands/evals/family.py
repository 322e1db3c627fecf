"""`headway eval`: the commands. What they do is imported when one is called, because it loads the agents."""

from typing import Any

import click

from headway.surfaces.cli.arguments import DOLLARS
from headway.surfaces.cli.context import INSTALLATION_WIDE, TENANT_WIDE, Command, CommandGroup, Invocation, pass_invocation

REPEAT_LIMIT = 100


@click.group(
    "eval",
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway eval run basics", "headway eval record TURN_ID --suite cases.toml"),
)
def evals() -> None:
    """Run suites of cases against models, and record new cases."""


@evals.command("run", cls=Command)
@click.argument("suite_name", metavar="SUITE")
@click.option(
    "--model", "models", multiple=True, metavar="NAME", help="Use this model instead of the matrix's; repeat for several."
)
@click.option(
    "-k", "--repeat", type=click.IntRange(1, REPEAT_LIMIT), metavar="N", help="Repeat every case (default: the suite's repeat)."
)
@click.option("--filter", "patterns", multiple=True, metavar="GLOB", help="Only cases with such a name or tag; repeat for several.")
@click.option("--list", "only_list", is_flag=True, help="List the cases and exit.")
@click.option("--replay", is_flag=True, help="Serve recorded results; an attempt stops at a call that has none.")
@click.option("--budget", type=DOLLARS, metavar="USD", help="The most that the run may cost (default: HEADWAY_BUDGET_USD).")
@click.option("--parallel", default=4, show_default=True, type=click.IntRange(1, 64), metavar="N", help="Attempts at a time.")
@click.option("--resume", is_flag=True, help="Continue the suite's newest run: skip what has a result.")
@click.option("--keep", is_flag=True, help="Keep the homes of the attempts, for `headway --home`.")
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Also write JUnit XML.")
@pass_invocation
def run_evals(invocation: Invocation, /, suite_name: str, *, only_list: bool, junit: str | None, **options: Any) -> None:
    """Run the cases of SUITE, a TOML file or the name of a suite that comes with Headway (basics).

    Each attempt runs in a new home with an empty database; your data is not read. Exit code 0: all passed, 1: some failed,
    6: the run ended early (--resume continues it).
    """
    from headway.surfaces.cli.commands.evals.running import run_suite  # noqa: PLC0415

    run_suite(invocation, suite_name, junit, options, only_list=only_list)


assert isinstance(run_evals, Command)
run_evals.refuse(INSTALLATION_WIDE)


@evals.command("record")
@click.argument("turn_id", metavar="TURN")
@click.option(
    "--suite", "suite_path", required=True, metavar="FILE", type=click.Path(dir_okay=False), help="The suite to add it to."
)
@click.option("--name", metavar="NAME", help="The name of the case (default: the first words of the message).")
@pass_invocation
def record_turn(invocation: Invocation, turn_id: str, suite_path: str, name: str | None) -> None:
    """Add a finished turn to a suite as a case.

    The case has the turn's message, the files that it found, and checks for what it did. Edit it afterwards. The results of its
    calls are recorded beside the suite, for `eval run --replay`.
    """
    from headway.surfaces.cli.commands.evals.recording import record  # noqa: PLC0415

    record(invocation, turn_id, suite_path, name)

"""`headway why`: the events and decisions that led to the present state of a todo, turn, goal or job."""

import time
from functools import partial
from typing import get_args

import click

from headway.actions.inspection import why as explanations
from headway.actions.inspection.why import Explanation, WhyKind, WhyReference
from headway.ledger.text import MAX_INTEGER, to_one_line
from headway.surfaces.cli.arguments import SUB_GOAL_ID
from headway.surfaces.cli.context import TENANT_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.cli.render import format_time


@click.command(cls=Command, unused=TENANT_WIDE)
@click.argument("subject", nargs=-1, required=True, metavar="[todo|turn|goal|job] ID")
@click.option("--all", "show_all", is_flag=True, help="Print every line, not only the most important ones.")
@click.option("--sub-goal", type=SUB_GOAL_ID, metavar="ID", help="Only explain this sub-goal of the goal.")
@pass_invocation
def why(invocation: Invocation, subject: tuple[str, ...], sub_goal: int | None, *, show_all: bool) -> None:
    """Explain how a todo, turn, goal or job got into its current state.

    Prints the events and decisions that led to it, oldest first, each with its number in the log. The last line says what the state
    is now and what would change it. `todo:12` is short for `todo 12`. The id of a turn or a job needs no kind.
    """
    limit = MAX_INTEGER if show_all else explanations.SCREEN_LINES
    with invocation.open_ledger() as ledger:
        reference = parse_subject(subject) or ledger.read(explanations.find_reference, subject[0])
        if sub_goal is None:
            explain = partial(explanations.explain, kind=reference.kind, reference=reference.id, limit=limit)
        elif reference.kind == "goal":
            explain = partial(explanations.explain_sub_goal, goal=reference.id, sub_goal_id=sub_goal)
        else:
            raise click.UsageError("--sub-goal needs a goal, such as `headway why goal 3 --sub-goal 2`")
        explanation = ledger.read(explain)
    invocation.answer(explanation.as_json(), lambda: print_explanation(explanation))


def parse_subject(subject: tuple[str, ...]) -> WhyReference | None:
    """Return the kind and the id, or None if only an id was given."""
    if len(subject) == 1:
        return None
    kind = next((known for known in get_args(WhyKind) if known == subject[0]), None)
    if kind is None or len(subject) > 2:
        raise click.UsageError(f"Name one {', '.join(get_args(WhyKind)[:-1])} or job, such as `headway why todo 12`")
    return WhyReference(kind, subject[1])


def print_explanation(explanation: Explanation) -> None:
    today = time.strftime("%Y-%m-%d ")
    *lines, end = explanation.lines
    width = max((len(str(line.seq)) for line in lines if line.seq is not None), default=1)
    for index, line in enumerate(lines):
        number = "" if line.seq is None else str(line.seq)
        click.echo(f"{number:>{width}}  {format_time(line.at).removeprefix(today)}  {to_one_line(line.text)}")
        if not index and explanation.left_out:
            click.echo(f"{'':>{width}}  … {explanation.left_out} lines are left out: --all prints them")
    click.echo(to_one_line(end.text))

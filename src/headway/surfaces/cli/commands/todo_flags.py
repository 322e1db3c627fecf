"""Options that several commands of `headway todo` share, and the output of changed todos."""

from collections.abc import Callable
from functools import partial

import click

from headway.ledger.todo import Todo
from headway.surfaces.cli import render
from headway.surfaces.cli.context import Invocation

outcome_flag = click.option("--outcome", metavar="TEXT", help="What the result was.")


def lease_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for todos that an agent has claimed."""
    command = click.option("--force", is_flag=True, help="Override another agent's lease.")(command)
    return click.option("--lease-token", metavar="TOKEN", help="The lease token that `claim` printed.")(command)


def answer_with_todos(invocation: Invocation, changed: list[Todo]) -> None:
    document = {"todo": changed[0].as_json()} if len(changed) == 1 else {"todos": [item.as_json() for item in changed]}
    invocation.answer(document, partial(render.print_todos, changed))

"""`headway todo add`."""

from typing import Any

import click

from headway.actions.todos import todos
from headway.ledger.todo import Draft
from headway.surfaces.cli.arguments import (
    STATUS,
    TODO_ID,
    check_options,
    field_options,
    read_checks,
    read_fields,
)
from headway.surfaces.cli.commands.todo_flags import answer_with_todos
from headway.surfaces.cli.context import Command, Invocation, pass_invocation, read_standard_input


@click.command(cls=Command)
@click.argument("subject", nargs=-1, required=True)
@click.option("--description", "-d", default="", metavar="TEXT", help="Details; - reads them from standard input.")
@click.option(
    "--criteria", default="", metavar="TEXT", help="What must be true when it is done: text for the agent, which nothing checks."
)
@click.option("--agent", default="index", metavar="NAME", help="The agent that adds it.")
@click.option("--agent-type", metavar="NAME", help="The type of agent it is meant for.")
@click.option("--after", "depends_on", multiple=True, type=TODO_ID, metavar="ID", help="Wait for this todo (repeatable).")
@click.option("--status", default="pending", show_default=True, type=STATUS, metavar="STATUS", help="The status at the beginning.")
@click.option("--position", type=int, metavar="N", help="Position in the list (default: last).")
@click.option("--turn", metavar="UUID", help="Add it to this turn's plan.")
@field_options
@check_options
@pass_invocation
def add(call: Invocation, /, subject: tuple[str, ...], description: str, **fields: Any) -> None:
    """Add a todo. With checks, it can only be completed when they pass."""
    checks = ""
    if definitions := read_checks(fields):
        from headway.ledger.parsing.checks import write_checks  # noqa: PLC0415  most todos have no checks

        checks = write_checks(definitions, "operator")
    with call.open_ledger() as ledger:
        draft = Draft(
            subject=" ".join(subject),
            description=read_standard_input() if description == "-" else description,
            completion_criteria=fields["criteria"],
            agent_type=fields["agent_type"],
            agent_id=fields["agent"],
            conversation_id=ledger.scope.conversation_id,
            turn_id=fields["turn"],
            status=fields["status"],
            position=fields["position"],
            depends_on=fields["depends_on"],
            checks=checks,
            **read_fields(fields),
        )
        answer_with_todos(call, [ledger.write(todos.add_todo, draft)])

"""`headway todo edit`."""

from typing import Any

import click

from headway.actions.todos import todo_checks, todos
from headway.ledger.todo import Change, Todo
from headway.storage.transaction import Transaction
from headway.surfaces.cli.arguments import (
    TODO_ID,
    TODO_ID_OR_NONE,
    check_options,
    field_options,
    read_checks,
    read_fields,
)
from headway.surfaces.cli.commands.todo_flags import answer_with_todos, lease_flags, outcome_flag
from headway.surfaces.cli.context import (
    Command,
    Invocation,
    act_as_sender,
    pass_invocation,
    read_standard_input,
)


@click.command(cls=Command)
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@click.option("--subject", metavar="TEXT", help="The new subject.")
@click.option("--description", "-d", metavar="TEXT", help="The new details; - reads them from standard input.")
@click.option("--criteria", "completion_criteria", metavar="TEXT", help="What must be true when it is done.")
@click.option("--agent-type", metavar="NAME", help='The type of agent it is meant for; "" clears it.')
@click.option("--position", type=int, metavar="N", help="Position in the list; later todos move down.")
@click.option(
    "--after",
    "depends_on",
    multiple=True,
    type=TODO_ID_OR_NONE,
    metavar="ID",
    help='Wait for this todo instead (repeatable); "" clears them.',
)
@outcome_flag
@field_options
@check_options
@click.option("--no-checks", is_flag=True, help="Remove all checks.")
@lease_flags
@pass_invocation
def edit(call: Invocation, /, todo_id: int, lease_token: str | None, *, no_checks: bool, force: bool, **fields: Any) -> None:
    """Change a todo. The checks that you give replace all its checks."""
    checks, chosen = read_checks(fields), read_fields(fields)
    if no_checks and checks:
        raise click.UsageError("Give checks or --no-checks, not both.")
    changes = {name: value for name, value in fields.items() if value not in (None, ())} | chosen
    if changes.get("description") == "-":
        changes["description"] = read_standard_input()
    if changes.get("agent_type") == "":
        changes["agent_type"] = None
    if "depends_on" in changes:
        changes["depends_on"] = tuple(dependency for dependency in changes["depends_on"] if dependency)
    if not changes and not checks and not no_checks:
        raise click.UsageError(
            "Nothing to change. Give at least one of --subject, --description, --criteria, --position, --after, …"
        )
    change = Change(**changes)

    @act_as_sender
    def work(tx: Transaction) -> Todo:
        edited = change
        if checks or no_checks:
            edited = todo_checks.set_checks(tx, tenant_id, todo_id, change, checks, "operator")
        return todos.change_todo(tx, tenant_id, todo_id, edited, lease_token, force=force)

    with call.open_ledger() as ledger:
        tenant_id = ledger.scope.tenant_id
        answer_with_todos(call, [ledger.database.write(work)])

"""`headway todo add` and `edit`, and the options that commands about todos share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway.actions.todos import todos
from headway.ledger.todo import Change, Draft, Todo
from headway.storage.transaction import Transaction
from headway.surfaces.cli import render
from headway.surfaces.cli.arguments import STATUS, TODO_ID, TODO_ID_OR_NONE, check_options, field_options, read_checks, read_fields
from headway.surfaces.cli.context import Command, Invocation, act_as_sender, option, pass_invocation, read_standard_input

outcome_flag = option("--outcome", metavar="TEXT", help="What the result was.")


def lease_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for todos that an agent has claimed."""
    command = option("--force", is_flag=True, help="Override another agent's lease.")(command)
    return option("--lease-token", metavar="TOKEN", help="The lease token that `claim` printed.")(command)


def answer_with_todos(invocation: Invocation, changed: list[Todo]) -> None:
    document = {"todo": changed[0].as_json()} if len(changed) == 1 else {"todos": [item.as_json() for item in changed]}
    invocation.answer(document, partial(render.print_todos, changed))


@click.command(cls=Command)
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@option("--subject", metavar="TEXT", help="The new subject.")
@option("--description", "-d", metavar="TEXT", help="The new details; - reads them from standard input.")
@option("--criteria", "completion_criteria", metavar="TEXT", help="What must be true when it is done.")
@option("--agent-type", metavar="NAME", help='The type of agent it is meant for; "" clears it.')
@option("--position", type=int, metavar="N", help="Position in the list; later todos move down.")
@option(
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
@option("--no-checks", is_flag=True, help="Remove all checks.")
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
            from headway.actions.todos import todo_checks  # noqa: PLC0415  most changes leave the checks alone

            edited = todo_checks.set_checks(tx, tenant_id, todo_id, change, checks, "operator")
        return todos.change_todo(tx, tenant_id, todo_id, edited, lease_token, force=force)

    with call.open_ledger() as ledger:
        tenant_id = ledger.scope.tenant_id
        answer_with_todos(call, [ledger.database.write(work)])


@click.command(cls=Command)
@click.argument("subject", nargs=-1, required=True)
@option("--description", "-d", default="", metavar="TEXT", help="Details; - reads them from standard input.")
@option(
    "--criteria", default="", metavar="TEXT", help="What must be true when it is done: text for the agent, which nothing checks."
)
@option("--agent", default="index", metavar="NAME", help="The agent that adds it.")
@option("--agent-type", metavar="NAME", help="The type of agent it is meant for.")
@option("--after", "depends_on", multiple=True, type=TODO_ID, metavar="ID", help="Wait for this todo (repeatable).")
@option("--status", default="pending", show_default=True, type=STATUS, metavar="STATUS", help="The status at the beginning.")
@option("--position", type=int, metavar="N", help="Position in the list (default: last).")
@option("--turn", metavar="UUID", help="Add it to this turn's plan.")
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

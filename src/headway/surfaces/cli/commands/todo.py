"""`headway todo`: read and change the ledger from the shell."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway.actions import claims, todos, views
from headway.ledger.scope import Selection
from headway.ledger.todo import OPEN_STATUSES, Change, Draft, Status, Todo
from headway.surfaces.cli import render
from headway.surfaces.cli.arguments import SECONDS, STATUS, TODO_ID, TODO_ID_OR_NONE
from headway.surfaces.cli.commands.transfer import export, import_todos
from headway.surfaces.cli.context import (
    CommandGroup,
    Invocation,
    TenantDatabase,
    pass_invocation,
    read_standard_input,
    require_confirmation,
)


@click.group(cls=CommandGroup)
def todo() -> None:
    """Manage todos: add work, list it and complete it."""


todo.add_command(export)
todo.add_command(import_todos)

ids_argument = click.argument("ids", nargs=-1, required=True, type=TODO_ID, metavar="ID…")
outcome_flag = click.option("--outcome", metavar="TEXT", help="What the result was.")


def lease_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for todos that an agent has claimed."""
    command = click.option("--force", is_flag=True, help="Override another agent's lease.")(command)
    return click.option("--lease-token", metavar="TOKEN", help="The lease token that `claim` printed.")(command)


@todo.command()
@click.argument("subject", nargs=-1, required=True)
@click.option("--description", "-d", default="", metavar="TEXT", help="Details; - reads them from standard input.")
@click.option("--criteria", default="", metavar="TEXT", help="What must be true when it is done.")
@click.option("--agent", default="index", metavar="NAME", help="The agent that adds it.")
@click.option("--agent-type", metavar="NAME", help="The type of agent it is meant for.")
@click.option("--after", "depends_on", multiple=True, type=TODO_ID, metavar="ID", help="Wait for this todo (repeatable).")
@click.option("--status", default="pending", type=STATUS, metavar="STATUS")
@click.option("--position", type=int, metavar="N", help="Position in the list (default: last).")
@click.option("--turn", metavar="UUID", help="Add it to this turn's plan.")
@pass_invocation
def add(call: Invocation, /, subject: tuple[str, ...], description: str, **fields: Any) -> None:
    """Add a todo."""
    with call.desk() as desk:
        draft = Draft(
            subject=" ".join(subject),
            description=read_standard_input() if description == "-" else description,
            completion_criteria=fields["criteria"],
            agent_type=fields["agent_type"],
            agent_id=fields["agent"],
            conversation_id=desk.scope.conversation_id,
            turn_id=fields["turn"],
            status=fields["status"],
            position=fields["position"],
            depends_on=fields["depends_on"],
        )
        answer_with_todos(call, [desk.write(todos.add, draft)])


@todo.command("list")
@click.option("--all", "everything", is_flag=True, help="Include ended todos.")
@click.option("--status", "statuses", multiple=True, type=STATUS, metavar="STATUS", help="Only this status (repeatable).")
@click.option("--turn", metavar="UUID", help="Only this turn's plan.")
@click.option("--agent", metavar="NAME", help="Only todos of this agent.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000_000))
@pass_invocation
def list_todos(
    call: Invocation, *, everything: bool, statuses: tuple[Status, ...], turn: str | None, agent: str | None, limit: int
) -> None:
    """List todos. In progress first, then pending in order, then (with --all) ended, most recent first."""
    wanted = statuses or (() if everything else OPEN_STATUSES)
    with call.desk() as desk:
        selection = Selection(desk.conversation_id, turn, wanted, agent)
        shown = desk.read(views.get_todo_list, selection, limit)
    document = {"todos": [one.as_json() for one in shown.todos], "next_cursor": shown.next_cursor}
    call.answer(document, partial(render.print_todo_list, shown.todos, shown.counts, more=shown.next_cursor is not None))


@todo.command()
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@pass_invocation
def show(call: Invocation, todo_id: int) -> None:
    """Show everything about one todo."""
    with call.desk() as desk:
        one = desk.read(todos.get, todo_id)
        lease = desk.read(claims.find_lease, todo_id)
    call.answer({"todo": one.as_json()}, partial(render.print_todo, one, lease))


@todo.command()
@ids_argument
@lease_flags
@pass_invocation
def start(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Start todos. An ended todo must be reopened first, with `reopen`."""
    with call.desk() as desk:
        started = apply_in_transaction(desk, lambda tx, one: todos.start(tx, desk.scope.tenant_id, one, **lease), ids)
    answer_with_todos(call, started)


@todo.command("done")
@ids_argument
@outcome_flag
@lease_flags
@pass_invocation
def complete(call: Invocation, /, ids: tuple[int, ...], outcome: str | None, **lease: Any) -> None:
    """Complete todos."""
    end_each(call, ids, "completed", outcome, lease)


@todo.command()
@ids_argument
@outcome_flag
@lease_flags
@pass_invocation
def cancel(call: Invocation, /, ids: tuple[int, ...], outcome: str | None, **lease: Any) -> None:
    """Cancel todos. They stay in the ledger."""
    end_each(call, ids, "canceled", outcome, lease)


@todo.command()
@ids_argument
@lease_flags
@pass_invocation
def reopen(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Set todos back to pending."""
    change_each(call, ids, Change(status="pending"), lease)


@todo.command()
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@click.option("--subject", metavar="TEXT")
@click.option("--description", "-d", metavar="TEXT", help="- reads it from standard input.")
@click.option("--criteria", "completion_criteria", metavar="TEXT")
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
@lease_flags
@pass_invocation
def edit(call: Invocation, /, todo_id: int, lease_token: str | None, *, force: bool, **fields: Any) -> None:
    """Change the fields of a todo."""
    given = {name: value for name, value in fields.items() if value not in (None, ())}
    if given.get("description") == "-":
        given["description"] = read_standard_input()
    if given.get("agent_type") == "":
        given["agent_type"] = None
    if "depends_on" in given:
        given["depends_on"] = tuple(one for one in given["depends_on"] if one)
    if not given:
        raise click.UsageError(
            "Nothing to change. Give at least one of --subject, --description, --criteria, --position, --after, …"
        )
    change_each(call, (todo_id,), Change(**given), {"lease_token": lease_token, "force": force})


@todo.command()
@ids_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@lease_flags
@pass_invocation
def rm(call: Invocation, /, ids: tuple[int, ...], *, yes: bool, **lease: Any) -> None:
    """Delete todos for good. (`cancel` keeps the row.)"""
    with call.desk() as desk:
        found = [desk.read(todos.get, one) for one in ids]
        require_confirmation(f"Delete {', '.join(f'#{one.id} {one.subject[:60]!r}' for one in found)} for good?", yes=yes)
        apply_in_transaction(desk, lambda tx, one: todos.remove(tx, desk.scope.tenant_id, one, **lease), ids)
    call.answer({"deleted": True}, lambda: click.echo(f"deleted {', '.join(f'#{one}' for one in ids)}"))


@todo.command()
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 500))
@pass_invocation
def ready(call: Invocation, limit: int) -> None:
    """List todos that can start now: pending, with all dependencies ended."""
    with call.desk() as desk:
        found = desk.read(views.list_ready, desk.conversation_id, limit)
    call.answer({"todos": [one.as_json() for one in found]}, partial(render.print_todos, found))


@todo.command()
@click.option("--agent", required=True, metavar="NAME", help="The agent that claims it.")
@click.option(
    "--lease", "lease_s", default="60s", show_default=True, type=SECONDS, help="How long the lease lasts, unless it is extended."
)
@pass_invocation
def claim(call: Invocation, agent: str, lease_s: float) -> None:
    """Claim the next ready todo for an agent. If none is ready, prints nothing and exits 3."""
    with call.desk() as desk:
        taken = desk.write(claims.claim, agent, desk.conversation_id, lease_s)
    if taken is None:
        raise click.exceptions.Exit(3)
    call.answer(taken.as_json(), partial(print_claim, taken))


@todo.command()
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@click.option("--lease-token", required=True, metavar="TOKEN", help="The lease token that `claim` printed.")
@click.option("--lease", "lease_s", default="60s", show_default=True, type=SECONDS, help="How long the lease lasts from now.")
@pass_invocation
def heartbeat(call: Invocation, todo_id: int, lease_token: str, lease_s: float) -> None:
    """Extend the lease on a claimed todo."""
    with call.desk() as desk:
        kept = desk.write(claims.heartbeat, todo_id, lease_token, lease_s)
    call.answer(kept.as_json(), partial(print_claim, kept))


def print_claim(taken: claims.Claim) -> None:
    render.print_todos([taken.todo])
    click.echo(f"lease token {taken.lease.token}, until {render.format_time(taken.lease.expires_at)}")


def change_each(call: Invocation, ids: tuple[int, ...], change: Change, lease: dict[str, Any]) -> None:
    with call.desk() as desk:
        changed = apply_in_transaction(desk, lambda tx, one: todos.change(tx, desk.scope.tenant_id, one, change, **lease), ids)
    answer_with_todos(call, changed)


def end_each(call: Invocation, ids: tuple[int, ...], status: Any, outcome: str | None, lease: dict[str, Any]) -> None:
    with call.desk() as desk:
        ended = apply_in_transaction(desk, lambda tx, one: todos.end(tx, desk.scope.tenant_id, one, status, outcome, **lease), ids)
    answer_with_todos(call, ended)


def apply_in_transaction(desk: TenantDatabase, step: Callable[..., Todo], ids: tuple[int, ...]) -> list[Todo]:
    """Apply a step to all todos in one transaction, so that a typo in the last id changes none of them."""
    return desk.database.write(lambda tx: [step(tx, one) for one in ids])


def answer_with_todos(call: Invocation, changed: list[Todo]) -> None:
    document = {"todo": changed[0].as_json()} if len(changed) == 1 else {"todos": [one.as_json() for one in changed]}
    call.answer(document, partial(render.print_todos, changed))

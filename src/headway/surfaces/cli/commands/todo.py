"""`headway todo`: read and change the ledger from the shell."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway.actions.todos import claims, proof, todo_lists, todos
from headway.ledger.errors import ChecksRequired
from headway.ledger.parsing.checks import write_checks
from headway.ledger.scope import Selection
from headway.ledger.todo import OPEN_STATUSES, Change, Draft, Status, Todo
from headway.storage.transaction import Transaction
from headway.surfaces.cli import render
from headway.surfaces.cli.arguments import (
    SECONDS,
    STATUS,
    TODO_ID,
    TODO_ID_OR_NONE,
    check_options,
    field_filters,
    field_options,
    read_checks,
    read_fields,
    read_filters,
)
from headway.surfaces.cli.commands.transfer import export, import_todos
from headway.surfaces.cli.context import (
    SENDER,
    CommandGroup,
    Invocation,
    TenantDatabase,
    act_as_sender,
    pass_invocation,
    read_standard_input,
    require_confirmation,
)

VERIFY_LIMIT = 10_000  # todos at once


@click.group(
    cls=CommandGroup,
    examples=(
        "headway todo add 'Fix the login' --check-command 'pytest -q tests/test_login.py'",
        "headway todo list",
        "headway todo done 1 --outcome 'The cookie had expired'",
    ),
)
def todo() -> None:
    """Add, list and complete todos. A todo with checks is completed only when they pass."""


ids_argument = click.argument("ids", nargs=-1, required=True, type=TODO_ID, metavar="ID…")
yes_flag = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
outcome_flag = click.option("--outcome", metavar="TEXT", help="What the result was.")


def lease_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for todos that an agent has claimed."""
    command = click.option("--force", is_flag=True, help="Override another agent's lease.")(command)
    return click.option("--lease-token", metavar="TOKEN", help="The lease token that `claim` printed.")(command)


@todo.command()
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
    checks = write_checks(read_checks(fields), "operator")
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


@todo.command("list")
@click.option("--all", "everything", is_flag=True, help="Include ended todos.")
@click.option("--status", "statuses", multiple=True, type=STATUS, metavar="STATUS", help="Only this status (repeatable).")
@click.option("--turn", metavar="UUID", help="Only this turn's plan.")
@click.option("--agent", metavar="NAME", help="Only todos of this agent.")
@field_filters
@click.option(
    "--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 1_000_000), help="List at most this many."
)
@pass_invocation
def list_todos(
    invocation: Invocation,
    /,
    *,
    everything: bool,
    statuses: tuple[Status, ...],
    turn: str | None,
    agent: str | None,
    limit: int,
    **filters: Any,
) -> None:
    """List todos: first those in progress, then pending todos in order and, with --all, ended todos, newest first."""
    selected_statuses = statuses or (() if everything else OPEN_STATUSES)
    with invocation.open_ledger() as ledger:
        selection = Selection(ledger.conversation_id, turn, selected_statuses, agent)
        chosen = read_filters(filters)
        page = ledger.read(lambda tx, tenant_id: todo_lists.get_todo_list(tx, tenant_id, chosen(selection, tx.now), limit))
    document = {"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor}
    invocation.answer(document, partial(render.print_todo_list, page.todos, page.counts, more=page.next_cursor is not None))


@todo.command()
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@pass_invocation
def show(invocation: Invocation, todo_id: int) -> None:
    """Show everything about one todo."""
    with invocation.open_ledger() as ledger:
        item = ledger.read(todos.get_todo, todo_id)
        lease = ledger.read(claims.find_lease, todo_id)
        newest = ledger.read(proof.list_newest_receipts, "todo", todo_id, 1)
    receipt = newest[0].as_json() if newest else None
    document = {"todo": item.as_json(), **({"receipt": receipt} if receipt else {})}
    invocation.answer(document, partial(render.print_todo, item, lease, receipt))


@todo.command()
@ids_argument
@lease_flags
@pass_invocation
def start(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Start todos. Reopen an ended todo first."""
    with call.open_ledger() as ledger:
        started = apply_in_transaction(ledger, lambda tx, id_: todos.start_todo(tx, ledger.scope.tenant_id, id_, **lease), ids)
    answer_with_todos(call, started)


@todo.command("done")
@ids_argument
@outcome_flag
@click.option("--override", "reason", metavar="REASON", help="Complete them without their checks. The reason is kept.")
@yes_flag
@lease_flags
@pass_invocation
def complete(
    call: Invocation, /, ids: tuple[int, ...], outcome: str | None, reason: str | None, *, yes: bool, **lease: Any
) -> None:
    """Complete todos. Their checks run first; if one fails, nothing is changed."""
    override = todos.build_override(reason, Change(status="completed"), SENDER)

    @act_as_sender
    def work(tx: Transaction) -> list[Todo]:
        return [todos.end_todo(tx, tenant_id, id_, "completed", outcome, override=override, **lease) for id_ in ids]

    try:
        with call.open_ledger() as ledger:
            tenant_id = ledger.scope.tenant_id
            ended = ledger.database.write(work)
    except ChecksRequired:
        from headway.surfaces.cli.proving import write_with_checks  # noqa: PLC0415  loads the agent libraries

        ended = write_with_checks(call, tenant_id, work, yes=yes)
    answer_with_todos(call, ended)


@todo.command()
@click.argument("ids", nargs=-1, type=TODO_ID, metavar="[ID…]")
@click.option("--all", "include_open", is_flag=True, help="Without ids: include todos that are not completed.")
@yes_flag
@pass_invocation
def verify(call: Invocation, /, ids: tuple[int, ...], *, include_open: bool, yes: bool) -> None:
    """Run the checks of these todos again, or of all completed todos. Exits with 4 if a check no longer passes."""
    if ids and include_open:
        raise click.UsageError("Give ids or --all, not both.")
    with call.open_ledger() as ledger:
        tenant_id = ledger.scope.tenant_id
        if not ids:
            found = ledger.read(proof.list_checked_todos, VERIFY_LIMIT, ledger.conversation_id, include_open=include_open)
            ids = tuple(sorted(found))
        for todo_id in ids:
            ledger.read(proof.get_checked, todo_id)
    if not ids:
        call.answer({"results": []}, lambda: click.echo("no completed todos have checks"))
        return
    from headway.surfaces.cli.proving import verify_todos  # noqa: PLC0415  loads the agent libraries

    verify_todos(call, tenant_id, ids, yes=yes)


@todo.command()
@ids_argument
@outcome_flag
@lease_flags
@pass_invocation
def cancel(call: Invocation, /, ids: tuple[int, ...], outcome: str | None, **lease: Any) -> None:
    """Cancel todos. They stay in the ledger."""
    with call.open_ledger() as ledger:
        ended = apply_in_transaction(
            ledger, lambda tx, id_: todos.end_todo(tx, ledger.scope.tenant_id, id_, "canceled", outcome, **lease), ids
        )
    answer_with_todos(call, ended)


@todo.command()
@ids_argument
@lease_flags
@pass_invocation
def reopen(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Set todos back to pending."""
    change_each(call, ids, Change(status="pending"), lease)


@todo.command()
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
            edited = todos.set_checks(tx, tenant_id, todo_id, change, checks, "operator")
        return todos.change_todo(tx, tenant_id, todo_id, edited, lease_token, force=force)

    with call.open_ledger() as ledger:
        tenant_id = ledger.scope.tenant_id
        answer_with_todos(call, [ledger.database.write(work)])


@todo.command()
@ids_argument
@yes_flag
@lease_flags
@pass_invocation
def rm(call: Invocation, /, ids: tuple[int, ...], *, yes: bool, **lease: Any) -> None:
    """Delete todos for good. (`cancel` keeps the row.)"""
    with call.open_ledger() as ledger:
        items = [ledger.read(todos.get_todo, id_) for id_ in ids]
        require_confirmation(f"Delete {', '.join(f'#{item.id} {item.subject[:60]!r}' for item in items)} for good?", yes=yes)
        apply_in_transaction(ledger, lambda tx, id_: todos.remove_todo(tx, ledger.scope.tenant_id, id_, **lease), ids)
    call.answer({"deleted": True}, lambda: click.echo(f"deleted {', '.join(f'#{id_}' for id_ in ids)}"))


@todo.command()
@click.option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="List at most this many.")
@pass_invocation
def ready(invocation: Invocation, limit: int) -> None:
    """List todos that can start now: pending, with all dependencies ended."""
    with invocation.open_ledger() as ledger:
        items = ledger.read(todo_lists.list_ready_todos, ledger.conversation_id, limit)
    invocation.answer({"todos": [item.as_json() for item in items]}, partial(render.print_todos, items))


@todo.command()
@click.option("--agent", required=True, metavar="NAME", help="The agent that claims it.")
@click.option(
    "--lease", "lease_s", default="60s", show_default=True, type=SECONDS, help="How long the lease lasts, unless it is extended."
)
@pass_invocation
def claim(invocation: Invocation, agent: str, lease_s: float) -> None:
    """Claim the next ready todo for an agent. If none is ready, prints nothing and exits 3."""
    with invocation.open_ledger() as ledger:
        new_claim = ledger.write(claims.claim, agent, ledger.conversation_id, lease_s)
    if new_claim is None:
        raise click.exceptions.Exit(3)
    invocation.answer(new_claim.as_json(), partial(print_claim, new_claim))


@todo.command()
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@click.option("--lease-token", required=True, metavar="TOKEN", help="The lease token that `claim` printed.")
@click.option("--lease", "lease_s", default="60s", show_default=True, type=SECONDS, help="How long the lease lasts from now.")
@pass_invocation
def heartbeat(invocation: Invocation, todo_id: int, lease_token: str, lease_s: float) -> None:
    """Extend the lease on a claimed todo."""
    with invocation.open_ledger() as ledger:
        extended_claim = ledger.write(claims.heartbeat, todo_id, lease_token, lease_s)
    invocation.answer(extended_claim.as_json(), partial(print_claim, extended_claim))


def print_claim(held_claim: claims.Claim) -> None:
    render.print_todos([held_claim.todo])
    click.echo(f"lease token {held_claim.lease.token}, until {render.format_time(held_claim.lease.expires_at)}")


def change_each(invocation: Invocation, ids: tuple[int, ...], change: Change, lease: dict[str, Any]) -> None:
    with invocation.open_ledger() as ledger:
        changed = apply_in_transaction(
            ledger, lambda tx, id_: todos.change_todo(tx, ledger.scope.tenant_id, id_, change, **lease), ids
        )
    answer_with_todos(invocation, changed)


def apply_in_transaction(ledger: TenantDatabase, step: Callable[..., Todo], ids: tuple[int, ...]) -> list[Todo]:
    """Apply a step to all todos in one transaction, so that a typo in the last id changes none of them."""
    return ledger.write(lambda tx, _tenant_id: [step(tx, id_) for id_ in ids])


def answer_with_todos(invocation: Invocation, changed: list[Todo]) -> None:
    document = {"todo": changed[0].as_json()} if len(changed) == 1 else {"todos": [item.as_json() for item in changed]}
    invocation.answer(document, partial(render.print_todos, changed))


todo.add_command(export)
todo.add_command(import_todos)

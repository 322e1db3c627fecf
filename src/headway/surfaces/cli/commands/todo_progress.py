"""`headway todo show`, and the commands that start, claim, verify, end and delete todos."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from headway.actions.todos import claims, proof, todos
from headway.ledger.errors import ChecksRequired
from headway.ledger.todo import Change, Todo
from headway.storage.transaction import Transaction
from headway.surfaces.cli import render
from headway.surfaces.cli.arguments import SECONDS, TODO_ID
from headway.surfaces.cli.commands.todo_editing import answer_with_todos, lease_flags, outcome_flag
from headway.surfaces.cli.context import (
    SENDER,
    Command,
    Invocation,
    TenantDatabase,
    act_as_sender,
    option,
    pass_invocation,
    require_confirmation,
)

VERIFY_LIMIT = 10_000  # todos at once


ids_argument = click.argument("ids", nargs=-1, required=True, type=TODO_ID, metavar="ID…")


yes_flag = option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@click.command(cls=Command)
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


@click.command(cls=Command)
@ids_argument
@lease_flags
@pass_invocation
def start(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Start todos. Reopen an ended todo first."""
    with call.open_ledger() as ledger:
        started = apply_in_transaction(ledger, lambda tx, id_: todos.start_todo(tx, ledger.scope.tenant_id, id_, **lease), ids)
    answer_with_todos(call, started)


@click.command("done", cls=Command)
@ids_argument
@outcome_flag
@option("--override", "reason", metavar="REASON", help="Complete them without their checks. The reason is kept.")
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


@click.command(cls=Command)
@click.argument("ids", nargs=-1, type=TODO_ID, metavar="[ID…]")
@option("--all", "include_open", is_flag=True, help="Without ids: include todos that are not completed.")
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


@click.command(cls=Command)
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


@click.command(cls=Command)
@ids_argument
@lease_flags
@pass_invocation
def reopen(call: Invocation, /, ids: tuple[int, ...], **lease: Any) -> None:
    """Set todos back to pending."""
    change_each(call, ids, Change(status="pending"), lease)


@click.command(cls=Command)
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


@click.command(cls=Command)
@option("--agent", required=True, metavar="NAME", help="The agent that claims it.")
@option(
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


@click.command(cls=Command)
@click.argument("todo_id", metavar="ID", type=TODO_ID)
@option("--lease-token", required=True, metavar="TOKEN", help="The lease token that `claim` printed.")
@option("--lease", "lease_s", default="60s", show_default=True, type=SECONDS, help="How long the lease lasts from now.")
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

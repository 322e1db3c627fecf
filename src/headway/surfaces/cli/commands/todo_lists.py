"""`headway todo list` and `ready`."""

from functools import partial
from typing import Any

import click

from headway.actions.todos import todo_lists
from headway.ledger.parsing.todo_fields import parse_filters
from headway.ledger.scope import Selection
from headway.ledger.todo import OPEN_STATUSES, Status
from headway.surfaces.cli import render
from headway.surfaces.cli.arguments import STATUS, field_filters
from headway.surfaces.cli.context import Command, Invocation, option, pass_invocation


@click.command("list", cls=Command)
@option("--all", "everything", is_flag=True, help="Include ended todos.")
@option("--status", "statuses", multiple=True, type=STATUS, metavar="STATUS", help="Only this status (repeatable).")
@option("--turn", metavar="UUID", help="Only this turn's plan.")
@option("--agent", metavar="NAME", help="Only todos of this agent.")
@field_filters
@option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 1_000_000), help="List at most this many.")
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
    """List todos: first the ones in progress, then pending todos in order and, with --all, ended todos, newest first."""
    selected_statuses = statuses or (() if everything else OPEN_STATUSES)
    with invocation.open_ledger() as ledger:
        selection = Selection(ledger.conversation_id, turn, selected_statuses, agent)
        page = ledger.read(
            lambda tx, tenant_id: todo_lists.get_todo_list(
                tx, tenant_id, selection._replace(fields=parse_filters(filters, tx.now)), limit
            )
        )
    document = {"todos": [todo.as_json() for todo in page.todos], "next_cursor": page.next_cursor}
    invocation.answer(document, partial(render.print_todo_list, page.todos, page.counts, more=page.next_cursor is not None))


@click.command(cls=Command)
@option("--limit", default=50, show_default=True, metavar="N", type=click.IntRange(1, 500), help="List at most this many.")
@pass_invocation
def ready(invocation: Invocation, limit: int) -> None:
    """List todos that can start now: pending, with all dependencies ended."""
    with invocation.open_ledger() as ledger:
        items = ledger.read(todo_lists.list_ready_todos, ledger.conversation_id, limit)
    invocation.answer({"todos": [item.as_json() for item in items]}, partial(render.print_todos, items))

"""How todos look in a terminal. Piped, they are plain lines; on a terminal they are something to look at."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headway.ledger.text import lines, one_line
from headway.ledger.todo import Status, Todo
from headway.storage.lease_store import Lease

if TYPE_CHECKING:
    from rich.console import Console

# A status has a shape of its own, never a colour alone.
MARKS: dict[Status, str] = {"in_progress": "▶", "pending": "○", "completed": "✔", "canceled": "✕"}
STYLES: dict[Status, str] = {"in_progress": "bold cyan", "pending": "", "completed": "dim", "canceled": "dim strike"}


def on_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def console() -> "Console":
    from rich.console import Console  # noqa: PLC0415  only terminals need it, and it takes longer than the command

    return Console(highlight=False, emoji=False, markup=False)


def plain_line(todo: Todo) -> str:
    return f"{'▶ ' if todo.status == 'in_progress' else ''}#{todo.id} [{todo.status}] {one_line(todo.subject)}{where(todo)}"


def where(todo: Todo) -> str:
    return f" (conversation {todo.conversation_id})" if todo.conversation_id else ""


def counts_line(counts: dict[Status, int]) -> str:
    pending, going = counts["pending"], counts["in_progress"]
    opened = f"{pending + going:,} open ({going:,} in progress, {pending:,} pending)" if pending + going else "no open todos"
    ended = counts["completed"] + counts["canceled"]
    return f"{opened} · {ended:,} ended" if ended else opened


def todo_lines(todos: Sequence[Todo]) -> None:
    """One line a todo."""
    if not on_a_terminal():
        for todo in todos:
            click.echo(plain_line(todo))
        return
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(ratio=1)
    table.add_column(justify="right")
    now = time.time()
    for todo in todos:
        style = STYLES[todo.status]
        subject = Text(one_line(todo.subject), style=style)
        if todo.depends_on and not todo.ended:
            subject.append(f"  after {', '.join(f'#{one}' for one in todo.depends_on)}", "dim italic")
        if todo.status == "in_progress" and todo.agent_id:
            subject.append(f"  {one_line(todo.agent_id)}", "dim")
        subject.append(where(todo), "dim")
        age = Text(ago(now - (todo.completed_at or todo.started_at or todo.created_at) / 1000), "dim")
        table.add_row(Text(MARKS[todo.status], style), Text(f"#{todo.id}", "dim"), subject, age)
    console().print(table)


def todo_list(todos: Sequence[Todo], counts: dict[Status, int], *, more: bool) -> None:
    if on_a_terminal():
        console().print(counts_line(counts), style="bold")
        if todos:
            todo_lines(todos)
        if more:
            console().print("… and more: --limit shows them", style="dim")
        return
    todo_lines(todos)
    if more:
        say_there_are_more(len(todos))
    if not todos:
        click.echo("no open todos" if not counts["pending"] + counts["in_progress"] else "no todos match")


def say_there_are_more(shown: int) -> None:
    """Whoever reads the lines should not take them for all; they are no part of the list."""
    click.echo(f"{shown} shown, there are more: --limit N", err=True)


def todo_card(todo: Todo, lease: Lease | None = None) -> None:
    """Everything about one todo."""
    click.echo(f"{MARKS[todo.status]} #{todo.id} {one_line(todo.subject)}")
    facts = [
        ("status", todo.status),
        ("list", f"conversation {todo.conversation_id}" if todo.conversation_id else "tenant-wide"),
        ("turn", todo.turn_id),
        ("position", str(todo.position)),
        ("agent", todo.agent_id),
        ("agent type", todo.agent_type),
        ("waits for", ", ".join(f"#{one}" for one in todo.depends_on)),
        ("done when", todo.completion_criteria),
        ("outcome", todo.outcome),
        ("created", clock_time(todo.created_at)),
        ("started", clock_time(todo.started_at)),
        ("ended", clock_time(todo.completed_at)),
        ("lease", f"{lease.agent_id} until {clock_time(lease.expires_at)}" if lease else ""),
    ]
    for name, value in facts:
        if value:
            click.echo(f"  {name:<10} {one_line(value)}")
    for line in lines(todo.description):
        click.echo(f"    {line}")


def clock_time(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000)) if milliseconds else ""


def waiting_words(retry_at: int, reason: str) -> str:
    """A call failed and is retried later; the date is omitted when that is today."""
    moment, today = clock_time(retry_at * 1000), time.strftime("%Y-%m-%d ")
    return f"waiting to retry until {moment.removeprefix(today)}: {reason}"


def ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"

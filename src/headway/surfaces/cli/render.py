"""Renders todos for the terminal: a styled table on a terminal, plain lines in a pipe."""

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from headway.ledger.check import Check, Proof, decode_checks, describe_check
from headway.ledger.parsing.todo_fields import format_words, list_words
from headway.ledger.text import to_lines, to_one_line
from headway.ledger.todo import CompletedBy, Lease, Status, Todo

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

# Each status has its own symbol, so that no meaning depends on colour alone.
MARKS: dict[Status, str] = {"in_progress": "▶", "pending": "○", "completed": "✔", "canceled": "✕"}
PROOF_MARKS: dict[Proof, str] = {
    "proven": "✓ proven",
    "unproven": "? unproven",
    "overridden": "! overridden",
    "broken": "✗ broken",
    "none": "",
}
COMPLETERS: dict[CompletedBy, str] = {
    "check": "its checks",
    "effect": "what was written",
    "agent": "an agent",
    "person": "a person",
}
PROOF_STYLES: dict[Proof, str] = {"proven": "green", "unproven": "dim", "overridden": "yellow", "broken": "bold red", "none": ""}
STYLES: dict[Status, str] = {"in_progress": "bold cyan", "pending": "", "completed": "dim", "canceled": "dim strike"}


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def format_file_count(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


def build_console() -> "Console":
    from rich.console import Console  # noqa: PLC0415  only needed on a terminal, and slower to import than the command itself

    return Console(highlight=False, emoji=False, markup=False)


def print_above(live: "Live | None", console: "Console", content: "RenderableType") -> None:
    """Print above a live view. Rich's own thread draws with its lock: without it, it could draw below the wrong line meanwhile, and
    leave an old one behind."""
    with live._lock if live else nullcontext():
        console.print(content)


def close_live(live: "Live") -> None:
    """Close a live view and erase it. Rich draws it once more, in full. If it is taller than the screen, a part would remain."""
    from rich.text import Text  # noqa: PLC0415

    live.update(Text())
    live.stop()


def format_todo(todo: Todo) -> str:
    marker = "▶ " if todo.status == "in_progress" else ""
    proof = f" [{PROOF_MARKS[todo.proof]}]" if todo.proof != "none" else ""
    fields = to_one_line(format_words(todo))
    return f"{marker}#{todo.id} [{todo.status}]{proof} {to_one_line(todo.subject)}{fields}{format_conversation_suffix(todo)}"


def format_conversation_suffix(todo: Todo) -> str:
    return f" (conversation {todo.conversation_id})" if todo.conversation_id else ""


def format_counts(counts: dict[Status, int]) -> str:
    pending, in_progress = counts["pending"], counts["in_progress"]
    open_text = (
        f"{pending + in_progress:,} open ({in_progress:,} in progress, {pending:,} pending)"
        if pending + in_progress
        else "no open todos"
    )
    ended = counts["completed"] + counts["canceled"]
    return f"{open_text} · {ended:,} ended" if ended else open_text


def print_todos(todos: Sequence[Todo]) -> None:
    """Print one line per todo."""
    if not is_terminal():
        if todos:
            click.echo("\n".join(map(format_todo, todos)))
        return
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(ratio=1, overflow="fold")  # without it, rich cuts words of lines with wide characters
    table.add_column(justify="right")
    now = time.time()
    for todo in todos:
        style = STYLES[todo.status]
        subject = Text(to_one_line(todo.subject), style=style)
        if todo.depends_on and not todo.ended:
            subject.append(f"  after {', '.join(f'#{id_}' for id_ in todo.depends_on)}", "dim italic")
        if todo.status == "in_progress" and todo.agent_id:
            subject.append(f"  {to_one_line(todo.agent_id)}", "dim")
        subject.append(to_one_line(format_words(todo)), "magenta")
        subject.append(format_conversation_suffix(todo), "dim")
        if todo.proof != "none":
            subject.append(f"  {PROOF_MARKS[todo.proof]}", PROOF_STYLES[todo.proof])
        age = Text(format_age(now - (todo.completed_at or todo.started_at or todo.created_at) / 1000), "dim")
        table.add_row(Text(MARKS[todo.status], style), Text(f"#{todo.id}", "dim"), subject, age)
    build_console().print(table)


def print_todo_list(todos: Sequence[Todo], counts: dict[Status, int], *, more: bool) -> None:
    if is_terminal():
        build_console().print(format_counts(counts), style="bold")
        if todos:
            print_todos(todos)
        if more:
            build_console().print("… more: use --limit N", style="dim")
        return
    print_todos(todos)
    if more:
        print_more_hint(len(todos))
    if not todos:
        click.echo("no open todos" if not counts["pending"] + counts["in_progress"] else "no todos match")


def print_more_hint(count: int) -> None:
    """Say on standard error that the list is incomplete, so that the hint is not part of the output."""
    click.echo(f"{count} shown, more exist: use --limit N", err=True)


def print_todo(todo: Todo, lease: Lease | None = None, receipt: dict[str, Any] | None = None) -> None:
    """Print everything about one todo."""
    click.echo(f"{MARKS[todo.status]} #{todo.id} {to_one_line(todo.subject)}")
    facts = [
        ("status", todo.status),
        ("list", f"conversation {todo.conversation_id}" if todo.conversation_id else "tenant-wide"),
        ("turn", todo.turn_id),
        ("position", str(todo.position)),
        ("agent", todo.agent_id),
        ("agent type", todo.agent_type),
        ("waits for", ", ".join(f"#{id_}" for id_ in todo.depends_on)),
        *list_words(todo),
        ("done when", todo.completion_criteria),
        ("outcome", todo.outcome),
        ("created", format_time(todo.created_at)),
        ("started", format_time(todo.started_at)),
        ("ended", format_time(todo.completed_at)),
        ("lease", f"{lease.agent_id} until {format_time(lease.expires_at)}" if lease else ""),
        ("done by", COMPLETERS[todo.completed_by] if todo.completed_by else ""),
        ("proof", PROOF_MARKS[todo.proof]),
        *(("check", format_check(check)) for check in decode_checks(todo.checks)),
        ("receipt", format_receipt(receipt) if receipt else ""),
    ]
    for name, value in facts:
        if value:
            click.echo(f"  {name:<10} {to_one_line(value)}")
    for found in receipt["checks"] if receipt else ():
        click.echo(f"    {'✓' if found['ok'] else '✗'} {to_one_line(describe_check(found['check']))}")
        for line in () if found["ok"] else to_lines(found["detail"]):
            click.echo(f"        {line}")
    for line in to_lines(todo.description):
        click.echo(f"    {line}")


def format_check(check: Check) -> str:
    folder = f" in {check['folder']}" if "folder" in check else ""
    return f"{describe_check(check)}{folder} ({check['by']})"


def format_receipt(receipt: dict[str, Any]) -> str:
    """Describe a receipt in one line."""
    what = "all checks passed" if receipt["ok"] else "a check failed"
    if receipt["override"]:
        what = f"completed without the checks: {receipt['override']}"
    return f"#{receipt['id']} {format_time(receipt['at'] * 1000)} {what} ({receipt['made_by']})"


def format_time(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000)) if milliseconds else ""


def format_wait(retry_at: int, reason: str) -> str:
    """Say when and why a failed call is retried. The date is omitted if it is today."""
    retry_time, today = format_time(retry_at * 1000), time.strftime("%Y-%m-%d ")
    return f"waiting to retry until {retry_time.removeprefix(today)}: {reason}"


def format_age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"

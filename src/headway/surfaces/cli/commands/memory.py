"""`headway memory`: read and change the notes that agents recall."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from headway.actions.turns import memory as memory_actions
from headway.actions.turns.memory import DEFAULT_KIND, MemoryChange, NewMemory
from headway.ledger.scope import MemorySelection
from headway.ledger.text import to_lines, to_one_line
from headway.surfaces.cli.arguments import DEFAULT_PAGE_SIZE, MEMORY_ID
from headway.surfaces.cli.context import (
    SENDER,
    CommandGroup,
    Invocation,
    pass_invocation,
    read_standard_input,
    require_confirmation,
)
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_row, print_table

HEADINGS = ("id", "kind", "origin", "text")
QUESTION_LENGTH = 60  # characters of a text in a question


@click.group(cls=CommandGroup, examples=("headway memory search invoice", "headway memory add 'Invoices are due after 30 days'"))
def memory() -> None:
    """Search and change the notes that agents keep for later."""


kind_filter = click.option("--kind", metavar="NAME", help="Only entries of this kind.")
limit_flag = click.option(
    "--limit",
    default=DEFAULT_PAGE_SIZE,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 500),
    help="List at most this many.",
)


@memory.command("list")
@kind_filter
@limit_flag
@pass_invocation
def list_entries(invocation: Invocation, kind: str | None, limit: int) -> None:
    """List entries, newest first. With --conversation, list what agents recall there: its own entries and the tenant-wide ones."""
    with invocation.open_ledger() as ledger:
        page = ledger.read(memory_actions.list_notes, MemorySelection(ledger.conversation_id, kind), "", limit)
    answer_with_page(invocation, page.as_json(), "no memory entries")


@memory.command()
@click.argument("words", nargs=-1, required=True)
@kind_filter
@limit_flag
@pass_invocation
def search(invocation: Invocation, words: tuple[str, ...], kind: str | None, limit: int) -> None:
    """Find entries with all WORDS, newest first. Case does not matter."""
    with invocation.open_ledger() as ledger:
        find = partial(ledger.read, memory_actions.list_notes, MemorySelection(ledger.conversation_id, kind), " ".join(words))
        page = find(limit)
        entries = page.entries
        while page.next_cursor and len(entries) < limit:  # each read covers a part of the memory, and other work can run between
            page = find(limit - len(entries), page.next_cursor)
            entries = entries + page.entries
    answer_with_page(invocation, page._replace(entries=entries).as_json(), "no memory entry has all these words")


@memory.command()
@click.argument("entry_id", metavar="ID", type=MEMORY_ID)
@pass_invocation
def show(invocation: Invocation, entry_id: int) -> None:
    """Show an entry with its whole text and its origin."""
    with invocation.open_ledger() as ledger:
        entry = ledger.read(memory_actions.get_note, entry_id).as_json()
    invocation.answer({"entry": entry}, lambda: print_entry(entry))


@memory.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--kind", default=DEFAULT_KIND, show_default=True, metavar="NAME", help="What sort of note it is.")
@pass_invocation
def add(invocation: Invocation, text: tuple[str, ...], kind: str) -> None:
    """Add an entry (- reads it from standard input). Without --conversation, agents in every conversation recall it."""
    with invocation.open_ledger() as ledger:
        new = NewMemory(read_text(" ".join(text)), kind, ledger.scope.conversation_id)
        answer_with_entry(invocation, ledger.write(memory_actions.add_note, new, SENDER).as_json())


@memory.command()
@click.argument("entry_id", metavar="ID", type=MEMORY_ID)
@click.option("--text", metavar="TEXT", help="The new text; - reads it from standard input.")
@click.option("--kind", metavar="NAME", help="The new kind.")
@pass_invocation
def edit(invocation: Invocation, entry_id: int, text: str | None, kind: str | None) -> None:
    """Change the text or the kind of an entry."""
    if text is None and kind is None:
        raise click.UsageError("Nothing to change. Give --text, --kind or both.")
    with invocation.open_ledger() as ledger:
        changes = MemoryChange(None if text is None else read_text(text), kind)
        answer_with_entry(invocation, ledger.write(memory_actions.change_note, entry_id, changes, SENDER).as_json())


@memory.command()
@click.argument("ids", nargs=-1, required=True, type=MEMORY_ID, metavar="ID…")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_invocation
def rm(invocation: Invocation, ids: tuple[int, ...], *, yes: bool) -> None:
    """Delete entries for good. Transcripts of runs that wrote or recalled them are kept."""
    with invocation.open_ledger() as ledger:
        unique_ids = list(dict.fromkeys(ids))
        entries = [ledger.read(memory_actions.get_note, id_) for id_ in unique_ids]
        names = ", ".join(f"#{entry.id} {to_one_line(entry.text)[:QUESTION_LENGTH]!r}" for entry in entries)
        require_confirmation(f"Delete {names} for good?", yes=yes)
        tenant_id = ledger.scope.tenant_id
        ledger.database.write(lambda tx: [memory_actions.remove_note(tx, tenant_id, id_) for id_ in unique_ids])
    invocation.answer({"deleted": True}, lambda: click.echo(f"deleted {', '.join(f'#{id_}' for id_ in unique_ids)}"))


def read_text(argument: str) -> str:
    return read_standard_input() if argument == "-" else argument


def answer_with_page(invocation: Invocation, page: dict[str, Any], placeholder: str) -> None:
    rows = list(map(build_row, page["entries"]))
    invocation.answer(page, lambda: print_table(HEADINGS, rows, placeholder, more=bool(page["next_cursor"])))


def answer_with_entry(invocation: Invocation, entry: dict[str, Any]) -> None:
    invocation.answer({"entry": entry}, lambda: print_row(build_row(entry)))


def build_row(entry: dict[str, Any]) -> Sequence[str]:
    return f"#{entry['id']}", entry["kind"], ", ".join(describe_origin(entry)), entry["text"]


def describe_origin(entry: dict[str, Any]) -> list[str]:
    """Describe where an entry belongs and who wrote it."""
    origin = entry["origin"]
    owner = f"conversation {entry['conversation_id']}" if entry["conversation_id"] else "tenant-wide"
    facts = [
        owner,
        f"by {origin['agent_id']}" if origin["agent_id"] else "",
        f"goal #{origin['goal_id']}" if origin["goal_id"] else "",
        f"{'edited ' if entry['revision'] else ''}by {origin['person']}" if origin["person"] else "",
    ]
    return [to_one_line(fact) for fact in facts if fact]


def print_entry(entry: dict[str, Any]) -> None:
    """Print everything about one entry."""
    origin = entry["origin"]
    facts = {
        "kind": entry["kind"],
        "scope": f"conversation {entry['conversation_id']}" if entry["conversation_id"] else "tenant-wide",
        "agent": origin["agent_id"],
        "person": origin["person"],
        "written in": f"conversation {origin['conversation_id']}" if origin["conversation_id"] else "",
        "turn": origin["turn_id"],
        "run": origin["run_id"],
        "goal": f"#{origin['goal_id']}" if origin["goal_id"] else "",
        "created": format_time(entry["created_at"] * 1000),
        "edited": format_time(entry["updated_at"] * 1000) if entry["revision"] else "",
    }
    click.echo(f"#{entry['id']}")
    for name, value in facts.items():
        if value:
            click.echo(f"  {name:<10} {to_one_line(value)}")
    for line in to_lines(entry["text"]):
        click.echo(f"    {line}")

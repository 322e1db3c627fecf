"""`headway todo export` and `headway todo import`."""

import os
from functools import partial
from typing import Any

import click

from headway.actions.todos import import_export
from headway.ledger.errors import BadDocument, StorageError
from headway.ledger.parsing import checklist
from headway.ledger.scope import Selection
from headway.ledger.text import to_one_line
from headway.surfaces.cli import render
from headway.surfaces.cli.context import (
    INPUT_LIMIT,
    Command,
    Invocation,
    decode_text,
    pass_invocation,
    read_standard_input,
    require_confirmation,
)
from headway.surfaces.cli.trust_question import is_person_present

format_flag = click.option(
    "--format", "form", type=click.Choice(["md", "json"]), help="File format (default: from the file's name, else json)."
)


def choose_format(file: str, form: str | None) -> str:
    return form or ("md" if file.lower().endswith((".md", ".markdown")) else "json")


@click.command(cls=Command)
@click.argument("file", default="-", metavar="[FILE|-]")
@format_flag
@pass_invocation
def export(invocation: Invocation, file: str, form: str | None) -> None:
    """Write todos, including ended ones, to a file or standard output. JSON is lossless."""
    file_format = choose_format(file, form)
    with invocation.open_ledger() as ledger:
        document = ledger.read(
            import_export.export_markdown if file_format == "md" else import_export.export_json, Selection(ledger.conversation_id)
        )
    if file != "-":
        write_document(file, document.text)
        invocation.answer({"file": file}, partial(click.echo, f"written to {to_one_line(file)}", err=True))
    elif file_format == "md":
        invocation.answer({"markdown": document.text}, partial(click.echo, document.text, nl=False))
    else:
        click.echo(document.text, nl=False)
    for note in document.notes:
        click.echo(f"note: {note}", err=True)


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE|-")
@format_flag
@click.option("--yes", "-y", is_flag=True, help="Accept the checks in the file.")
@pass_invocation
def import_todos(invocation: Invocation, file: str, form: str | None, *, yes: bool) -> None:
    """Read todos from a file or standard input: all of them, or none. In Markdown, an item waits for the items nested below it.

    Checks are shown before anything is stored, and you are asked whether to accept them, because they may run programs.
    """
    document = read_document(file)
    from_markdown = choose_format(file, form) == "md"
    checks = (import_export.list_markdown_checks if from_markdown else import_export.list_json_checks)(document)
    if checks:
        accept_checks(checks, yes=yes)
    with invocation.open_ledger() as ledger:
        read = import_export.import_markdown if from_markdown else import_export.import_json
        imported = ledger.write(lambda tx, _tenant_id: read(tx, ledger.scope, document))
    answer: dict[str, Any] = {"todos": [todo.as_json() for todo in imported.added], "known": imported.known}
    invocation.answer(answer, partial(print_import, imported))
    if from_markdown and (skipped := checklist.count_skipped_lines(document)):
        lines = "1 list line was skipped" if skipped == 1 else f"{skipped:,} list lines were skipped"
        click.echo(f"note: {lines}: todos look like `- [ ] subject`.", err=True)


def accept_checks(checks: list[import_export.ImportedCheck], *, yes: bool) -> None:
    """Show the checks, and ask whether to accept them. Raises BadDocument where no person can be asked."""
    click.echo(f"The document has {len(checks):,} {'check' if len(checks) == 1 else 'checks'}:", err=True)
    for subject, check, folder in checks:
        left_out = f" (without its folder {to_one_line(folder)})" if folder else ""
        click.echo(f"  {to_one_line(subject)}: {to_one_line(checklist.encode_definition(check))}{left_out}", err=True)
    if not yes and not is_person_present():
        raise BadDocument("The checks in the document must be accepted. Nothing was imported. Read them, and repeat with --yes.")
    require_confirmation("Import them? They run when the todos are completed.", yes=yes)


def print_import(imported: import_export.ImportResult) -> None:
    known = f", {imported.known} already in the ledger" if imported.known else ""
    click.echo(f"{len(imported.added)} imported{known}", err=True)
    render.print_todos(imported.added)


def read_document(file: str) -> str:
    if file == "-":
        return read_standard_input()
    try:
        with open(file, "rb") as source:
            return decode_text(source.read(INPUT_LIMIT + 1), file)
    except OSError as error:
        raise BadDocument(f"{file} cannot be read: {error.strerror}.") from None


def write_document(file: str, text: str) -> None:
    try:
        if os.path.isfile(file) or not os.path.exists(file):
            replace_file(os.path.realpath(file), text)
        else:  # a device or a pipe must be written to, not replaced
            with open(file, "w", encoding="utf-8") as target:
                target.write(text)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}.") from None


def replace_file(file: str, text: str) -> None:
    """Replace a file atomically, so that a full disk cannot destroy the existing copy."""
    scratch = f"{file}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", encoding="utf-8") as target:
            if os.path.exists(file):
                os.chmod(scratch, os.stat(file).st_mode)  # the new copy is no more readable than the old one
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        os.replace(scratch, file)
    except OSError:
        if os.path.exists(scratch):
            os.remove(scratch)
        raise

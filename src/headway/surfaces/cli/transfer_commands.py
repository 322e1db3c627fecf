"""`headway todo export` and `import`."""

import os
from functools import partial
from typing import Any

import click

from headway.actions import transfer
from headway.ledger import checklist
from headway.ledger.errors import BadDocument, StorageError
from headway.ledger.scope import Selection
from headway.ledger.text import one_line
from headway.surfaces.cli import drawing
from headway.surfaces.cli.calling import INPUT_LIMIT, Call, Command, decoded, pass_call, standard_input

format_flag = click.option("--format", "form", type=click.Choice(["md", "json"]), help="Default: by the file's name, else json.")


def form_of(file: str, form: str | None) -> str:
    return form or ("md" if file.lower().endswith((".md", ".markdown")) else "json")


@click.command(cls=Command)
@click.argument("file", default="-", metavar="[FILE|-]")
@format_flag
@pass_call
def export(call: Call, file: str, form: str | None) -> None:
    """Write todos, ended ones included, to a file or standard output. JSON loses nothing."""
    chosen = form_of(file, form)
    with call.desk() as desk:
        made = desk.read(transfer.as_markdown if chosen == "md" else transfer.as_json, Selection(desk.conversation_id))
    if file != "-":
        write_document(file, made.text)
        call.answer({"file": file}, partial(click.echo, f"written to {one_line(file)}", err=True))
    elif chosen == "md":
        call.answer({"markdown": made.text}, partial(click.echo, made.text, nl=False))
    else:
        click.echo(made.text, nl=False)
    for note in made.notes:
        click.echo(f"note: {note}", err=True)


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE|-")
@format_flag
@pass_call
def import_(call: Call, file: str, form: str | None) -> None:
    """Read todos from a file or standard input: all of them, or none. In Markdown, an item waits for the items nested below it."""
    document = read_document(file)
    with call.desk() as desk:
        from_markdown = form_of(file, form) == "md"
        read = transfer.from_markdown if from_markdown else transfer.from_json
        imported = desk.database.write(lambda tx: read(tx, desk.scope, document))
    answer: dict[str, Any] = {"todos": [one.as_json() for one in imported.added], "known": imported.known}
    call.answer(answer, partial(draw, imported))
    if from_markdown and (left := checklist.passed_over(document)):
        lines = "1 list line was not taken as a todo" if left == 1 else f"{left:,} list lines were not taken as todos"
        click.echo(f"note: {lines}: todos look like `- [ ] subject`.", err=True)


def draw(imported: transfer.Imported) -> None:
    known = f", {imported.known} already there" if imported.known else ""
    click.echo(f"{len(imported.added)} imported{known}", err=True)
    drawing.todo_lines(imported.added)


def read_document(file: str) -> str:
    if file == "-":
        return standard_input()
    try:
        with open(file, "rb") as source:
            return decoded(source.read(INPUT_LIMIT + 1), file)
    except OSError as error:
        raise BadDocument(f"{file} cannot be read: {error.strerror}.") from None


def write_document(file: str, text: str) -> None:
    try:
        if os.path.isfile(file) or not os.path.exists(file):
            replace_file(os.path.realpath(file), text)
        else:  # a device or a pipe: it takes the text, and must not be replaced
            with open(file, "w", encoding="utf-8") as target:
                target.write(text)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}.") from None


def replace_file(file: str, text: str) -> None:
    """Whole or not at all: a full disk must not cost the copy that is there."""
    scratch = f"{file}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", encoding="utf-8") as target:
            if os.path.exists(file):
                os.chmod(scratch, os.stat(file).st_mode)  # whoever could not read the old copy cannot read the new one
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        os.replace(scratch, file)
    except OSError:
        if os.path.exists(scratch):
            os.remove(scratch)
        raise

"""`headway todo export` and `import`."""

import os
import sys
from functools import partial
from typing import Any

import click

from headway.actions import transfer
from headway.ledger.errors import BadDocument, StorageError
from headway.ledger.scope import Selection
from headway.surfaces.cli import drawing
from headway.surfaces.cli.calling import Call, Command, pass_call

SIZE_LIMIT = 256 * 1024 * 1024

format_flag = click.option("--format", "form", type=click.Choice(["md", "json"]), help="Default: by the file's name, else json.")


def form_of(file: str, form: str | None) -> str:
    return form or ("md" if file.lower().endswith((".md", ".markdown")) else "json")


@click.command(cls=Command)
@click.argument("file", default="-", metavar="[FILE|-]")
@format_flag
@pass_call
def export(call: Call, file: str, form: str | None) -> None:
    """Write todos, ended ones included, to a file or standard output. JSON loses nothing."""
    lost: list[str] = []
    with call.desk() as desk:
        selection = Selection(desk.conversation_id)
        if form_of(file, form) == "md":
            text, lost = desk.read(transfer.as_markdown, selection)
        else:
            text = desk.read(transfer.as_json, selection)
    if file == "-":
        click.echo(text, nl=False)
    else:
        replace_file(file, text)
        call.answer({"file": file}, partial(click.echo, f"written to {file}", err=True))
    for one in lost:
        click.echo(f"note: a checklist cannot say {one}; export as JSON to keep it.", err=True)


@click.command("import", cls=Command)
@click.argument("file", metavar="FILE|-")
@format_flag
@pass_call
def import_(call: Call, file: str, form: str | None) -> None:
    """Read todos from a file or standard input: all of them, or none. In Markdown, an item waits for the items nested below it."""
    document = read_document(file)
    with call.desk() as desk:
        read = transfer.from_markdown if form_of(file, form) == "md" else transfer.from_json
        imported = desk.database.write(lambda tx: read(tx, desk.scope, document))
    answer: dict[str, Any] = {"todos": [one.as_json() for one in imported.added], "known": imported.known}
    call.answer(answer, partial(draw, imported))


def draw(imported: transfer.Imported) -> None:
    known = f", {imported.known} already there" if imported.known else ""
    click.echo(f"{len(imported.added)} imported{known}", err=True)
    drawing.todo_lines(imported.added)


def read_document(file: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(SIZE_LIMIT + 1)
        else:
            with open(file, "rb") as source:
                raw = source.read(SIZE_LIMIT + 1)
        if len(raw) > SIZE_LIMIT:
            raise BadDocument(f"{file} is larger than {SIZE_LIMIT // 2**20} MiB.")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadDocument(f"{file} is not UTF-8 text.") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}.") from None


def replace_file(file: str, text: str) -> None:
    """Whole or not at all: a full disk must not cost the copy that is there."""
    scratch = f"{file}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", encoding="utf-8") as target:
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        os.replace(scratch, file)
    except OSError as error:
        if os.path.exists(scratch):
            os.remove(scratch)
        raise StorageError(f"{file} cannot be written: {error.strerror}.") from None

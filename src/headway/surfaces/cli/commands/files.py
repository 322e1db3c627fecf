"""`headway file`: list, read and compare the files that agents wrote."""

import sys
from base64 import b64encode
from pathlib import Path
from typing import Any, BinaryIO

import click

from headway.actions.history import files as file_history
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.file_versions import ID_LENGTH, FileSelection, FileVersion, build_file_id
from headway.ledger.tenancy import format_size
from headway.ledger.text import to_one_line
from headway.surfaces.cli.arguments import GOAL_ID, SUB_GOAL_ID, limit_option
from headway.surfaces.cli.context import CommandGroup, Invocation, TenantDatabase, pass_invocation
from headway.surfaces.cli.render import format_time, is_terminal
from headway.surfaces.cli.tables import print_table

HEADINGS = ("id", "version", "size", "written", "by", "path")
VERSION_HEADINGS = ("version", "change", "size", "written", "by")
MARKS = {"same": " ", "added": "+", "deleted": "-"}
COLOURS = {"added": "green", "deleted": "red", "same": None}
NO_NEWLINE = "\\ No newline at end of file"
OBSTACLES = {
    "binary": "At least one of them is not text.",
    "not_kept": "The content of at least one of them was not kept.",
    "too_large": "They are too large.",
}
file_argument = click.argument("file", metavar="FILE")


@click.group(
    "file", cls=CommandGroup, examples=("headway file list --search invoice", "headway file diff report.md --from 1 --to 3")
)
def files() -> None:
    """List, read and compare the files that agents wrote. FILE is an id, or a path in the tenant's workspace."""


@files.command("list")
@click.option("--turn", "turn_id", default="", metavar="ID", help="Only files that this turn wrote.")
@click.option("--goal", "goal_id", default=None, type=GOAL_ID, help="Only files that this goal's agents wrote.")
@click.option("--sub-goal", "sub_goal_id", default=None, type=SUB_GOAL_ID, help="Only files that this sub-goal's agents wrote.")
@click.option("--role", default="", metavar="NAME", help="Only files that agents with this role wrote.")
@click.option("--path", default="", metavar="PATH", help="Only this file, or the files below this folder.")
@click.option("--search", "query", default="", metavar="WORDS", help="Only paths that contain all these words.")
@limit_option
@pass_invocation
def list_files(
    invocation: Invocation,
    turn_id: str,
    goal_id: int | None,
    sub_goal_id: int | None,
    role: str,
    path: str,
    query: str,
    limit: int,
) -> None:
    """List files, the last written first. With --conversation, only files that were written there."""
    with invocation.open_ledger() as ledger:
        owners = turn_id, goal_id or 0, ledger.scope.conversation_id, role
        selection = FileSelection(*owners, path, query, sub_goal_id or 0)
        page = ledger.read(file_history.list_files, selection, limit)
        found = page.files
        while page.next_cursor and query and len(found) < limit:  # each read covers a part of the files
            page = ledger.read(file_history.list_files, selection, limit - len(found), page.next_cursor)
            found = found + page.files
    document = page._replace(files=found).as_json()
    rows = [(file["id"], *list_cells(file["version"]), name_file(file)) for file in document["files"]]
    invocation.answer(document, lambda: print_table(HEADINGS, rows, "no files recorded", more=bool(page.next_cursor)))


@files.command()
@file_argument
@pass_invocation
def show(invocation: Invocation, file: str) -> None:
    """Show a file with its versions, newest first."""
    with invocation.open_ledger() as ledger:
        document = ledger.read(file_history.get_file, find_id(ledger, file)).as_json()
    rows = [(version["n"], version["change"], *list_cells(version)[1:]) for version in document["versions"]]

    def draw() -> None:
        click.echo(f"{document['file']['id']}  {to_one_line(name_file(document['file']))}")
        print_table(VERSION_HEADINGS, [[str(cell) for cell in row] for row in rows], "no versions")

    invocation.answer(document, draw)


@files.command()
@file_argument
@click.option("--version", metavar="N", type=click.IntRange(1), help="The number of a version; without it, the newest.")
@click.option("--output", "-o", default="-", metavar="PATH", help="Write to this file; - is standard output.")
@click.option("--force", is_flag=True, help="Replace the file that --output names.")
@pass_invocation
def get(invocation: Invocation, file: str, version: int | None, output: str, *, force: bool) -> None:
    """Print or save the content of a file. With --json, text is in `content`, and anything else in `base64`."""
    with invocation.open_ledger() as ledger:
        found = ledger.read(file_history.get_content, find_id(ledger, file), version)
    if output != "-":
        save(Path(output), found.data, force=force)
        click.echo(f"{to_one_line(output)}: version {found.version.n}, {format_size(len(found.data))}", err=True)
    elif invocation.as_json:
        is_text = found.version.is_text
        content = {"content": found.data.decode()} if is_text else {"base64": b64encode(found.data).decode()}
        invocation.answer({"file": found.file.as_json(), "version": found.version.as_json(), **content}, lambda: None)
    else:
        print_content(found.version, found.data)


def save(path: Path, data: bytes, *, force: bool) -> None:
    try:
        with path.open("wb" if force else "xb") as target:
            target.write(data)
    except FileExistsError:
        raise Conflict(f"{to_one_line(str(path))} exists. Nothing was written. --force replaces it.") from None
    except OSError as error:
        raise Invalid(f"{to_one_line(str(path))} cannot be written: {error.strerror or error}.") from None


def print_content(version: FileVersion, data: bytes) -> None:
    """Print the bytes as they are in a pipe. A terminal gets only text, without the characters that control it."""
    if not is_terminal():
        output: BinaryIO = sys.stdout.buffer
        output.write(data)
        output.flush()
    elif version.is_text:
        for line in data.decode().split("\n"):
            click.echo("\t".join(map(to_one_line, line.split("\t"))))
    else:
        raise Invalid("This file is not text. Save it with --output PATH.")


@files.command()
@file_argument
@click.option(
    "--from", "old", metavar="N", type=click.IntRange(0), help="The old version; without it, the one before the new version."
)
@click.option("--to", "new", metavar="N", type=click.IntRange(1), help="The new version; without it, the newest.")
@pass_invocation
def diff(invocation: Invocation, file: str, old: int | None, new: int | None) -> None:
    """Compare two versions of a file. `--from 0` shows all lines as added."""
    with invocation.open_ledger() as ledger:
        pair = ledger.read(file_history.load_pair, find_id(ledger, file), old, new)
    document = file_history.compare_file_versions(pair)
    invocation.answer(document, lambda: print_diff(document))


def print_diff(document: dict[str, Any]) -> None:
    """Print a unified diff."""
    name, old, new = to_one_line(document["file"]["path"]), document["from"], document["to"]
    if document["obstacle"]:
        answer = "are the same" if document["is_equal"] else f"cannot be compared. {OBSTACLES[document['obstacle']]}"
        click.echo(f"The versions {answer}")
        return
    if document["is_equal"]:
        click.echo("The versions are the same.")
        return
    click.echo(f"--- {name} (version {old['n']})" if old else "--- (no file)")
    click.echo(f"+++ {name} (version {new['n']})")
    for hunk in document["hunks"]:
        ranges = f"-{hunk['old_start']},{hunk['old_lines']} +{hunk['new_start']},{hunk['new_lines']}"
        click.secho(f"@@ {ranges} @@", fg="cyan")
        for line in hunk["lines"]:
            text = "\t".join(map(to_one_line, line["text"].split("\t")))
            click.secho(f"{MARKS[line['kind']]}{text}", fg=COLOURS[line["kind"]])
            if not line["has_newline"]:
                click.echo(NO_NEWLINE)
    if document["is_cut"]:
        click.echo(f"… cut. In all {document['added']:,} lines were added and {document['deleted']:,} deleted.")


def find_id(ledger: TenantDatabase, name: str) -> str:
    """Return the id of a file. A path names a file in the tenant's workspace."""
    if len(name) == ID_LENGTH and not set(name) - set("0123456789abcdef"):
        return name
    file_id = build_file_id(ledger.scope.tenant_id, "", name)
    try:
        ledger.read(file_history.get_file, file_id)
    except NotFound:
        raise NotFound(f"No file {to_one_line(name)[:80]!r} is recorded. `headway file list` shows all.") from None
    return file_id


def name_file(file: dict[str, Any]) -> str:
    return f"{file['path']} ({file['workspace']})" if file["workspace"] else str(file["path"])


def list_cells(version: dict[str, Any]) -> tuple[str, str, str, str]:
    size = "deleted" if version["change"] == "deleted" else format_size(version["size"])
    return str(version["n"]), size, format_time(version["at"] * 1000), describe_origin(version)


def describe_origin(version: dict[str, Any]) -> str:
    """Describe who wrote a version: `researcher with write_file, goal #3`."""
    if version["change"] == "found":
        return "not an agent"
    facts = [
        f"{version['role']} with {version['tool']}",
        f"goal #{version['goal_id']}" if version["goal_id"] else "",
        f"conversation {version['conversation_id']}" if version["conversation_id"] else "",
    ]
    return ", ".join(filter(None, facts))

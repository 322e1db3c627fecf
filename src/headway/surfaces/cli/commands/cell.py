"""`headway admin cell`: the Postgres databases on which tenants are placed, and what `headway doctor` says about them."""

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from headway.cells import redirects, registry
from headway.cells.directory import Directory, may_have_cells
from headway.cells.membership import describe_names, is_directory
from headway.cells.rules import Cell
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.text import to_one_line
from headway.settings import Settings, redact_database_url
from headway.storage.direct import DirectDatabase
from headway.surfaces.cli.context import (
    INSTALLATION_WIDE,
    CommandGroup,
    Invocation,
    act_as_sender,
    pass_invocation,
    require_confirmation,
)
from headway.surfaces.cli.every_cell import ask_every_cell
from headway.surfaces.cli.health import Finding, inspect_opened
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_table

HEADINGS: Final = ("cell", "address", "tenants", "state")
PUBLIC_URL: Final = re.compile(r"https?://(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?/?")


@click.group(cls=CommandGroup, unused=INSTALLATION_WIDE, examples=("headway admin cell list",))
def cell() -> None:
    """Manage cells: independent Postgres databases, each with some of the tenants and with its own processes."""


@cell.command("add")
@click.argument("name")
@click.option("--url", metavar="URL", help="Its database: postgresql://… (default: the database that this command uses).")
@click.option("--public-url", metavar="URL", help="The address of its API and page, for clients that ask the wrong cell.")
@click.option("--cell-home", metavar="DIR", help="Where its files are, if the cells do not share one home.")
@pass_invocation
def add_cell(invocation: Invocation, name: str, url: str | None, public_url: str | None, cell_home: str | None) -> None:
    """Make a database a cell.

    Its database must have no tenants. Only one cell may have some: the installation that existed before the cells. Repeat the
    command to change a cell, to continue after an interruption, or to repair the directory from the cell's own database.
    """
    with Directory(invocation.settings()) as directory:
        draft = registry.CellDraft(name, url, check_public_url(public_url), check_home(cell_home))
        added = registry.add_cell(directory, draft, report, act_as_sender)
    invocation.answer({"cell": added.as_json()}, partial(click.echo, f"cell {added.name}"))


def check_public_url(url: str | None) -> str | None:
    """Check the address to which clients send their requests and tokens."""
    if not url:
        return url
    if not PUBLIC_URL.fullmatch(url):  # not quoted, because it may contain a password
        raise Invalid("--public-url must be a URL like https://eu1.example.org, without a path.")
    return url.rstrip("/")


def check_home(folder: str | None) -> str | None:
    if folder and not os.path.isabs(folder):
        raise Invalid("--cell-home must be an absolute path.")
    return folder


def report(line: str) -> None:
    click.echo(to_one_line(line), err=True)


@cell.command("list")
@pass_invocation
def list_cells(invocation: Invocation) -> None:
    """List all cells: their public addresses, tenants and state. Exits with 1 if one cannot be reached."""
    with Directory(invocation.settings()) as directory:
        visits = directory.visit(registry.read_status)
        problems = registry.refresh(directory)
    rows = [registry.build_document(*visit) for visit in visits]
    invocation.answer({"cells": rows}, lambda: print_table(HEADINGS, map(build_row, rows), "no cells"))
    fail_after(rows, problems)


def fail_after(rows: list[dict[str, Any]], problems: list[str]) -> None:
    """Say what could not be done, and exit with 1 if there was something."""
    shown = {row["error"] for row in rows}
    for problem in problems:
        if problem not in shown:
            report(problem)
    if problems or any(not row["ok"] for row in rows):
        raise click.exceptions.Exit(1)


def build_row(row: dict[str, Any]) -> Sequence[str]:
    if not row["ok"]:
        return f"✕ {row['name']}", row["public_url"] or "-", "? tenants", row["error"]
    return f"✔ {row['name']}", row["public_url"] or "-", f"{row['tenants']:,} tenants", describe_load(row)


def describe_load(row: dict[str, Any]) -> str:
    jobs = row["jobs"]
    load = f"{row['workers']} processes, {jobs['running']:,} jobs running, {jobs['due']:,} due"
    return f"halted, {load}" if row["halted"] else load


@cell.command("show")
@click.argument("name")
@pass_invocation
def show_cell(invocation: Invocation, name: str) -> None:
    """Show a cell: its tenants, its load and its health. Exits with 1 if it cannot be reached."""
    with Directory(invocation.settings()) as directory:
        chosen = directory.get(name)
        (visit,) = directory.visit(registry.read_status, [chosen])
        problems = registry.refresh(directory)
    row = registry.build_document(*visit)

    def draw() -> None:
        click.echo(f"cell {row['name']}, added {format_time(chosen.added_at)}")
        click.echo(f"address\t{row['public_url'] or 'unknown: set it with --public-url'}")
        if row["home"]:
            click.echo(f"home\t{row['home']}")
        if not row["ok"]:
            click.echo(f"✕\t{to_one_line(row['error'])}")
            return
        click.echo(f"database\t{row['database']}\ntenants\t{row['tenants']:,}\nload\t{describe_load(row)}")
        for move in row["moves"]:
            click.echo(f"moving\t{to_one_line(move['tenant'])} to {move['to']} ({move['state']})")

    invocation.answer({"cell": row}, draw)
    fail_after([row], problems)


@cell.command("rm")
@click.argument("name")
@click.option("--lost", is_flag=True, help="Its database no longer exists: also forget its tenants.")
@click.option("--yes", "-y", is_flag=True, help="With --lost, do not ask for confirmation.")
@pass_invocation
def remove_cell(invocation: Invocation, name: str, *, lost: bool, yes: bool) -> None:
    """Remove a cell that has no tenants. Its database is not deleted."""
    with Directory(invocation.settings()) as directory:
        directory.get(name)
        if lost:
            require_confirmation(f"Forget the cell {name} and all tenants that are placed on it?", yes=yes)
        problems = registry.remove_cell(directory, name, act_as_sender, is_lost=lost)
    invocation.answer({"removed": True}, partial(click.echo, f"removed cell {name}"))
    fail_after([], problems)


# What `headway doctor` says about the cells: whether they agree with the directory, and how the database of each is.


def inspect_cells(settings: Settings) -> list[Finding]:
    """Check the directory and what it says about the cells. An installation without cells has nothing to report."""
    if not may_have_cells(settings):
        return []
    try:
        with Directory(settings) as directory:
            if not directory.cells:
                unused = "HEADWAY_DIRECTORY_URL names a database that knows no cells. Add them with `headway admin cell add`."
                return [Finding("cells", unused, warning=True)] if settings.directory_url else []
            if not is_directory(directory.cells):
                return [build_member_finding(directory.cells)]
            own = find_own_name(settings, directory)
            names = ", ".join(cell.name for cell in directory.cells)
            this = f"this database is the cell {own}" if own else "this database is none of them"
            return [Finding("cells", f"{len(directory.cells)}: {names}; {this}"), *inspect_directory(directory)]
    except HeadwayError as error:  # without its own URL, the directory is the database, which has a finding already
        return [Finding("cells", str(error), ok=False)] if settings.directory_url else []


def build_member_finding(known: list[Cell]) -> Finding:
    own = next((cell.name for cell in known if cell.is_self), "")
    detail = f"this database is the cell {own}, one of {len(known)}. To find tenants of other cells, set HEADWAY_DIRECTORY_URL."
    return Finding("cells", detail, warning=True)


def find_own_name(settings: Settings, directory: Directory) -> str:
    """Return the name of the cell that the database of the settings is."""
    if directory.is_own_database:
        return next((cell.name for cell in directory.cells if cell.is_self), "")
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        return database.read(redirects.get_own_name)


def inspect_directory(directory: Directory) -> list[Finding]:
    """Report moves that are not complete, and tenants about which the directory is wrong. Cells that cannot be reached have a
    finding about their database."""
    report = registry.compare_placements(directory)
    moves = [move for visit in directory.visit(registry.read_open_moves) for move in visit.value or ()]
    warnings = [
        *(f"the cell {cell.name} has no public address: set it with `headway admin cell add {cell.name} --public-url URL`"
          for cell in directory.cells if not cell.public_url),
        *(f"the move of tenant {move.tenant_name!r} is not complete: run `headway admin tenant move` with "
          f"--to {move.target} or --undo"
          for move in moves),
        *(f"the directory is wrong about {describe_names(names)}: repair it with `headway admin cell add {cell}`"
          for cell, names in report.unplaced.items()),
        *(f"reserved in the cell {cell}, but not created: {describe_names(names)}. Repeat `headway admin tenant add`, or use "
          "`headway admin tenant rm`" for cell, names in report.reserved.items()),
        *(registry.describe_double(name) for name in report.doubled if name not in {move.tenant_name for move in moves}),
    ]  # fmt: skip
    return [Finding("cells", warning, warning=True) for warning in warnings]


def inspect_databases(invocation: Invocation, settings: Settings) -> list[Finding]:
    """Inspect the database of each cell, or without cells that of the settings. A cell that is down has its finding."""

    def inspect(cell: Cell | None, database: DirectDatabase) -> list[Finding]:
        if cell is None or not cell.url or (cell.is_self and not settings.directory_url):  # the database of the settings
            return inspect_opened(settings, database, redact_database_url(settings.database_url))
        cell_settings = settings._replace(database_url=cell.url, database_direct_url="")
        return inspect_opened(cell_settings, database, "reached")  # its URL is not shown

    try:
        answers = ask_every_cell(invocation, inspect)
    except HeadwayError as error:
        return [Finding("database", str(error), ok=False)]
    failed = [Finding("database", str(answer.error), ok=False, cell=answer.cell) for answer in answers if answer.error]
    return [*(finding._replace(cell=answer.cell) for answer in answers for finding in answer.value or ()), *failed]

"""Runs an operator's command in every cell. A cell that is down is reported, and the others do not wait for it.

Without cells, such a command uses the database of the settings, as every other command does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

import click

from headway.cells import membership
from headway.cells.rules import Cell
from headway.ledger.errors import HeadwayError, SettingsError, StorageError
from headway.ledger.text import to_one_line
from headway.storage.direct import DirectDatabase, is_sqlite
from headway.surfaces.cli.context import Invocation

T = TypeVar("T")

PATIENCE_S: Final = 1.0  # after which a person learns what the command waits for

CellWork = Callable[[Cell | None, DirectDatabase], T]  # without cells, the first argument is None


class CellAnswer(NamedTuple, Generic[T]):
    """The outcome of the work in one cell: its result, or why it was not done."""

    cell: str  # empty: there are no cells
    value: T | None
    error: HeadwayError | None = None

    def build_document(self, build: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
        document = {"cell": self.cell, "ok": self.error is None, "error": str(self.error) if self.error else None}
        return document if self.value is None else {**document, **build(self.value)}


def ask_every_cell(invocation: Invocation, work: CellWork[T]) -> list[CellAnswer[T]]:
    """Run work in all cells at the same time. Without cells, run it in the database of the settings; then there is one answer,
    and an error is raised."""
    settings = invocation.settings()
    if settings.directory_url:
        return ask_directory(invocation, work)
    with invocation.database() as database:
        known = [] if is_sqlite(settings.database_url) else database.read(membership.list_all_cells)
        if not membership.is_directory(known):
            return ask_database(database, known, work)
    return ask_directory(invocation, work)


def ask_directory(invocation: Invocation, work: CellWork[T]) -> list[CellAnswer[T]]:
    from headway.cells.directory import Directory  # noqa: PLC0415  only needed with cells

    settings = invocation.settings()
    try:
        directory = Directory(settings)
    except StorageError as error:
        if is_sqlite(settings.database_url) or settings.database_url == settings.directory_url:
            raise
        return ask_without_directory(invocation, work, error)
    with directory:
        if membership.is_directory(directory.cells):
            with explain_wait(f"{len(directory.cells)} cells"):
                visits = directory.visit(work)
            return [CellAnswer(visit.cell.name, visit.value, visit.error) for visit in visits]
        if directory.cells:
            raise SettingsError("HEADWAY_DIRECTORY_URL names a cell that is not the directory. Set it to the directory's URL.")
    with invocation.database() as database:
        return ask_database(database, [], work)


def ask_without_directory(invocation: Invocation, work: CellWork[T], outage: StorageError) -> list[CellAnswer[T]]:
    """Run work in the own cell, because no other one can be found while the directory is down."""
    with invocation.database() as database:
        known = database.read(membership.list_all_cells)
        own = [CellAnswer(cell.name, work(cell, database)) for cell in known if cell.is_self]
        if not own:
            raise outage
        return sorted([*own, *(CellAnswer[T](cell.name, None, outage) for cell in known if not cell.is_self)], key=get_cell)


def ask_database(database: DirectDatabase, known: Sequence[Cell], work: CellWork[T]) -> list[CellAnswer[T]]:
    """Run work in a database that is no directory. If it is a cell, say that the command did not use the others."""
    own = next((cell for cell in known if cell.is_self), None)
    if own and len(known) > 1:
        others = "other cells are" if len(known) > 2 else "other cell is"
        note = f"This is the cell {own.name} alone. The {others} not used: set HEADWAY_DIRECTORY_URL for that."
        click.echo(note, err=True)
    return [CellAnswer(own.name if own else "", work(own, database))]


def get_cell(answer: CellAnswer[Any]) -> str:
    return answer.cell


@contextmanager
def explain_wait(name: str) -> Iterator[None]:
    """Say what the command waits for, if it takes longer than a moment."""
    from threading import Timer  # noqa: PLC0415  only needed with cells

    timer = Timer(PATIENCE_S, lambda: click.echo(f"waiting for {name} …", err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def answer_for_cells(
    invocation: Invocation,
    answers: Sequence[CellAnswer[T]],
    build: Callable[[T], dict[str, Any]],
    describe: Callable[[T], Iterable[str]],
) -> None:
    """Print what the cells answered, each line after the name of its cell, and exit with 1 if one of them did not. Without cells,
    print the document and the lines of the only answer."""
    first = answers[0]
    if not first.cell:
        assert first.value is not None
        value = first.value
        invocation.answer(build(value), lambda: print_lines(describe(value)))
        return

    def draw() -> None:
        for answer in answers:
            if answer.value is not None:
                print_lines(f"{answer.cell}: {line}" for line in describe(answer.value))

    invocation.answer({"cells": [answer.build_document(build) for answer in answers]}, draw)
    report_failures(answers)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def report_failures(answers: Sequence[CellAnswer[Any]]) -> None:
    """Name the cells in which nothing was done, and exit with 1 if there is one."""
    failed = [answer for answer in answers if answer.error]
    for answer in failed:
        click.echo(f"✕ {answer.cell}: {to_one_line(str(answer.error))}", err=True)
    if failed:
        raise click.exceptions.Exit(1)

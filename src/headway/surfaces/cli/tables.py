"""Prints lists: in aligned columns on a terminal, with tabs between the columns in a pipe."""

import json
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import click

from headway.ledger.text import to_one_line
from headway.surfaces.cli.render import format_time, is_terminal, print_more_hint

GAP = "  "  # between columns
INDENT = "    "  # before what continues a row below it
MIN_TEXT_WIDTH = 30  # columns; a text that has less room beside its row is printed below it
MAX_TEXT_LINES = 3


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], placeholder: str, *, more: bool = False) -> None:
    """Print a list whose last column is the longest text. In a pipe nothing is cut; a terminal shows a few lines of each text."""
    cells = [[to_one_line(cell) for cell in row] for row in rows]
    if not cells:
        click.echo(placeholder)
    elif is_terminal():
        draw_table(headings, cells)
    else:
        click.echo("\n".join("\t".join(row).rstrip("\t") for row in cells))
    if more:
        print_more_hint(len(cells))


def print_row(row: Sequence[str]) -> None:
    """Print one row of a list by itself."""
    print_table((), [row], "")


def draw_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    used = [number for number in range(len(rows[0])) if any(row[number] for row in rows)]
    rows = [[row[number] for number in used] for row in rows]
    heading = [headings[number] for number in used] if headings else []
    layout = measure_columns(heading, rows, shutil.get_terminal_size().columns)
    if line := layout.draw_heading(heading) if heading else "":
        click.secho(line, dim=True)
    for row in rows:
        click.echo("\n".join(layout.draw_row(row)))


class TableLayout(NamedTuple):
    """The widths of a list's columns on a terminal."""

    widths: list[int]  # of the aligned columns
    are_numbers: list[bool]  # aligned to the right
    rest_width: int  # of what follows the aligned columns
    is_below: bool  # whether it is below them, for want of room

    def draw_heading(self, cells: Sequence[str]) -> str:
        return (self.align(cells) + ("" if self.is_below else cells[-1])).rstrip()

    def draw_row(self, cells: Sequence[str]) -> list[str]:
        head = self.align(cells)
        lines = fold_text(GAP.join(filter(None, cells[len(self.widths) :])), self.rest_width) or [""]
        if self.is_below:
            return [line.rstrip() for line in (head, *(INDENT + line for line in lines)) if line.strip()]
        indent = " " * count_columns(head)
        return [f"{indent if number else head}{line}".rstrip() for number, line in enumerate(lines)]

    def align(self, cells: Sequence[str]) -> str:
        parts = []
        for cell, width, is_number in zip(cells, self.widths, self.are_numbers, strict=False):
            padding = " " * (width - count_columns(cell))
            parts.append(f"{padding}{cell}{GAP}" if is_number else f"{cell}{padding}{GAP}")
        return "".join(parts)


def measure_columns(heading: Sequence[str], rows: Sequence[Sequence[str]], screen_width: int) -> TableLayout:
    """Align all columns but the last one, which gets the remaining width. If that is too little, it is printed below the others, as
    are columns that do not fit beside them."""
    columns = list(zip(*rows, strict=True))
    titles = heading or [""] * len(columns)
    *widths, text_width = [max(map(count_columns, (title, *cells))) for title, cells in zip(titles, columns, strict=True)]
    are_numbers = [all(not cell.strip("#$,.0123456789") for cell in cells) for cells in columns]
    ends = list(accumulate(width + len(GAP) for width in widths))
    room = screen_width - (ends[-1] if ends else 0)
    if room >= min(text_width, MIN_TEXT_WIDTH):
        return TableLayout(widths, are_numbers, room, is_below=False)
    fitting = sum(end - len(GAP) <= screen_width for end in ends)
    return TableLayout(widths[:fitting], are_numbers, max(screen_width - len(INDENT), 1), is_below=True)


def fold_text(text: str, width: int) -> list[str]:
    """Fold a text at words into a few lines. Only a word that is wider than a line is broken."""
    lines = split_at_words(text, width)
    if len(lines) <= MAX_TEXT_LINES:
        return lines
    return [*lines[: MAX_TEXT_LINES - 1], cut_at_word(" ".join(lines[MAX_TEXT_LINES - 1 : MAX_TEXT_LINES + 1]), width)]


def cut_at_word(text: str, width: int) -> str:
    """Cut a line after the last word that fits into this many columns. A word is cut if it takes more than half of them."""
    if count_columns(text) <= width:
        return text
    kept = split_at_words(text, max(width - 1, 1))[0]
    if count_columns(kept) < width // 2:
        kept = next(break_word(text, width - 1), "").rstrip()
    return f"{kept}…"


def split_at_words(text: str, width: int) -> list[str]:
    lines = [""]
    for word in re.split(r"(?<=\s)(?=\S)", text[: width * (MAX_TEXT_LINES + 2)]):  # what follows is never shown
        if count_columns(lines[-1] + word.rstrip()) <= width:
            lines[-1] += word
        elif count_columns(word.rstrip()) <= width:
            lines.append(word)
        else:
            lines += break_word(word, width)
    return [line.rstrip() for line in lines if line.strip()]


def break_word(word: str, width: int) -> Iterator[str]:
    """Break a word that is wider than a line into parts that are not."""
    part = ""
    for character in word:
        if part and count_columns(part + character) > width:
            yield part
            part = ""
        part += character
    yield part


def count_columns(text: str) -> int:
    """Count the columns that a text takes on a terminal: a Chinese character takes two, a separate accent none."""
    return len(text) if text.isascii() else sum(map(measure_character, text))


def measure_character(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def print_fields(document: dict[str, Any]) -> None:
    """Print one line per field that has a value. Fields ending in `_at` are printed as local times."""
    values = {name: format_time(raw * 1000) if name.endswith("_at") else raw for name, raw in document.items()}
    shown = {name: value for name, value in values.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        click.echo(f"{name:<{width}} {to_one_line(text)}")

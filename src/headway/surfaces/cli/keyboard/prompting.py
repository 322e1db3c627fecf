"""Asks for the next message of a chat."""

import asyncio
import os
import re
from collections.abc import Callable

import click

from headway.surfaces.cli.keyboard.history import HistoryFile
from headway.surfaces.cli.render import is_terminal

HISTORY_NAME = "typed.jsonl"
KEY = re.compile(r"\x1b(?:\[[0-9;]*.?|O.?|.?)")  # what a key sends that types no character


def open_prompt(runner: asyncio.Runner, history_folder: str) -> Callable[[str], str | None]:
    """Return a function that asks for a line, which begins as a draft. It returns None when the person ends the chat."""
    if not is_terminal():
        return ask_plainly
    from headway.surfaces.cli.keyboard.line_editor import Interrupted, LineEditor  # noqa: PLC0415  only needed at a terminal

    editor = LineEditor(HistoryFile(os.path.join(history_folder, HISTORY_NAME)))

    def ask(draft: str) -> str | None:
        for is_again in (False, True):
            try:
                return runner.run(editor.ask(draft))
            except EOFError:
                return None
            except Interrupted:
                if not is_again:
                    click.echo("Press Ctrl-C again to end, or Ctrl-D.", err=True)
        return None

    return ask


def ask_plainly(_draft: str) -> str | None:
    """Ask without a screen to edit on, because the output goes elsewhere. Keys such as Arrow-Up are no part of a message."""
    line = ""
    try:
        while not line.strip():
            line = KEY.sub("", click.prompt(click.style("you", bold=True), prompt_suffix=" › ", err=True))
    except click.Abort:
        click.echo(err=True)
        return None
    return line

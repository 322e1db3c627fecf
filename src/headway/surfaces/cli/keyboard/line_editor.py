"""The prompt of `headway chat`: a line with editing keys, history, pastes of several lines, and paths that Tab completes.

It uses prompt_toolkit, because the standard library's readline is often libedit, which takes each line of a paste for a message.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from headway.surfaces.cli.keyboard.attaching import ATTACH_COMMAND
from headway.surfaces.cli.keyboard.history import HistoryFile


class Interrupted(Exception):
    """Ctrl-C was pressed on an empty line."""


class LineEditor:
    def __init__(self, history: HistoryFile) -> None:
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        output.enable_cpr = False  # the terminal could answer where the cursor is when nobody reads the answer any more
        self.session: PromptSession[str] = PromptSession(
            [("bold", "you"), ("", " › ")],
            output=output,
            history=StoredHistory(history),
            completer=AttachmentCompleter(),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_suspend=True,
            key_bindings=build_key_bindings(),
            interrupt_exception=Interrupted,
        )

    async def ask(self, draft: str) -> str:
        """Return the line that Enter ends. It begins as the draft. Raises EOFError at Ctrl-D, and Interrupted."""
        return await self.session.prompt_async(default=draft)


def build_key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=Interrupted, style="class:exiting")

    @bindings.add("escape", "enter")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


class StoredHistory(History):
    def __init__(self, file: HistoryFile) -> None:
        super().__init__()
        self.file = file

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self.file.load())

    def store_string(self, string: str) -> None:
        self.file.add(string)


class AttachmentCompleter(Completer):
    """Completes the path after `/attach`."""

    paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        if document.text_before_cursor.startswith(f"{ATTACH_COMMAND} "):
            path = document.text_before_cursor.removeprefix(f"{ATTACH_COMMAND} ")
            yield from self.paths.get_completions(Document(path), complete_event)

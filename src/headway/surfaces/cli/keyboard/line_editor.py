"""The line editor of the prompt: its history, and files attached to a message."""

import json
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from headway.ledger.attachment import Attachment, check_attachments
from headway.ledger.errors import Invalid
from headway.ledger.tenancy import format_size
from headway.ledger.text import check_text, to_lines
from headway.storage.home_files import read_attachment

SIZE_LIMIT: Final = 256 * 1024  # bytes that are read; a file of twice this size is shortened
ENTRY_LIMIT: Final = 10_000  # characters; longer messages, such as pasted files, are not kept
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPEND_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HistoryFile:
    """One JSON string per line, oldest first. A history is a convenience: a file that cannot be used is left alone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> list[str]:
        with suppress(OSError):
            size, lines = self.read_end()
            entries = [entry for entry in map(parse_entry, lines) if entry]
            if size > 2 * SIZE_LIMIT:
                self.rewrite(entries)
            return entries
        return []

    def read_end(self) -> tuple[int, list[bytes]]:
        """Return the size of the file and its last complete lines."""
        with os.fdopen(os.open(self.path, READ_FLAGS), "rb") as file:
            size = check_regular(file.fileno()).st_size
            file.seek(max(0, size - SIZE_LIMIT))
            lines = file.read(SIZE_LIMIT).split(b"\n")
        return size, lines if size <= SIZE_LIMIT else lines[1:]

    def add(self, entry: str) -> None:
        """Keep a message. As in a shell, one that begins with a space is not kept."""
        if not entry.strip() or entry.startswith(" ") or len(entry) > ENTRY_LIMIT:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with os.fdopen(os.open(self.path, APPEND_FLAGS, 0o600), "ab") as file:
                check_regular(file.fileno())
                os.fchmod(file.fileno(), 0o600)
                file.write(encode_entry(entry))

    def rewrite(self, entries: list[str]) -> None:
        scratch = f"{self.path}.{os.getpid()}"
        with os.fdopen(os.open(scratch, APPEND_FLAGS | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(map(encode_entry, entries))
        os.replace(scratch, self.path)


def check_regular(descriptor: int) -> os.stat_result:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    return status


def encode_entry(entry: str) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def parse_entry(line: bytes) -> str:
    """Return the message of a line without what could disturb the terminal. Empty if there is none."""
    try:
        entry = json.loads(line)
        return "\n".join(to_lines(check_text(entry, "entry", ENTRY_LIMIT))) if isinstance(entry, str) else ""
    except (ValueError, RecursionError, Invalid):
        return ""


# `/attach PATH`: a line of the chat that attaches files to the next message.


ATTACH_COMMAND = "/attach"


def is_attach_line(line: str) -> bool:
    return line.split(maxsplit=1)[:1] == [ATTACH_COMMAND]


def read_attached(line: str, attached: list[Attachment]) -> list[Attachment]:
    """Return the files that a line names. `attached` are files that the message has already. Raises Invalid."""
    files = [read_attachment(path) for path in parse_paths(line)]
    check_attachments([*attached, *files])
    return files


def parse_paths(line: str) -> list[Path]:
    """Return the paths of a line: one that may contain spaces, or several that are quoted as in a shell."""
    rest = line.strip().removeprefix(ATTACH_COMMAND).strip()
    if not rest:
        raise Invalid(f"Name a file: {ATTACH_COMMAND} PATH.")
    check_text(rest, "The path")
    if os.path.exists(whole := os.path.expanduser(rest)):
        return [Path(whole)]
    try:
        names = shlex.split(rest)
    except ValueError:  # an unbalanced quote is part of the name
        names = [rest]
    return [Path(os.path.expanduser(name)) for name in names]


def describe_attached(files: list[Attachment]) -> str:
    names = ", ".join(f"{file.name} ({file.media_type}, {format_size(len(file.data))})" for file in files)
    return f"Attached {names}. Your next message takes {'it' if len(files) == 1 else 'them'} along."


# The prompt of `headway chat`: a line with editing keys, history, pastes of several lines, and paths that Tab completes.


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

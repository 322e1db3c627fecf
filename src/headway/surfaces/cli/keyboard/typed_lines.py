"""Reads the lines that a person types while a turn is shown. The terminal echoes nothing, because the view draws the line."""

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headway.ledger.text import JOINERS

READ_SIZE = 4096
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"  # what a terminal sends around a paste
MARK_PASTES, LEAVE_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"  # what a terminal is told, so that it does


class TypedLine:
    """The line that is being typed. Backspace deletes a character and Ctrl-U the line; other control keys do nothing. Line ends in
    a paste do not end the line.

    Calls `on_change` with the line as it is typed, `on_line` with each one that Enter ends, and `on_end` at Ctrl-D if it is empty.
    """

    def __init__(
        self, on_change: Callable[[str], None], on_line: Callable[[str], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self.on_change = on_change
        self.on_line = on_line
        self.on_end = on_end
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self.escape = ""  # the escape sequence of a key such as an arrow, so far
        self.is_pasting = False

    def type(self, keys: bytes) -> None:
        for character in self.decoder.decode(keys):
            self.press(character)
        self.on_change(self.text)

    def press(self, character: str) -> None:
        if self.escape:
            self.extend_escape(character)
        elif character == "\x1b":
            self.escape = character
        elif character in "\r\n" and not self.is_pasting:
            line, self.text = self.text, ""
            if line.strip():
                self.on_line(line)
        elif character in "\x7f\b":
            self.text = self.text[:-1]
        elif character == "\x15":
            self.text = ""
        elif character == "\x04" and not self.text:
            self.on_end()
        else:
            self.text += self.to_typed(character)

    def extend_escape(self, character: str) -> None:
        self.escape += character
        if self.escape in (PASTE_BEGINS, PASTE_ENDS):
            self.is_pasting = self.escape == PASTE_BEGINS
        is_open = self.escape in ("\x1b[", "\x1bO") or (len(self.escape) > 2 and not "@" <= character <= "~")
        self.escape = self.escape if is_open else ""

    def to_typed(self, character: str) -> str:
        """Return what a key adds to the line: nothing, if it is another control key."""
        if character in "\r\n":  # of a paste
            return "\n"
        return " " if character == "\t" else character if character.isprintable() or character in JOINERS else ""


class Keyboard:
    """The keys of the terminal, while this process reads them one by one. Ctrl-C still sends its signal."""

    def __init__(self, descriptor: int, line: TypedLine) -> None:
        self.descriptor = descriptor
        self.line = line
        self.loop = asyncio.get_running_loop()
        self.modes = termios.tcgetattr(descriptor)

    def seize(self) -> None:
        tty.setcbreak(self.descriptor, termios.TCSADRAIN)
        self.tell(MARK_PASTES)
        self.loop.add_reader(self.descriptor, self.take_keys)

    def release(self) -> None:
        self.loop.remove_reader(self.descriptor)
        if is_in_front(self.descriptor):
            self.tell(LEAVE_PASTES)
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self.modes)

    def tell(self, command: bytes) -> None:
        with suppress(OSError):  # it was opened for reading only
            os.write(self.descriptor, command)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Leave the terminal to another program."""
        self.release()
        try:
            yield
        finally:
            self.seize()

    def take_keys(self) -> None:
        keys = os.read(self.descriptor, READ_SIZE) if is_in_front(self.descriptor) else b""
        if keys:
            self.line.type(keys)
        else:
            self.loop.remove_reader(self.descriptor)


@contextmanager
def read_typed_lines(line: TypedLine) -> Iterator[Keyboard | None]:
    """Type the person's keys into the line. Without a terminal, or in the background of one, nothing is read: yields None."""
    descriptor = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
    if not is_in_front(descriptor):
        yield None
        return
    keyboard = Keyboard(descriptor, line)
    keyboard.seize()
    try:
        yield keyboard
    finally:
        keyboard.release()


def is_in_front(descriptor: int) -> bool:
    """Whether this process may use the terminal. The system stops a background process that reads from it or changes it."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # not a terminal, not ours, or gone
        return False

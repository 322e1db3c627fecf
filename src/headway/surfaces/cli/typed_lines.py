"""Reads the lines that a person types while a turn is shown. The terminal echoes nothing, because the view draws the line."""

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headway.ledger.text import JOINERS

READ_SIZE = 4096


class TypedLine:
    """The line that is being typed. Backspace deletes a character and Ctrl-U the line; other control keys do nothing.

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

    def type(self, keys: bytes) -> None:
        for character in self.decoder.decode(keys):
            self.press(character)
        self.on_change(self.text)

    def press(self, character: str) -> None:
        if self.escape:
            self.escape += character
            is_open = self.escape in ("\x1b[", "\x1bO") or (len(self.escape) > 2 and not "@" <= character <= "~")
            self.escape = self.escape if is_open else ""
        elif character == "\x1b":
            self.escape = character
        elif character in "\r\n":
            line, self.text = self.text, ""
            if line.strip():
                self.on_line(line)
        elif character in "\x7f\b":
            self.text = self.text[:-1]
        elif character == "\x15":
            self.text = ""
        elif character == "\x04" and not self.text:
            self.on_end()
        elif character.isprintable() or character in JOINERS:
            self.text += character
        elif character == "\t":
            self.text += " "


class Keyboard:
    """The keys of the terminal, while this process reads them one by one. Ctrl-C still sends its signal."""

    def __init__(self, descriptor: int, line: TypedLine) -> None:
        self.descriptor = descriptor
        self.line = line
        self.loop = asyncio.get_running_loop()
        self.modes = termios.tcgetattr(descriptor)

    def seize(self) -> None:
        tty.setcbreak(self.descriptor, termios.TCSADRAIN)
        self.loop.add_reader(self.descriptor, self.take_keys)

    def release(self) -> None:
        self.loop.remove_reader(self.descriptor)
        if is_in_front(self.descriptor):
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self.modes)

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

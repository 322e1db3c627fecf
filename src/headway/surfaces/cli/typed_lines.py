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
    """The line that is being typed. Backspace deletes a character and Ctrl-U the line; other control keys do nothing."""

    def __init__(self, on_change: Callable[[str], None], on_line: Callable[[str], None]) -> None:
        self.on_change = on_change
        self.on_line = on_line
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
        elif character.isprintable() or character in JOINERS:
            self.text += character
        elif character == "\t":
            self.text += " "


@contextmanager
def read_typed_lines(on_change: Callable[[str], None], on_line: Callable[[str], None]) -> Iterator[None]:
    """Call `on_change` with the line as it is typed, and `on_line` with each one that Enter ends. Ctrl-C still sends its signal.

    Without a terminal, or in the background of one, nothing is read.
    """
    descriptor = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
    if not is_in_front(descriptor):
        yield
        return
    line, loop = TypedLine(on_change, on_line), asyncio.get_running_loop()

    def take_keys() -> None:
        keys = os.read(descriptor, READ_SIZE) if is_in_front(descriptor) else b""
        if keys:
            line.type(keys)
        else:
            loop.remove_reader(descriptor)

    modes = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSADRAIN)
    loop.add_reader(descriptor, take_keys)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        if is_in_front(descriptor):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)


def is_in_front(descriptor: int) -> bool:
    """Whether this process may use the terminal. The system stops a background process that reads from it or changes it."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # not a terminal, not ours, or gone
        return False

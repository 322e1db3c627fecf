"""Incremental parser for writs (slash commands) in streamed text.

It accepts chunks of any size. It returns the text to display, which never contains a writ or part of one, and the writs. The result
does not depend on where the text is split.

A writ begins at the start of a line, outside fenced code. `/todo add` may be followed by a body that ends with `/endtodo`;
`/parallel` is a block that ends with `/endparallel`.
"""

import re
from enum import Enum
from typing import Final, NamedTuple

WRIT_WORDS: Final = ("/todo", "/agent", "/parallel", "/schedule", "/endtodo", "/endparallel")
FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


class Writ(NamedTuple):
    """One command. `complete` is false if the text ended before the block did; such a writ must not run."""

    word: str  # todo, agent, parallel, schedule
    rest: str
    body: str | None = None
    complete: bool = True


class ParsedText(NamedTuple):
    """The visible text and the writs that a chunk added."""

    visible: str
    writs: list[Writ]


class ParserState(Enum):
    TEXT = "text"
    AFTER_ADD = "after add"  # the next line decides whether the add has a body
    BODY = "body"
    PARALLEL = "parallel"


class WritParser:
    """Parses writs from chunks of text: call `feed` for each chunk, then `finish`."""

    def __init__(self) -> None:
        self.state = ParserState.TEXT
        self.line = ""  # the part of the current line received so far
        self.shown_length = 0  # how much of that line has been returned already
        self.fence = ""  # the marker that opened the current fence
        self.head = ""  # the rest of the pending writ's first line
        self.body: list[str] = []
        self.visible: list[str] = []
        self.writs: list[Writ] = []

    def feed(self, piece: str) -> ParsedText:
        *complete_lines, last = piece.split("\n")
        for line in complete_lines:
            self.line += line
            self._end_line("\n")
        self.line += last
        self._show_early()
        return self._take_parsed()

    def finish(self) -> ParsedText:
        """Signal the end of the text and return what was still pending."""
        if self.line:
            self._end_line("")
        if self.state is ParserState.AFTER_ADD:
            self._add_writ(Writ("todo", self.head))
        elif self.state is ParserState.BODY:
            self._add_writ(Writ("todo", self.head, "\n".join(self.body), complete=False))
        elif self.state is ParserState.PARALLEL:
            self._add_writ(Writ("parallel", self.head, "\n".join(self.body), complete=False))
        return self._take_parsed()

    def _take_parsed(self) -> ParsedText:
        parsed = ParsedText("".join(self.visible), self.writs)
        self.visible, self.writs = [], []
        return parsed

    def _add_writ(self, writ: Writ) -> None:
        self.writs.append(writ)
        self.state = ParserState.TEXT
        self.body = []

    def _show_early(self) -> None:
        """Return the current line as soon as it can no longer become a writ."""
        if self.state is ParserState.TEXT and (self.shown_length or self.fence or not could_be_writ(self.line)):
            self.visible.append(self.line[self.shown_length :])
            self.shown_length = len(self.line)

    def _end_line(self, newline: str) -> None:
        raw, self.line = self.line, ""
        shown_length, self.shown_length = self.shown_length, 0
        line = raw.removesuffix("\r")
        if self.state is ParserState.BODY or self.state is ParserState.PARALLEL:
            self._block_line(line)
            return
        if self.state is ParserState.AFTER_ADD:
            if self._begins_body(line):
                return
            self._add_writ(Writ("todo", self.head))
        word, rest = ("", "") if self.fence else split_writ(line)
        if word in ("todo", "agent", "parallel", "schedule"):
            self._begin_writ(word, rest)
            return
        self.visible.append(raw[shown_length:] + newline)
        self._follow_fence(line)

    def _begins_body(self, line: str) -> bool:
        """Whether the line belongs to the body of the add above. An add followed by a blank line or another writ has none."""
        word, _ = split_writ(line)
        if not line.strip() or word not in ("", "endtodo"):
            return False
        self.state = ParserState.BODY
        self._block_line(line)
        return True

    def _begin_writ(self, word: str, rest: str) -> None:
        self.head = rest
        if word == "parallel":
            self.state = ParserState.PARALLEL
        elif word == "todo" and rest.split(maxsplit=1)[:1] == ["add"]:
            self.state = ParserState.AFTER_ADD
        else:
            self._add_writ(Writ(word, rest))

    def _block_line(self, line: str) -> None:
        """Add the line to the body of the current block, or close the block if the line ends it."""
        terminator = "/endtodo" if self.state is ParserState.BODY else "/endparallel"
        if line.rstrip() != terminator:
            self.body.append(line)
            return
        self._add_writ(Writ("todo" if self.state is ParserState.BODY else "parallel", self.head, "\n".join(self.body)))

    def _follow_fence(self, line: str) -> None:
        match = FENCE.match(line)
        if not match:
            return
        mark, info = match[1], match[2]
        if not self.fence:
            if mark[0] == "~" or "`" not in info:  # ```like this``` on one line is not a fence
                self.fence = mark
        elif mark[0] == self.fence[0] and len(mark) >= len(self.fence) and not info.strip():
            self.fence = ""


def split_writ(line: str) -> tuple[str, str]:
    """Split a line that starts with a writ's word into (word, rest); return two empty strings for other lines."""
    word, _, rest = line.partition(" ")
    return (word[1:], rest.strip()) if word in WRIT_WORDS else ("", "")


def could_be_writ(line: str) -> bool:
    """Whether this start of a line could still become a writ."""
    if not line:
        return True
    if " " in line:
        return line.partition(" ")[0] in WRIT_WORDS
    return any(word.startswith(line.rstrip("\r")) for word in WRIT_WORDS)


def parse(text: str) -> ParsedText:
    """Parse a complete text."""
    if "/" not in text:
        return ParsedText(text, [])
    parser = WritParser()
    first, last = parser.feed(text), parser.finish()
    return ParsedText(first.visible + last.visible, first.writs + last.writs)

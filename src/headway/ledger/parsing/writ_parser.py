"""Incremental parser for writs (slash commands) in streamed text.

It accepts chunks of any size. It returns the text to display, which never contains a writ or part of one, and the writs. The result
does not depend on where the text is split.

A writ begins at the start of a line, outside fenced code. `/todo add` may be followed by a body that ends with `/endtodo`;
`/parallel` is a block that ends with `/endparallel`.

A writ that the agent only quotes is text: it stays visible, and it is returned with `is_quoted`, so that it does not run.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple
from unicodedata import normalize

from headway.ledger.parsing.read_calls import HIDDEN, list_forms

WRIT_WORDS: Final = ("/todo", "/agent", "/parallel", "/schedule", "/endtodo", "/endparallel")
FENCE: Final = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)(.*)$")
FENCE_LINE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)  # may open or close a fence
NOTABLE_LINE: Final = re.compile(rf"^/(?:todo|agent|parallel|schedule)|{FENCE_LINE.pattern}", re.MULTILINE)  # may also be a writ
START_LENGTH: Final = 20  # characters of a line that decide whether it could be a writ; longer than all words

QuoteCheck = Callable[[str], bool]


class Writ(NamedTuple):
    """One command. `complete` is false if the text ended before the block did; such a writ must not run, nor must a quoted one."""

    word: str  # todo, agent, parallel, schedule
    rest: str
    body: str | None = None
    complete: bool = True
    is_quoted: bool = False


class ParsedText(NamedTuple):
    """The visible text and the writs that a chunk added."""

    visible: str
    writs: list[Writ]


class ParserState(Enum):
    TEXT = "text"
    AFTER_ADD = "after add"  # the next line decides whether the add has a body
    BODY = "body"
    PARALLEL = "parallel"


def is_never_quoted(_line: str) -> bool:
    return False


class WritParser:
    """Parses writs from chunks of text: call `feed` for each chunk, then `finish`.

    `is_quoted` is asked about the first line of a writ, and about each line of a `/parallel` block. It decides only what is
    visible: which lines belong to a writ does not depend on it.
    """

    def __init__(self, is_quoted: QuoteCheck = is_never_quoted) -> None:
        self.is_quoted = is_quoted
        self.quoted = False  # whether the pending writ is quoted
        self.held: list[str] = []  # the pending writ's lines that are not visible
        self.state = ParserState.TEXT
        self.line: list[str] = []  # the pieces of the current line received so far
        self.line_start = ""  # its first characters
        self.shown_pieces = 0  # how many of the pieces have been returned already
        self.fence = ""  # the marker that opened the current fence
        self.head = ""  # the rest of the pending writ's first line
        self.body: list[str] = []
        self.visible: list[str] = []
        self.writs: list[Writ] = []

    def feed(self, piece: str) -> ParsedText:
        position, last_start = 0, piece.rfind("\n") + 1
        while position < last_start:
            if self.state is ParserState.TEXT and not self.line:
                position = self._skip_text(piece, position, last_start)
            else:
                end = piece.index("\n", position)
                self._add_piece(piece[position:end])
                self._end_line("\n")
                position = end + 1
        self._add_piece(piece[last_start:])
        self._show_early()
        return self._take_parsed()

    def _skip_text(self, piece: str, position: int, stop: int) -> int:
        """Return lines that are plain text without looking at each. Then handle the line that ends this, if it is complete."""
        notable = (FENCE_LINE if self.fence else NOTABLE_LINE).search(piece, position, stop)
        start = notable.start() if notable else stop
        self.visible.append(piece[position:start])
        if start == stop:
            return stop
        end = piece.index("\n", start)
        self._add_piece(piece[start:end])
        self._end_line("\n")
        return end + 1

    def _add_piece(self, piece: str) -> None:
        if piece:
            self.line.append(piece)
            self.line_start += piece[: START_LENGTH - len(self.line_start)]

    def finish(self) -> ParsedText:
        """Signal the end of the text and return what was still pending."""
        if self.line:
            self._end_line("")
        if self.state is ParserState.AFTER_ADD:
            self._add_writ(Writ("todo", self.head))
        elif self.state is not ParserState.TEXT:
            self._end_block(complete=False)
        return self._take_parsed()

    def _take_parsed(self) -> ParsedText:
        parsed = ParsedText("".join(self.visible), self.writs)
        self.visible, self.writs = [], []
        return parsed

    def _add_writ(self, writ: Writ) -> None:
        self._show_quoted()
        self.writs.append(writ._replace(is_quoted=self.quoted))
        self.state = ParserState.TEXT
        self.quoted = False
        self.held = []
        self.body = []

    def _show_quoted(self) -> None:
        if self.quoted:
            self.visible += self.held
            self.held = []

    def _show_early(self) -> None:
        """Return the current line as soon as it can no longer become a writ that runs."""
        is_text = self.state is ParserState.TEXT and (self.shown_pieces or self.fence or not could_be_writ(self.line_start))
        if is_text or (self.state is ParserState.BODY and self.quoted):
            self.visible += self.line[self.shown_pieces :]
            self.shown_pieces = len(self.line)

    def _end_line(self, newline: str) -> None:
        pieces, self.line, self.line_start = self.line, [], ""
        shown_pieces, self.shown_pieces = self.shown_pieces, 0
        line, unseen = "".join(pieces).removesuffix("\r"), "".join(pieces[shown_pieces:]) + newline
        if self.state is ParserState.BODY or self.state is ParserState.PARALLEL:
            self._block_line(line, unseen)
            return
        if self.state is ParserState.AFTER_ADD:
            if self._begins_body(line, unseen):
                return
            self._add_writ(Writ("todo", self.head))
        word, rest = ("", "") if self.fence else split_writ(line)
        if word in ("todo", "agent", "parallel", "schedule"):
            self._begin_writ(word, rest, line, unseen)
            return
        self.visible.append(unseen)
        self._follow_fence(line)

    def _begins_body(self, line: str, unseen: str) -> bool:
        """Whether the line belongs to the body of the add above. An add followed by a blank line or another writ has none."""
        word, _ = split_writ(line)
        if not line.strip() or word not in ("", "endtodo"):
            return False
        self.state = ParserState.BODY
        self._block_line(line, unseen)
        return True

    def _begin_writ(self, word: str, rest: str, line: str, unseen: str) -> None:
        self.head = rest
        self.held = [unseen]
        if word == "parallel":
            self.state = ParserState.PARALLEL
            return
        self.quoted = self.is_quoted(line)
        if word == "todo" and rest.split(maxsplit=1)[:1] == ["add"]:
            self.state = ParserState.AFTER_ADD
            self._show_quoted()
        else:
            self._add_writ(Writ(word, rest))

    def _block_line(self, line: str, unseen: str) -> None:
        """Add the line to the body of the current block, or close the block if the line ends it."""
        self.held.append(unseen)
        self._show_quoted()
        terminator = "/endtodo" if self.state is ParserState.BODY else "/endparallel"
        if line.rstrip() == terminator:
            self._end_block(complete=True)
        else:
            self.body.append(line)

    def _end_block(self, *, complete: bool) -> None:
        body = "\n".join(self.body)
        if self.state is ParserState.BODY:
            self._add_writ(Writ("todo", self.head, body, complete))
            return
        lines = [f"/parallel {self.head}\n{body}", *(f"/agent {call}" for call in list_agent_lines(body))]
        self.quoted = any(map(self.is_quoted, lines))  # one quoted line makes the whole block text
        self._add_writ(Writ("parallel", self.head, body, complete))

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


def list_agent_lines(body: str) -> list[str]:
    """List the calls in a `/parallel` block, each as `NAME TASK`."""
    return [line.strip().removeprefix("/agent ").strip() for line in body.split("\n") if line.strip()]


def parse(text: str, is_quoted: QuoteCheck = is_never_quoted) -> ParsedText:
    """Parse a complete text."""
    if "/" not in text:
        return ParsedText(text, [])
    parser = WritParser(is_quoted)
    first, last = parser.feed(text), parser.finish()
    return ParsedText(first.visible + last.visible, first.writs + last.writs)


# Writs in the texts that an agent has read

MAX_READ_WRITS: Final = 5_000  # beyond this number, every line counts as read
COMPARED_WORDS: Final = 32  # of a writ; two that begin with the same words are the same
COMPARED_LENGTH: Final = 300  # characters of these words
WORD_LENGTH: Final = 100
SEARCHED_LENGTH: Final = 10_000  # characters of a line, in which these words stand; a line with fewer words matches more

# No pattern backtracks over what a text can repeat. Punctuation separates words, as space does, so that neither the marks of
# Markdown around a writ nor its own punctuation count. Other signs, such as emoji, are words.
START: Final = re.compile(r"/(?:todo|agent|parallel|schedule)\b")
WORD: Final = re.compile(rf"{START.pattern}|[^\W_]+|[^\w\s\x00-\x7f\xa0-\xbf\u2000-\u206f\u3000-\u303f]+")


class ReadWrits:
    """The writs in texts that an agent has read, wherever they stand in a line and however they are decorated or encoded there."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.sorted_keys: list[str] | None = []  # None when they have to be sorted again

    def add(self, text: str) -> None:
        """Add the writs of a text. The work is linear in its length."""
        for form in list_forms(text) if len(self.keys) <= MAX_READ_WRITS else ():
            words = WORD.findall(form) if START.search(form) else []
            for index, word in enumerate(words):
                if len(self.keys) > MAX_READ_WRITS:
                    return
                if word[0] == "/":
                    self.keys.add(build_key(words[index : index + COMPARED_WORDS]))
                    self.sorted_keys = None

    def __contains__(self, line: str) -> bool:
        """Whether a text contains the line, followed by the end of a word."""
        if len(self.keys) > MAX_READ_WRITS:
            return True
        if self.sorted_keys is None:
            self.sorted_keys = sorted(self.keys)
        return any(self.has_key(build_key(WORD.findall(form)[:COMPARED_WORDS])) for form in list_forms(line[:SEARCHED_LENGTH]))

    def has_key(self, key: str) -> bool:
        assert self.sorted_keys is not None
        index = bisect_left(self.sorted_keys, key)
        return index < len(self.sorted_keys) and self.sorted_keys[index].startswith(key)


def build_key(words: Sequence[str]) -> str:
    """Join the words, without regard to accents."""
    joined = " ".join(words)
    return f"{joined if joined.isascii() else ' '.join(map(fold_word, words))} "[:COMPARED_LENGTH]


def fold_word(word: str) -> str:
    """Remove accents. Of a long word only the beginning counts, because normalising can take quadratic time."""
    return word if word.isascii() else HIDDEN.sub("", normalize("NFKD", word[:WORD_LENGTH])).casefold()

"""Frames that mark the runtime's own messages to a model, and escaping for the text inside and beside them. Text from users,
models, tools and web pages must never be mistaken for a frame."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final
from unicodedata import normalize

from headway.ledger.text import Redactor, to_one_line

INLINE_LIMIT: Final = 300
NO_SECRETS: Final = Redactor()
PIECE_LENGTH: Final = 10_000  # characters that are matched in one call, which no other thread can interrupt
# Unicode's default ignorable code points, as DerivedCoreProperties.txt lists them.
DEFAULT_IGNORABLE: Final = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Other characters that readers overlook: the combining marks of no single script, format controls, letters and signs that are
# blank, and the replacements that `to_one_line` writes.
MARKS_AND_BLANKS: Final = (
    r"\u0300-\u036f\u0483-\u0489\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u2800"
    r"\ufe20-\ufe2f\ufff9-\ufffd\U000110bd\U000110cd\U00013430-\U00013455\U00016fe4\U0001d159"
)
IGNORABLE: Final = DEFAULT_IGNORABLE + MARKS_AND_BLANKS
# Characters that are invisible between letters: these, white space and control characters.
INVISIBLE: Final = rf"[\s\x00-\x1f\x7f-\x9f{IGNORABLE}]*"
WORD_END: Final = rf"(?!(?![{IGNORABLE}])\w)"  # no visible letter follows
# Unicode blocks of styled look-alikes of plain letters and signs: full-width, bold, circled, vertical.
STYLED_RANGES: Final = (
    (0x2100, 0x214F),
    (0x24B6, 0x24E9),
    (0xFE30, 0xFE6F),
    (0xFF01, 0xFF5E),
    (0x1D400, 0x1D7FF),
    (0x1F130, 0x1F149),
)
LOOKALIKES: Final[dict[str, str]] = {}
for code in (code for first, last in STYLED_RANGES for code in range(first, last + 1)):
    plain = normalize("NFKC", chr(code)).upper()
    LOOKALIKES[plain] = LOOKALIKES.get(plain, "") + chr(code)


def build_lookalike_pattern(*words: str) -> str:
    """Build a pattern that matches any of the words, also in styled letters or with invisible characters in between."""
    return "|".join(
        INVISIBLE.join(f"[{re.escape(sign + sign.lower() + LOOKALIKES.get(sign, ''))}]" for sign in word) for word in words
    )


@cache
def get_bracket_pattern() -> re.Pattern[str]:
    return re.compile(build_lookalike_pattern("["))


@cache
def get_frame_pattern() -> re.Pattern[str]:
    """Match the opening bracket of anything that reads like the first or last line of a frame. Slow to compile, hence cached."""
    of_runs = build_lookalike_pattern("TURNCONTEXT", "DELEGATIONCONTEXT", "GOALCONTEXT", "ATTACHEDFILE", "WORKSPACEGUIDE")
    of_writs = build_lookalike_pattern("/TODO", "/AGENT", "/SCHEDULE", "/PARALLEL")
    ended = build_lookalike_pattern("TODO", "AGENT", "SCHEDULE", "TURN", "DELEGATION", "GOAL", "ATTACHED", "WORKSPACE")
    ends = rf"(?:{build_lookalike_pattern('END')}){INVISIBLE}(?:{ended})"
    goal = rf"(?:{build_lookalike_pattern('GOAL')}){INVISIBLE}(?:{build_lookalike_pattern(']')})"
    first = build_lookalike_pattern(*"TDGAW/E")  # the first letters of all of them, to rule out most brackets quickly
    return re.compile(
        rf"{build_lookalike_pattern('[')}(?={INVISIBLE}(?:{first}))(?={INVISIBLE}(?:(?:{of_runs}|{of_writs}|{ends}){WORD_END}|{goal}))"
    )


@cache
def get_frame_start_pattern() -> re.Pattern[str]:
    """Match the opening bracket of anything that begins like a frame. That is enough for text on a line among the runtime's own."""
    words = build_lookalike_pattern("END", "DELEGATION", "TURN", "GOAL", "ATTACHED", "WORKSPACEGUIDE")
    return re.compile(rf"{build_lookalike_pattern('[')}(?={INVISIBLE}(?:{build_lookalike_pattern('/')}|(?:{words}){WORD_END}))")


def format_inline(text: str, limit: int = INLINE_LIMIT) -> str:
    """Format untrusted text as one line that cannot forge a frame."""
    is_cut = len(text) > limit  # before the rest: the text may be long
    line = get_frame_start_pattern().sub("(", to_one_line(text[: limit - 1] if is_cut else text))
    return f"{line}…" if is_cut else line


def escape_frames(text: str) -> str:
    """Escape anything in untrusted multi-line text that reads like a frame; leave the rest as it is."""
    return "".join(get_frame_pattern().sub("(", piece) for piece in split_at_brackets(text))


def split_at_brackets(text: str) -> Iterator[str]:
    """Split a long text before brackets. No frame spans two pieces, and other threads can run between the pieces."""
    start = 0
    while len(text) - start > PIECE_LENGTH:
        bracket = get_bracket_pattern().search(text, start + PIECE_LENGTH)
        end = bracket.start() if bracket else len(text)
        yield text[start:end]
        start = end
    yield text[start:]


def format_frame(head: str, lines: list[str], end: str) -> str:
    return "\n".join([f"[{head}]", *lines, f"[{end}]"])


def escape_document(value: Any, redact: Redactor = NO_SECRETS) -> Any:
    """Remove secrets and forged frames from all texts of a JSON document that a model gets, for example a tool's schema."""
    match value:
        case str():
            return escape_frames(redact(value))
        case dict():
            return {escape_frames(name): escape_document(part, redact) for name, part in value.items()}
        case list():
            return [escape_document(part, redact) for part in value]
    return value

"""Frames that mark the runtime's own messages to a model, and escaping for the text inside and beside them. Text from users,
models, tools and web pages must never be mistaken for a frame."""

import re
from functools import cache
from typing import Final
from unicodedata import normalize

from headway.ledger.text import to_one_line

INLINE_LIMIT: Final = 300
# Combining marks and Unicode's default ignorable code points; also the replacements that `to_one_line` writes for some of them.
IGNORABLE: Final = (
    r"\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffd\U000e0000-\U000e0fff"
)
# Characters that are invisible between letters: these, white space and control characters.
INVISIBLE: Final = rf"[\s\x00-\x1f\x7f-\x9f{IGNORABLE}]*"
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
def get_frame_pattern() -> re.Pattern[str]:
    """Match the opening bracket of anything that reads like the first or last line of a frame. Slow to compile, hence cached."""
    of_runs = build_lookalike_pattern("TURNCONTEXT", "DELEGATIONCONTEXT", "GOALCONTEXT", "ATTACHEDFILE", "WORKSPACEGUIDE")
    of_writs = build_lookalike_pattern("/TODO", "/AGENT", "/SCHEDULE", "/PARALLEL")
    ends = build_lookalike_pattern(
        "ENDTODO", "ENDAGENT", "ENDSCHEDULE", "ENDTURN", "ENDDELEGATION", "ENDGOAL", "ENDATTACHED", "ENDWORKSPACE"
    )
    goal = rf"(?:{build_lookalike_pattern('GOAL')}){INVISIBLE}(?:{build_lookalike_pattern(']')})"
    first = build_lookalike_pattern(*"TDGAW/E")  # the first letters of all of them, to rule out most brackets quickly
    return re.compile(
        rf"{build_lookalike_pattern('[')}(?={INVISIBLE}(?:{first}))(?={INVISIBLE}(?:(?:{of_runs}|{of_writs}|{ends})(?!\w)|{goal}))"
    )


@cache
def get_frame_start_pattern() -> re.Pattern[str]:
    """Match the opening bracket of anything that begins like a frame. That is enough for text on a line among the runtime's own."""
    words = build_lookalike_pattern("END", "DELEGATION", "TURN", "GOAL", "ATTACHED", "WORKSPACEGUIDE")
    return re.compile(rf"{build_lookalike_pattern('[')}(?={INVISIBLE}(?:{build_lookalike_pattern('/')}|(?:{words})(?!\w)))")


def format_inline(text: str, limit: int = INLINE_LIMIT) -> str:
    """Format untrusted text as one line that cannot forge a frame."""
    line = get_frame_start_pattern().sub("(", to_one_line(text))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def escape_frames(text: str) -> str:
    """Escape anything in untrusted multi-line text that reads like a frame; leave the rest as it is."""
    return get_frame_pattern().sub("(", text)


def format_frame(head: str, lines: list[str], end: str) -> str:
    return "\n".join([f"[{head}]", *lines, f"[{end}]"])

"""Frames around what the runtime tells a model, and text shown inside them. What users and models wrote can never
look like a frame of ours."""

import re
from typing import Final

from headway.ledger.text import one_line

# A bracket that opens like one of our frames: [/todo, [END TODO], [TURN CONTEXT], in any spacing or case, and with
# whatever nobody sees between the letters (Unicode's default ignorable code points, as far as they pass for printable).
UNSEEN: Final = r"[\s\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]*"
WORDS: Final = "|".join(UNSEEN.join(word) for word in ("END", "DELEGATION", "TURN", "GOAL"))
FRAME_LIKE: Final = re.compile(rf"[\[［](?={UNSEEN}(?:[/／]|(?:{WORDS})\b))", re.IGNORECASE)
SHOWN_LIMIT: Final = 300


def inline(text: str, limit: int = SHOWN_LIMIT) -> str:
    """Foreign text as one line that no frame can be forged with."""
    shown = unframed(one_line(text))
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def unframed(text: str) -> str:
    """Foreign text of many lines, as it is but for what looks like a frame."""
    return FRAME_LIKE.sub("(", text)


def frame(head: str, lines: list[str], end: str) -> str:
    return "\n".join([f"[{head}]", *lines, f"[{end}]"])

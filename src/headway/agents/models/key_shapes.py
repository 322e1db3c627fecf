"""Recognise texts that look like API keys, because providers quote the key they rejected."""

import re
from itertools import pairwise
from typing import Final

# What starts like a key, or stands where a key stands.
KEY_SHAPE: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|csk|fw|ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|hw|nvapi|pplx|r8|tgp|xai)[-_][\w*.+/=-]{6,}"
    r"|\bAIza[\w*-]{6,}|\bAKIA[A-Z0-9]{8,}|\bya29\.[\w-]+|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|(?<=Bearer )[^\s\"',;]{6,}|(?<=[?&]key=)[^\s\"'&]{6,}",
)
# A word without dots: names of models, hosts and paths consist of short words, a key has a long one of letters and digits.
WORD: Final = re.compile(r"[\w+/=*-]{20,}", re.ASCII)
SEGMENT: Final = re.compile(r"[A-Za-z0-9]+")
LONG_SEGMENT, MEDIUM_SEGMENT = 16, 12  # characters


def hide_keys(text: str, allowed: str = "") -> str:
    """Replace everything that looks like a key with an ellipsis, except what is part of `allowed`."""

    def hide(match: re.Match[str]) -> str:
        return match[0] if match[0] in allowed else "…"

    return WORD.sub(lambda match: hide(match) if has_random_segment(match[0]) else match[0], KEY_SHAPE.sub(hide, text))


def has_random_segment(word: str) -> bool:
    """Return whether letters and digits alternate in a part of the word, as they do in keys and not in names."""
    return any(is_random(segment) for segment in SEGMENT.findall(word))


def is_random(segment: str) -> bool:
    changes = sum(first.isdigit() != second.isdigit() for first, second in pairwise(segment))
    return changes >= 1 if len(segment) >= LONG_SEGMENT else changes >= 2 and len(segment) >= MEDIUM_SEGMENT

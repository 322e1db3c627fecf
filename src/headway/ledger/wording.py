"""Titles cut from texts, and the words of a search and their excerpts."""

from collections.abc import Sequence
from typing import Final

from headway.ledger.text import check_text, to_one_line

QUERY_LIMIT: Final = 1_000
EXCERPT_LENGTH: Final = 140


def parse_words(query: str) -> list[str]:
    return check_text(query, "query", QUERY_LIMIT).casefold().split()


def has_all_words(content: str, words: Sequence[str]) -> bool:
    """Whether each word occurs in the content, in any case, also inside of longer words."""
    if not words:
        return True
    content = content.casefold()
    return all(word in content for word in words)


def cut_excerpt(content: str, words: Sequence[str]) -> str:
    """Return the part of the content around the first of the words, as one safe line."""
    folded = content.casefold()
    found = min((at for word in words if (at := folded.find(word)) >= 0), default=0)
    start = max(0, min(found - EXCERPT_LENGTH // 3, len(content) - EXCERPT_LENGTH))
    part = " ".join(to_one_line(content[start : start + EXCERPT_LENGTH]).split())
    return f"{'…' if start else ''}{part}{'…' if start + EXCERPT_LENGTH < len(content) else ''}"

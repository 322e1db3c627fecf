"""What the calls of an agent prove about an item."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headway.ledger.items.doubts import find_doubts
from headway.ledger.items.request_items import changes_file, list_paths, list_sources, normalise
from headway.ledger.items.work import UNKNOWN_WRITE, Exists, Work, Write, join_names, list_tokens

# Words that say nothing about which item a change belongs to.
COMMON: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "into",
        "is",
        "it",
        "its",
        "line",
        "of",
        "on",
        "only",
        "or",
        "replace",
        "text",
        "that",
        "the",
        "then",
        "to",
        "with",
        "word",
        "write",
    ]
)


class ItemFinding(NamedTuple):
    """What is known about an item that changes files."""

    is_done: bool
    reason: str  # for people: what was written, or what is missing
    is_impossible: bool = False  # trying again cannot help


def judge_item(text: str, work: Work, exists: Exists, shared: Collection[str] = ()) -> ItemFinding | None:
    """Judge an item by its files; None if it does not ask for the change of a file, so that only the agent's word is left.

    Files that are `shared` with other items prove nothing unless a change has to do with the item's own words.
    """
    if not changes_file(text):
        return None
    named = list_paths(text)
    absent = [path for path in named if path not in work.written and not exists(path)]
    if absent:
        sources = [path for path in list_sources(text) if path in absent]
        if sources:
            return ItemFinding(is_done=False, reason=f"there is no {sources[0]}", is_impossible=True)
        return ItemFinding(is_done=False, reason=f"{join_names(absent)} {'were' if len(absent) > 1 else 'was'} not written")
    written = [path for path in named if path in work.written and (path not in shared or is_related(text, work.writes[path]))]
    if not written:
        return ItemFinding(is_done=False, reason=f"{named[-1]} was not changed")
    for path in written:
        doubts = find_doubts(text, "", path, work.written[path], work, exists, is_shared=path in shared)
        doubt = next((reason for kind, reason in doubts if kind != "words"), "")
        if doubt:
            return ItemFinding(is_done=False, reason=f"{path} was written, but is not verified: {doubt}")
    return ItemFinding(is_done=True, reason=f"wrote {join_names(written)}")


def is_related(item: str, writes: list[Write]) -> bool:
    tokens = list_tokens(item) - COMMON
    return any(not tokens.isdisjoint(write.added or write.removed) or write == UNKNOWN_WRITE for write in writes)


def find_item(texts: Sequence[str], arguments: Mapping[str, Any]) -> str:
    """Find the item that a write belongs to: it names the file or one of that name, and has most in common with the new text."""
    path = normalise(str(arguments.get("path", "")))
    tokens = list_tokens(" ".join(str(arguments.get(name, "")) for name in ("old", "new", "content")))
    ranks = {}
    for text in texts:
        named = list_paths(text)
        if changes_file(text) and any(path == name or path.endswith(f"/{name}") for name in named):
            ranks[text] = (path in named, path not in list_sources(text), len(tokens & list_tokens(text)))
    return max(ranks, key=lambda text: ranks[text], default="")

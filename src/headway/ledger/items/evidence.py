"""What the calls of an agent prove about an item: which files it read and wrote, and what is doubtful about their content."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import permutations
from math import isclose, prod
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.items.request_items import (
    changes_file,
    list_literals,
    list_paths,
    list_sources,
    needs_existing,
    normalise,
    read_words,
    to_words,
)
from headway.ledger.text import to_one_line

READING_TOOLS: Final = frozenset(("read_file", "list_files", "search_files"))
WRITING_TOOLS: Final = frozenset(("write_file", "edit_file"))
PATH_LIMIT: Final = 300  # characters of an argument that may be a path
SHORT_TEXT: Final = 300  # characters; the words and numbers of longer texts are not compared
NUMBER: Final = re.compile(r"(?<![\w.])-?\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+(?!\.[A-Za-z])")
WORD: Final = re.compile(r"[^\W\d_]+")
EXPRESSION: Final = re.compile(r"\d\s*[-+*/×^]\s*\d")
DATE: Final = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")
COMPUTING: Final = re.compile(
    r"\d\s*[-+*/×%]\s*\d|\b(?:calculate|compute|add|sum|total|multipl\w+|product|divid\w+|subtract|difference|times|plus|minus"
    r"|average|mean|median|percent\w*|double|half|twice|square\w*|remainder|count|how many|number of|each|per|wage|cost|price)\b",
    re.IGNORECASE,
)
PLACEHOLDER: Final = re.compile(
    r"\{\{[^{}]{0,60}\}\}|\$\{[^{}]{0,60}\}|</?[a-z_ ]{3,30}>|\AWrote \S{1,60}\Z|\byour [\w ]{2,30} here\b", re.IGNORECASE
)
COPYING: Final = re.compile(
    r"\b(?:copy|duplicate|whole|all|entire|everything|text of|content of|contents of|append|sort)\b", re.IGNORECASE
)
WANTS_NUMBER: Final = re.compile(
    r"\b(?:number|total|sum|result|wage|product|average|mean|difference|quotient|remainder|square|cube|percentage)\b", re.IGNORECASE
)
CONSTANTS: Final = frozenset(("2", "7", "12", "24", "60", "100", "365", "1000", "3600"))
OPERANDS: Final = 40  # numbers that are combined
EXTENDING: Final = re.compile(r"\b(?:add|append|insert|prepend)\b", re.IGNORECASE)
EMPTYING: Final = re.compile(r"\b(?:empty|clear)\b", re.IGNORECASE)
COPIED_WORDS: Final = to_words("the whole text content contents file of all")
MARKS: Final = " .\"'`“”"
CODE: Final = (".py", ".js", ".ts", ".json", ".html", ".css", ".sh", ".sql", ".toml", ".yaml", ".yml")

TOKEN: Final = re.compile(r"\w+")
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
Exists = Callable[[str], bool]
Doubt = Literal[
    "absent",
    "source",
    "unread",
    "overwritten",
    "empty",
    "lost",
    "copy",
    "literal",
    "placeholder",
    "whole",
    "expression",
    "number",
    "words",
]


class MadeCall(NamedTuple):
    """A tool call with its result."""

    tool: str
    arguments: Mapping[str, Any]
    result: str
    succeeded: bool


class Write(NamedTuple):
    """The words that one call added to a file and removed from it; empty if they are not known."""

    added: frozenset[str]
    removed: frozenset[str]


class Work(NamedTuple):
    """What a run has done so far."""

    written: Mapping[str, str]  # by path: the text that was last written, empty if it is not known
    writes: Mapping[str, list[Write]]
    whole: frozenset[str]  # files whose whole text was written last
    read: frozenset[str]
    failed: Mapping[str, str]  # by path: why the last call for it failed
    contents: Mapping[str, str]  # by path: the text of a file as it was last read
    originals: Mapping[str, str]  # the same before the run changed it
    calculations: tuple[tuple[frozenset[str], str], ...]  # the numbers of each expression, and its result
    words: frozenset[str]  # of the results


UNKNOWN_WRITE: Final = Write(frozenset(), frozenset())


class ItemFinding(NamedTuple):
    """What is known about an item that changes files."""

    is_done: bool
    reason: str  # for people: what was written, or what is missing
    is_impossible: bool = False  # trying again cannot help


def collect_work(calls: Iterable[MadeCall], changed: Collection[str] = ()) -> Work:
    """Sum up calls, oldest first. `changed` are further files that programs and workers changed."""
    written: dict[str, str] = dict.fromkeys(changed, "")
    writes: dict[str, list[Write]] = {path: [UNKNOWN_WRITE] for path in changed}
    whole: set[str] = set()
    known: dict[str, str] = {}  # contents
    read: set[str] = set()
    failed: dict[str, str] = {}
    contents: dict[str, str] = {}
    originals: dict[str, str] = {}
    calculations: list[tuple[frozenset[str], str]] = []
    words: set[str] = set()
    for call in calls:
        paths = list_argument_paths(call)
        if not call.succeeded:
            failed.update(dict.fromkeys(paths, call.result))
            continue
        if call.tool in WRITING_TOOLS:
            old, new = (str(call.arguments.get(name) or "") for name in ("old", "content" if call.tool == "write_file" else "new"))
            for path in paths:
                written[path] = new
                (whole.add if call.tool == "write_file" else whole.discard)(path)
                writes.setdefault(path, []).append(compare(old or known.get(path, ""), new))
                known[path] = new if call.tool == "write_file" else f"{known.get(path, '')} {new}"
        elif call.tool in READING_TOOLS:
            read.update(paths)
            known.update(dict.fromkeys(paths, call.result))
            contents.update(dict.fromkeys(paths, get_field(call.result, "content")))
            originals |= {path: contents[path] for path in paths if path not in originals.keys() | written.keys()}
        else:
            for path in paths:
                written.setdefault(path, "")
                writes.setdefault(path, []).append(UNKNOWN_WRITE)
            read.update(paths)
        if call.tool == "calculate":
            used = frozenset(list_numbers(str(call.arguments.get("expression"))))
            calculations.append((used, get_field(call.result, "result")))
        if call.tool not in WRITING_TOOLS:
            words.update(list_words(call.result))
    return Work(
        written, writes, frozenset(whole), frozenset(read), failed, contents, originals, tuple(calculations), frozenset(words)
    )


def get_field(result: str, name: str) -> str:
    """Return a field of a result; the result itself if it is no JSON object."""
    try:
        return str(json.loads(result)[name])
    except (ValueError, LookupError, TypeError):
        return result


def compare(old: str, new: str) -> Write:
    before, after = frozenset(list_tokens(old)), frozenset(list_tokens(new))
    return Write(after - before, before - after)


def list_tokens(text: str) -> set[str]:
    return {token.lower() for token in TOKEN.findall(text)}


def list_argument_paths(call: MadeCall) -> list[str]:
    if call.tool in READING_TOOLS | WRITING_TOOLS:
        path = call.arguments.get("path")
        return [normalise(path)] if isinstance(path, str) and path else []
    values = [value for value in call.arguments.values() if isinstance(value, str) and len(value) <= PATH_LIMIT]
    return [path for value in values if (path := normalise(value)) in list_paths(value)]


def list_numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in NUMBER.findall(text)}


def list_words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}


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
        doubt = next(
            (reason for kind, reason in find_doubts(text, "", path, work.written[path], work, exists) if kind != "words"), ""
        )
        if doubt:
            return ItemFinding(is_done=False, reason=f"{path} was written, but is not verified: {doubt}")
    return ItemFinding(is_done=True, reason=f"wrote {join_names(written)}")


def is_related(item: str, writes: list[Write]) -> bool:
    tokens = list_tokens(item) - COMMON
    return any(not tokens.isdisjoint(write.added or write.removed) or write == UNKNOWN_WRITE for write in writes)


def join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def find_doubts(item: str, tool: str, path: str, content: str, work: Work, exists: Exists) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against writing this content for an item. Without a tool, the file has been written already."""
    if tool and needs_existing(item, path) and path not in work.written and not exists(path):
        yield "absent", f"There is no {path}, so it cannot be changed. Say so."
    if tool and path in list_sources(item) and path not in work.written:
        others = [other for other in list_paths(item) if other not in list_sources(item)]
        yield "source", f"{path} is only to be read. Write to {join_names(others)}."
    unread = [
        source for source in list_paths(item) if source != path and source not in work.read | work.written.keys() and exists(source)
    ]
    if unread:
        yield "unread", f"{unread[0]} has not been read. Call read_file with the path {unread[0]} first, and use what it says."
    if tool == "write_file" and path not in work.read | work.written.keys() and exists(path):
        yield "overwritten", f"{path} exists and has not been read. Call read_file first, or change it with edit_file."
    is_whole = tool == "write_file" if tool else path in work.whole
    if is_whole:
        yield from find_loss(item, path, content, work)
    yield from find_text_doubts(item, path, content, work, is_whole=is_whole)


def find_loss(item: str, path: str, content: str, work: Work) -> Iterator[tuple[Doubt, str]]:
    """Yield what a whole text lacks: any text at all, what the file had before, or what was to be copied."""
    if not content.strip() and not EMPTYING.search(item):
        yield "empty", f"The content of {path} is missing."
    lines = [line.strip() for line in work.originals.get(path, "").splitlines() if line.strip()]
    kept = [line for line in lines if line in content]
    is_edit = needs_existing(item, path)
    if (EXTENDING.search(item) and len(kept) < len(lines)) or (is_edit and len(kept) < len(lines) // 2):
        yield "lost", f"Keep what is in {path}, and change only what was asked for. edit_file does that."
    source = find_copied(item) if path not in list_sources(item) else ""
    copied = work.contents.get(source, "")
    if source and copied and to_one_line(copied) != to_one_line(content):
        yield "copy", f"The content of {path} must be exactly that of {source}: {copied.strip()}"


def find_copied(item: str) -> str:
    """Return the file in `copy FILE to …` and in `copy the text of FILE to …`; nothing for a part of a file."""
    words = read_words(item)
    start = next((n for n, word in enumerate(words) if word.bare == "copy"), len(words))
    after = next((word for word in words[start + 1 :] if word.bare not in COPIED_WORDS), None)
    return after.path if after else ""


def find_text_doubts(item: str, path: str, content: str, work: Work, *, is_whole: bool) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against the words and numbers of a short text."""
    literals = list_literals(item) if content.strip() and list_paths(item) == [path] else []
    if is_whole and len(literals) == 1 and not EXTENDING.search(item) and not needs_existing(item, path):
        is_right = strip_marks(content) == strip_marks(literals[0])
    else:
        is_right = all(to_one_line(literal) in to_one_line(content) for literal in literals)
    if not is_right:
        is_added = EXTENDING.search(item) or needs_existing(item, path)
        hint = "Keep the rest of the file. It must contain" if is_added else f"The content of {path} must be exactly"
        yield "literal", f"{hint}: {literals[0]}"
    if len(content) > SHORT_TEXT or path.endswith(CODE) or not content.strip():
        return
    if PLACEHOLDER.search(content):
        yield "placeholder", "Write the text itself, not a placeholder for it."
    copied = next(
        (source for source, text in work.contents.items() if len(text.split("\n")) > 2 and text.strip() == content.strip()), ""
    )
    if copied and copied in list_paths(item) and not COPYING.search(item):
        yield "whole", f"That is all of {copied}. Write only the part that was asked for."
    is_computed = COMPUTING.search(item) and (list_numbers(item) or list_sources(item))
    is_lone_number = len(list_numbers(item)) > 1 and NUMBER.fullmatch(content.strip())
    if not literals and (is_computed or is_lone_number):
        yield from find_number_doubts(item, content, work)
    elif not literals and content.strip() not in item and not PLACEHOLDER.search(content):
        strange = list_words(content) - list_words(item) - work.words
        if is_whole and strange and len(strange) < len(list_words(content)):
            yield "words", "Write only the text that was asked for, without other words."


def find_number_doubts(item: str, content: str, work: Work) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against the result of a calculation."""
    if EXPRESSION.search(content) and not DATE.search(content):
        yield "expression", "Write only the result. Call calculate first."
        return
    found = list_all_numbers(content)
    operands = list_numbers(item)
    texts = [work.contents.get(path, "") for path in list_paths(item)]
    if WANTS_NUMBER.search(item) and len(found) != 1:
        results = [number for number in found if number not in operands and can_derive(float(number), sorted(map(float, operands)))]
        yield "number", f"Write only {results[-1]}." if results else "Write only the number that was asked for."
        return
    given = operands.union(*map(list_numbers, texts), CONSTANTS)
    for number in found:
        is_calculated = any(
            strip_zeros(result) == strip_zeros(number) and used <= given and len(used & operands) >= min(2, len(operands))
            for used, result in work.calculations
        )
        is_stated = any(number in list_numbers(text) for text in texts)
        if not (
            is_calculated
            or is_stated
            or can_derive(float(number), sorted(map(float, operands)))
            or any(
                can_derive(float(number), [*map(float, list_all_numbers(text))]) or number == str(len(text.strip().splitlines()))
                for text in texts
                if text
            )
        ):
            yield "number", f"It is not clear where {number} comes from. Call calculate first, then write its result."


def list_all_numbers(text: str) -> list[str]:
    return [number.replace(",", "") for number in NUMBER.findall(text)][:OPERANDS]


def can_derive(number: float, operands: list[float]) -> bool:
    """Whether a number follows from others in one simple way, so that it needs no calculation to be believed."""
    if not operands or len(operands) > OPERANDS:
        return False
    if len(operands) == 1:
        return any(isclose(number, one, rel_tol=1e-4) for one in (operands[0] ** 2, operands[0] * 2, operands[0] / 2))
    candidates = {sum(operands), prod(operands), sum(operands) / len(operands)}
    for first, second in permutations(operands[:6], 2):
        candidates |= {
            first + second,
            first - second,
            first * second,
            first * second / 100,
            2 * (first + second),
            first * 60 + second,
        }
        candidates |= {first / second} if second else set()
    return any(isclose(number, one, rel_tol=1e-4) for one in candidates)


def strip_marks(text: str) -> str:
    return to_one_line(text).strip(MARKS)


def strip_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number

"""What an item says about the text of its file so exactly that it can be computed: lines, JSON, syntax, names, replacements."""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from headway.ledger.items.request_items import find_replaced_text, list_paths, list_sources, strip_introduction
from headway.ledger.items.work import NUMBER, Work, list_tokens

PARSED_LIMIT: Final = 20_000  # characters
LINE_OF: Final = re.compile(r"\bthe (first|second|third|last) line of (?:the (?:text )?(?:file )?)?(\S+)", re.IGNORECASE)
LINES: Final = re.compile(r"\b(two|three|four|five|six|seven|eight|nine|ten|\d{1,3}) lines\b", re.IGNORECASE)
PLACES: Final = {"first": 0, "second": 1, "third": 2, "last": -1}
NUMBER_WORDS: Final = {
    word: number for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
CHANGING_LINES: Final = re.compile(r"\b(?:add|append|insert|prepend|delete|remove|replace|change|keep|swap|sort)\b", re.IGNORECASE)
ONLY_NUMBER: Final = re.compile(r"\b(?:only|just) (?:the|a|one) (?:number|result)\b|\ba plain number\b", re.IGNORECASE)
FUNCTION: Final = re.compile(r"\bfunctions? `?([A-Za-z_]\w{0,60})`?\(")


def find_stated_doubts(item: str, path: str, text: str, work: Work, *, is_computed: bool, is_shared: bool) -> Iterator[str]:
    """Yield in which ways the whole text of a file differs from what its item states."""
    yield from find_syntax_doubts(item, path, text)
    yield from find_line_doubts(item, path, text, work)
    yield from find_replacement_doubts(item, path, text, work, is_shared=is_shared)
    if ONLY_NUMBER.search(item) and not NUMBER.fullmatch(text.strip()) and is_only_target(item, path):
        yield "Write only the number."
    elif not is_computed:
        yield from find_lookup_doubts(item, path, text, work)


def find_syntax_doubts(item: str, path: str, text: str) -> Iterator[str]:
    if len(text) > PARSED_LIMIT:
        return
    if path.endswith(".json"):
        value, stated = parse_json(text), find_json(item)
        if value is INVALID:
            yield f"{path} must be valid JSON and nothing else."
        elif stated not in (INVALID, value) and is_only_target(item, path):
            yield f"The content of {path} must be exactly: {json.dumps(stated, ensure_ascii=False)}"
    if path.endswith(".py"):
        if not is_python(text):
            yield f"{path} must be valid Python and nothing else."
        elif is_only_target(item, path):
            missing = [name for name in FUNCTION.findall(item) if f"def {name}(" not in text and f"{name} =" not in text]
            if missing:
                yield f"{path} must define the function {missing[0]}."


def find_line_doubts(item: str, path: str, text: str, work: Work) -> Iterator[str]:
    if not is_only_target(item, path):
        return
    found = LINE_OF.search(item)
    source = next(iter(list_paths(found[2])), "") if found else ""
    lines = [line.strip() for line in work.contents.get(source, "").splitlines() if line.strip()]
    place = PLACES[found[1].lower()] if found else 0
    if found and source != path and -1 <= place < len(lines) and text.strip() != lines[place]:
        yield f"The content of {path} must be exactly: {lines[place]}"
    own_words = strip_introduction(item)
    if (counted := LINES.search(own_words)) and not list_sources(item) and not CHANGING_LINES.search(own_words):
        number = NUMBER_WORDS.get(counted[1].lower()) or int(counted[1])
        actual = sum(bool(line.strip()) for line in text.splitlines())
        if actual != number:
            yield f"{path} must have {number} lines, not {actual}."


def find_replacement_doubts(item: str, path: str, text: str, work: Work, *, is_shared: bool) -> Iterator[str]:
    """Yield what is wrong with `replace A by B in FILE`: A is as often in the file as before, or other lines are gone."""
    original = work.originals.get(path, "")
    old, new = find_replaced_text(item)
    if not old or list_paths(item) != [path] or count_occurrences(old, new) or not count_occurrences(old, original):
        return
    if count_occurrences(old, text) >= count_occurrences(old, original):
        yield f"{old} is still in {path}. Replace it by {new}."
    if not is_shared and loses_lines(item, original, text):
        yield f"Lines that were in {path} are missing."


def count_occurrences(words: str, text: str) -> int:
    """Count where words stand in a text, and not only as a part of longer ones."""
    pieces = text.split(words)
    return sum(not (before[-1:].isalnum() or after[:1].isalnum()) for before, after in pairwise(pieces))


def loses_lines(item: str, before: str, after: str) -> bool:
    """Whether a replacement that the item asks for took other lines from a text."""
    old, _ = find_replaced_text(item)
    kept = {line.strip() for line in before.splitlines() if not old or old not in line}
    return bool(old) and not kept <= {line.strip() for line in after.splitlines()}


def find_lookup_doubts(item: str, path: str, text: str, work: Work) -> Iterator[str]:
    """Yield why a single number is not that of the only line of a source which has the item's own words."""
    sources = [source for source in list_sources(item) if source in work.contents]
    if len(sources) != 1 or not is_only_target(item, path) or not NUMBER.fullmatch(text.strip()):
        return
    own_words = {word for word in list_tokens(strip_introduction(item)) if len(word) > 2} - list_tokens(" ".join(list_paths(item)))
    names = own_words | {path.rpartition("/")[2].partition(".")[0].lower()}
    lines = [line for line in work.contents[sources[0]].splitlines() if names & list_tokens(line)]
    if len(lines) == 1 and text.strip() not in NUMBER.findall(lines[0]) and NUMBER.search(lines[0]):
        yield f"{text.strip()} is not in the line of {sources[0]} that says: {lines[0].strip()}"


def is_only_target(item: str, path: str) -> bool:
    """Whether an item writes no other file than this."""
    return [other for other in list_paths(item) if other not in list_sources(item)] == [path]


INVALID: Final = object()


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return INVALID


def find_json(item: str) -> Any:
    """Return the object or list that an item says as JSON."""
    start = next((place for place, sign in enumerate(item) if sign in "{["), -1)
    if start < 0:
        return INVALID
    try:
        return json.JSONDecoder().raw_decode(item, start)[0]
    except (ValueError, RecursionError):
        return INVALID


def is_python(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True

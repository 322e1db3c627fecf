"""Doubts about a small model's claim that an item is done, and the evidence in its calls that settles them."""

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.items.arithmetic import can_derive, choose_number, has_sign_for, is_arithmetic, is_direct, list_factors
from headway.ledger.items.request_items import (
    LITERAL_WORDS,
    LineSetting,
    changes_file,
    find_replaced_text,
    find_setting,
    is_inside,
    list_literals,
    list_paths,
    list_sources,
    needs_existing,
    normalise,
    read_words,
    strip_introduction,
    strip_lead_in,
    strip_quotes,
    to_words,
)
from headway.ledger.items.work import (
    NUMBER,
    UNKNOWN_WRITE,
    Exists,
    MadeCall,
    Work,
    Write,
    get_field,
    join_names,
    list_all_numbers,
    list_numbers,
    list_tokens,
    list_words,
)
from headway.ledger.text import to_one_line

PARSED_LIMIT: Final = 20_000  # characters
LINE_OF: Final = re.compile(r"\bthe (first|second|third|last) line of (?:the (?:text )?(?:file )?)?(\S+)", re.IGNORECASE)
LINES: Final = re.compile(r"\b(two|three|four|five|six|seven|eight|nine|ten|\d{1,3}) lines\b", re.IGNORECASE)
PLACES: Final = {"first": 0, "second": 1, "third": 2, "last": -1}
NUMBER_WORDS: Final = {
    word: number for number, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
KEY_NOUNS: Final = to_words("setting value entry flag option key field variable number")
CHANGING_LINES: Final = re.compile(r"\b(?:add|append|insert|prepend|delete|remove|replace|change|keep|swap|sort)\b", re.IGNORECASE)
ONLY_NUMBER: Final = re.compile(r"\b(?:only|just) (?:the|a|one) (?:number|result)\b|\ba plain number\b", re.IGNORECASE)
FUNCTION: Final = re.compile(r"\bfunctions? `?([A-Za-z_]\w{0,60})`?\(")


def find_stated_doubts(item: str, path: str, text: str, work: Work, others: Sequence[str], *, is_computed: bool) -> Iterator[str]:
    """Yield in which ways the whole text of a file differs from what its item states."""
    yield from find_syntax_doubts(item, path, text)
    yield from find_line_doubts(item, path, text, work)
    yield from find_replacement_doubts(item, path, text, work, others)
    if ONLY_NUMBER.search(item) and not NUMBER.fullmatch(text.strip()) and is_only_target(item, path):
        yield "Write only the number."
    elif not is_computed:
        yield from find_lookup_doubts(item, path, text, work)


def find_syntax_doubts(item: str, path: str, text: str) -> Iterator[str]:
    if len(text) > PARSED_LIMIT:
        return
    if path.endswith(".json"):
        value, stated = parse_json(text), find_stated_json(item, path)
        if value is INVALID:
            yield f"{path} must be valid JSON and nothing else."
        elif stated and parse_json(stated) != value:
            yield f"The content of {path} must be exactly: {stated}"
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
    stated = find_stated_line(item, path, work)
    if stated and text.strip() != stated:
        yield f"The content of {path} must be exactly: {stated}"
    own_words = strip_introduction(item)
    if (counted := LINES.search(own_words)) and not list_sources(item) and not CHANGING_LINES.search(own_words):
        number = NUMBER_WORDS.get(counted[1].lower()) or int(counted[1])
        actual = sum(bool(line.strip()) for line in text.splitlines())
        if actual != number:
            yield f"{path} must have {number} lines, not {actual}."


def find_stated_line(item: str, path: str, work: Work) -> str:
    """Return the line that `the first line of FILE` means, as far as that file has been read."""
    found = LINE_OF.search(item)
    source = next(iter(list_paths(found[2])), "") if found else ""
    lines = [line.strip() for line in work.contents.get(source, "").splitlines() if line.strip()]
    index = PLACES[found[1].lower()] if found else 0
    return lines[index] if found and source != path and -1 <= index < len(lines) else ""


def find_replacement_doubts(item: str, path: str, text: str, work: Work, others: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with `replace A by B in FILE`: A is as often in the file as before, or other lines are gone."""
    original = work.originals.get(path, "")
    if not original or list_paths(item) != [path]:
        return
    old, new, _, is_line = find_edit(item, original)
    before = count_occurrences(old, original) if old and not count_occurrences(old, new) else 0
    if before and count_occurrences(old, text) >= before:
        yield f"{old} is still in {path}. Replace it by {new}."
    elif is_line and to_plain_line(new) not in map(to_plain_line, text.splitlines()):
        yield f"{path} must have the line: {new}"
    if loses_lines(frozenset((item, *others)), original, text):
        yield f"Lines that were in {path} are missing."


def count_occurrences(words: str, text: str) -> int:
    """Count where words stand in a text, and not only as a part of longer ones."""
    pieces = text.split(words)
    return sum(not (before[-1:].isalnum() or after[:1].isalnum()) for before, after in pairwise(pieces))


@lru_cache(maxsize=4)
def loses_lines(items: frozenset[str], before: str, after: str) -> bool:
    """Whether the replacements that all these items ask for took other lines from a text. Cached, because each of them asks."""
    replaced = [find_edit(item, before).old for item in items]
    kept = {line.strip() for line in before.splitlines() if not any(old in line for old in replaced)}
    return all(replaced) and not kept <= {line.strip() for line in after.splitlines()}


class Edit(NamedTuple):
    """A text that is to be replaced in a file, and the new one; both empty if an item's words do not say them."""

    old: str
    new: str
    value: str  # what is new about it
    is_line: bool = False


def find_edit(item: str, text: str) -> Edit:
    """Find the edit of a file's text that an item asks for, as far as its words say both sides."""
    setting = find_setting(item)
    if setting:
        lines = find_setting_lines(text).get(to_key(setting.key), ())
        if len(lines) == 1:
            return Edit(lines[0], setting.line or put_value(lines[0], setting.value), setting.line or setting.value, is_line=True)
        if old := find_valued_line(setting, text):
            return Edit(old, NUMBER.sub(setting.value, old), setting.value, is_line=True)
    old, new = find_replaced_text(item)
    if text and old not in text:
        noun, _, old = old.partition(" ")  # `web` in `rename the section web to server`
        new = new.removeprefix(f"{noun} ")
    return Edit(old, new, new) if old and (old in text or not text) else Edit("", "", "")


def to_key(key: str) -> str:
    """Return `port` for `the value of the "port" setting`."""
    words = key.rpartition(" of ")[2].split()
    words = words[1:] if words[:1] == ["the"] else words
    words = words[:-1] if len(words) > 1 and words[-1].lower() in KEY_NOUNS else words
    return " ".join(words).strip("\"'`").lower()


def find_valued_line(setting: LineSetting, text: str) -> str:
    """Return the only line with the words of a key such as `price of Soup` and a single number, like the new value."""
    subject = list_tokens(to_key(setting.key))
    lines = [line.strip() for line in text.splitlines() if subject <= list_tokens(line)] if subject else []
    is_number = NUMBER.fullmatch(setting.value) is not None
    return lines[0] if is_number and len(lines) == 1 and len(NUMBER.findall(lines[0])) == 1 else ""


@lru_cache(maxsize=4)
def find_setting_lines(text: str) -> Mapping[str, Sequence[str]]:
    """Find the lines that begin with a key and a colon or an equals sign, by key. Cached, because each item of a file asks."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        start, sign, _ = split_setting(line)
        if sign:
            found.setdefault(to_key(start.strip(" \"'\t")), []).append(line.strip())
    return found


def split_setting(line: str) -> tuple[str, str, str]:
    sign = min((sign for sign in ":=" if sign in line), key=line.index, default="")
    return line.partition(sign) if sign else (line, "", "")


def put_value(line: str, value: str) -> str:
    """Put another value into a line such as `port = 80` or `"port": "80",`."""
    start, sign, rest = split_setting(line)
    old = rest.strip().removesuffix(",")
    mark = old[:1] if old[:1] in ("'", '"') and not value.startswith(old[:1]) else ""
    space = rest[: len(rest) - len(rest.lstrip())]
    return f"{start}{sign}{space}{mark}{value}{mark}{',' if rest.rstrip().endswith(',') else ''}"


def to_plain_line(line: str) -> str:
    return "".join(line.split()).strip("\"',")


def find_lookup_doubts(item: str, path: str, text: str, work: Work) -> Iterator[str]:
    """Yield why a short text is not from the only line of a source which has the item's own words."""
    sources = [source for source in list_sources(item) if source in work.contents]
    found = text.strip()
    if len(sources) != 1 or not is_only_target(item, path) or not found or "\n" in found or LINE_OF.search(item):
        return
    own_words = {word for word in list_tokens(strip_introduction(item)) if len(word) > 2} - list_tokens(" ".join(list_paths(item)))
    names = own_words | {path.rpartition("/")[2].partition(".")[0].lower()}
    lines = [line.strip() for line in work.contents[sources[0]].splitlines()]
    named = [line for line in lines if names & list_tokens(line)]
    if len(named) != 1:
        return
    is_number = NUMBER.fullmatch(found) is not None
    is_wrong_number = is_number and found not in NUMBER.findall(named[0]) and bool(NUMBER.search(named[0]))
    is_compared = COMPARING.search(strip_introduction(item)) is not None
    is_of_another = not is_number and not is_compared and found not in named[0] and any(found in line for line in lines)
    if is_wrong_number or is_of_another:
        yield f"{found} is not in the line of {sources[0]} that says: {named[0]}"


def is_only_target(item: str, path: str) -> bool:
    """Whether an item writes no other file than this."""
    return [other for other in list_paths(item) if other not in list_sources(item)] == [path]


INVALID: Final = object()


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return INVALID


def find_stated_json(item: str, path: str) -> str:
    """Return the object or list that an item says as JSON."""
    start = next((index for index, sign in enumerate(item) if sign in "{["), -1)
    if start < 0 or not path.endswith(".json") or not is_only_target(item, path):
        return ""
    try:
        return json.dumps(json.JSONDecoder().raw_decode(item, start)[0], ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def is_python(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


# Doubts about a text that an agent writes, or has written, for an item.


SHORT_TEXT: Final = 300  # characters; the words and numbers of longer texts are not compared
EXPRESSION: Final = re.compile(r"\d\s*[-+*/×^]\s*\d")
DATE: Final = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")
COMPUTING: Final = re.compile(
    r"\d\s*[+*×%]\s*\d|\d\s+[-/]\s+\d|\b(?:calculate|compute|add|sum|total|multipl\w+|product|divid\w+|subtract|difference|times|plus|minus"
    r"|average|mean|median|percent\w*|double|half|twice|square\w*|remainder|count|how many|number of|per|wage|cost|price)\b",
    re.IGNORECASE,
)
PLACEHOLDER: Final = re.compile(
    r"\{\{[^{}]{0,60}\}\}|\$\{[^{}]{0,60}\}|</?[a-z_ ]{3,30}>|\AWrote \S{1,60}\Z|\byour [\w ]{2,30} here\b", re.IGNORECASE
)
FILLERS: Final = to_words("done ok okay todo tbd n/a null undefined unknown example placeholder content text")
OPENINGS: Final = ("sure,", "sure!", "certainly", "of course", "here is", "here are", "here's")
SEPARATOR: Final = re.compile(r"[,;:=|\t]")
NAME_AND_NUMBER: Final = re.compile(r"([^\d\n]{2,80}) (\d[\d.,]{0,20})")
FILE_NAME: Final = re.compile(r"\bfile ?names?\b|\bnames? of (?:the|each|all|every) files?\b|\bwhich file\b", re.IGNORECASE)
ENTRIES: Final = to_words("line lines entry row item word text")
MARKING: Final = to_words("about with for of saying says")  # between `line` and the words of it
RANGES: Final = to_words("the all every each any both empty blank duplicate")  # words before a description
ENTRY: Final = re.compile(r"\b(?:lines?|rows?|entry|entries|records?|all|both|whole|copy|append|add|sort)\b")
# Words with which a given word may itself be the answer, as in `the first word of …`, or among several, as in `which of a or b`
PLACING: Final = re.compile(r"\b(?:first|last|second|third|middle|word|words|letter)\b")
COMPARING: Final = re.compile(r"\b(?:only|\w{2,}er|\w{2,}est|which|most|least|best)\b")
TURNING: Final = re.compile(r"\b(?:translat\w+|revers\w+|convert\w*)\b")
CHOICE: Final = re.compile(r"\bor\b|,|\b(?:of|between|among) [^.,]{1,60}\band\b")
DESCRIBING: Final = ("the", "a", "an", "which", "where", "when", "what", "word", "convert")
DESCRIBED_LIMIT: Final = 3  # words
WANTS_NAME: Final = re.compile(r"\bthe names? of\b|\bwho\b", re.IGNORECASE)
COPYING: Final = re.compile(
    r"\b(?:copy|duplicate|whole|all|entire|everything|text of|content of|contents of|append|sort)\b", re.IGNORECASE
)
WANTS_NUMBER: Final = re.compile(
    r"\b(?:number|total|sum|result|wage|product|average|mean|difference|quotient|remainder|square|cube|percentage)\b", re.IGNORECASE
)
HOW_MANY: Final = re.compile(r"\bhow (?:many|much)\b|\bthe number of\b|^count\b", re.IGNORECASE)
COMBINING: Final = (re.compile(r"\b(?:total|sum)\b", re.IGNORECASE), re.compile(r"\b(?:average|mean)\b", re.IGNORECASE))
CONSTANTS: Final = frozenset(("2", "7", "12", "24", "60", "100", "365", "1000", "3600"))
EXTENDING: Final = re.compile(r"\b(?:add|append|insert|prepend)\b(?! (?:a |an |the )?(?:new )?file\b)", re.IGNORECASE)
ADDED_LINE: Final = re.compile(r"\b(?:add|append|insert|prepend)\b[^.\n]{0,40}\bline\b", re.IGNORECASE)
AT_END: Final = re.compile(r"\bappend\b|\blast line\b|\bat the end\b", re.IGNORECASE)
ONE_WORD: Final = re.compile(r"\b(?:one|a single) word\b", re.IGNORECASE)
SETTING: Final = re.compile(r"\b(?:set|replace|change|edit|correct|update|swap)\b", re.IGNORECASE)
CORRECTING: Final = re.compile(r"\b(?:rewrite|correct|fix|repair|edit|improve)\b", re.IGNORECASE)
EMPTYING: Final = re.compile(r"\b(?:empty|clear)\b", re.IGNORECASE)
COPIED_WORDS: Final = to_words("the whole text content contents file of all")
CALCULATE_FIRST: Final = "Call calculate with the numbers of the item first, then write its result."
MARKS: Final = " .\"'`“”"
CODE: Final = (".py", ".js", ".ts", ".json", ".html", ".css", ".sh", ".sql", ".toml", ".yaml", ".yml")

Doubt = Literal[
    "absent",
    "source",
    "unread",
    "overwritten",
    "empty",
    "lost",
    "copy",
    "literal",
    "stated",
    "placeholder",
    "echo",
    "whole",
    "expression",
    "number",
    "words",
]


def find_doubts(
    item: str, tool: str, path: str, content: str, work: Work, exists: Exists, others: Sequence[str] = ()
) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against writing this content for an item. Without a tool, the file has been written already.

    `others` are further items that name the file, and may have changed it as well.
    """
    if tool and needs_existing(item, path) and path not in work.written and not exists(path):
        yield "absent", f"There is no {path}, so it cannot be changed. Say so."
    missing = [source for source in list_sources(item) if source != path and source not in work.written and not exists(source)]
    if tool and missing:
        yield "absent", f"There is no {missing[0]}, so {path} cannot be made from it. Say so."
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
    is_known = is_whole or (not tool and path in work.originals)
    literals = list_literals(item) if content.strip() and list_paths(item) == [path] else []
    if content.strip() and list_paths(item) == [path] and (value := find_edit(item, work.originals.get(path, "")).value):
        literals = [value]
    text = content if tool else work.current.get(path, content)
    if literals and (doubt := find_literal_doubt(item, path, text, literals, is_whole=is_whole, may_end=is_known and not others)):
        yield "literal", doubt
    yield from find_text_doubts(item, path, content, work, literals, is_whole=is_whole)
    if is_known and text.strip():
        own_words = strip_introduction(item)
        is_computed = wants_calculation(own_words) and (is_arithmetic(item) or bool(list_numbers(own_words)))
        yield from (("stated", reason) for reason in find_stated_doubts(item, path, text, work, others, is_computed=is_computed))


def find_loss(item: str, path: str, content: str, work: Work) -> Iterator[tuple[Doubt, str]]:
    """Yield what a whole text lacks: any text at all, what the file had before, or what was to be copied."""
    if not content.strip() and not EMPTYING.search(item):
        yield "empty", f"The content of {path} is missing."
    original = work.originals.get(path, "")
    removed = find_removed_text(item)
    has_all_lines = all(line.strip() in content for line in original.splitlines())
    words = list_words(original)
    has_few_words = len(words & list_words(content)) < len(words) // 2
    is_cut = loses_lines(frozenset((item,)), work.current.get(path, ""), content)  # also what other items changed before
    is_edited = is_edit(item, path) or bool(removed)
    if original and content.split() == original.split() and (CORRECTING.search(item) or EXTENDING.search(item)):
        yield "lost", f"{path} is as it was before. Change what was asked for."
    elif (EXTENDING.search(item) and not has_all_lines) or (is_edited and (has_few_words or is_cut)):
        yield "lost", f"Keep what is in {path}, and change only what was asked for. edit_file does that."
    elif removed and not find_unmarked_lines(original, removed) <= {line.strip() for line in content.splitlines()}:
        yield "lost", f"Keep the lines of {path} that do not say {removed}."
    elif removed and removed in original and removed in content:
        yield "stated", f"{removed} is still in {path}. Remove it."
    source = find_copied(item) if path not in list_sources(item) else ""
    copied = work.contents.get(source, "")
    if source and copied and copied.split() != content.split():
        yield "copy", f"The content of {path} must be exactly that of {source}: {copied.strip()}"


def find_removed_text(item: str) -> str:
    """Return X in `remove X from FILE` and in `delete the line about X from FILE`; nothing where X is described."""
    text = strip_lead_in(strip_introduction(item))
    words = read_words(text)
    end = next((n for n, word in enumerate(words[:-1]) if n > 1 and word.bare in ("from", "in") and words[n + 1].path), 0)
    if not end or words[0].bare not in ("remove", "delete", "erase"):
        return ""
    start = next((n for n in range(end - 1) if words[n].bare in MARKING), 0)
    first = start + 1
    if not start and words[1].bare == "the" and words[2].bare in ENTRIES:
        first = 3
    is_described = not start and words[first].bare in RANGES
    return "" if is_described or first >= end else strip_quotes(text[words[first].start : words[end - 1].end])


def find_unmarked_lines(text: str, words: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if words not in line}


def find_copied(item: str) -> str:
    """Return the file in `copy FILE to …` and in `copy the text of FILE to …`; nothing for a part of a file."""
    words = read_words(item)
    start = next((n for n, word in enumerate(words) if word.bare in ("copy", "duplicate")), len(words))
    after = next((word for word in words[start + 1 :] if word.bare not in COPIED_WORDS), None)
    return after.path if after else ""


def find_literal_doubt(item: str, path: str, content: str, literals: list[str], *, is_whole: bool, may_end: bool) -> str:
    """Return what a text lacks of the texts that the item says literally. `may_end`: it is all of the file, and of one item."""
    replaces = needs_existing(item, path) or find_setting(item) is not None or bool(find_replaced_text(item)[0])
    is_added = replaces or bool(EXTENDING.search(item))
    is_line = bool(ADDED_LINE.search(item))
    if is_whole and len(literals) == 1 and not is_added:
        is_right = strip_quotes(to_one_line(content)) == strip_quotes(to_one_line(literals[0]))
    elif is_line:
        lines = [line.strip() for line in content.splitlines() if line.strip()]
        is_last = may_end and bool(AT_END.search(item))
        is_right = lines[-1:] == literals if is_last else set(literals) <= set(lines)
    else:
        is_right = all(to_one_line(literal) in to_one_line(content) for literal in literals)
    if is_right:
        return ""
    if not is_added:
        return f"The content of {path} must be exactly: {literals[0]}"
    verb = "end with" if is_line and AT_END.search(item) else "contain"
    return f"Keep the rest of the file. It must {verb}{' the line' if is_line else ''}: {literals[0]}"


def find_text_doubts(
    item: str, path: str, content: str, work: Work, literals: list[str], *, is_whole: bool
) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against the words and numbers of a short text."""
    if len(content) > SHORT_TEXT or path.endswith(CODE) or not content.strip():
        return
    if (PLACEHOLDER.search(content) or is_filler(content)) and content.strip(MARKS).lower() not in item.lower():
        yield "placeholder", "Write the text itself, not a placeholder for it."
    if not literals:
        yield from find_echo_doubts(item, path, content, work, is_whole=is_whole)
    if is_whole and ONE_WORD.search(item) and len(content.split()) > 1:
        yield "echo", "Write a single word."
    is_lone_number = len(list_numbers(item)) > 1 and NUMBER.fullmatch(content.strip())
    added = set(list_all_numbers(content)) - list_numbers(work.originals.get(path, ""))
    is_given = added <= list_numbers(item) and (
        EXTENDING.search(item) or is_edit(item, path) or not (wants_calculation(item) or choose_number(item))
    )
    if not literals and (wants_calculation(item) or is_lone_number) and not is_given:
        yield from find_number_doubts(item, content, work)
    elif not literals and content.strip() not in item and not PLACEHOLDER.search(content):
        strange = list_words(content) - list_words(item) - work.words
        if is_whole and strange and len(strange) < len(list_words(content)):
            yield "words", "Write only the text that was asked for, without other words."


def find_echo_doubts(item: str, path: str, content: str, work: Work, *, is_whole: bool) -> Iterator[tuple[Doubt, str]]:
    """Yield why a text is none that the item asks for, but words of the request, of a source or of another kind."""
    own_words = strip_introduction(item)
    name = path.rpartition("/")[2]
    if repeats_request(item, content):
        yield "echo", "That only repeats the request. Write the text that it describes."
    elif content.strip() in (*list_paths(item), name, name.partition(".")[0]) and not FILE_NAME.search(item):
        yield "echo", "That is only the name of the file. Write the text that was asked for."
    elif is_whole and WANTS_NAME.search(own_words) and not list_words(content):
        yield "echo", "Write the name that was asked for."
    elif is_whole and HOW_MANY.search(own_words) and is_only_target(item, path) and has_no_number(content):
        yield "number", "Write the number that was asked for."
    if is_whole and (copied := find_whole_entry(item, content, work)):
        yield "whole", f"That is all of {copied}. Write only the part that was asked for."


def is_edit(item: str, path: str) -> bool:
    """Whether an item changes a part of a file, as far as its words show."""
    return needs_existing(item, path) or find_setting(item) is not None or bool(SETTING.search(item)) or is_inside(item, path)


def has_no_number(content: str) -> bool:
    return not NUMBER.search(content) and list_words(content).isdisjoint(NUMBER_WORDS.keys() | {"no", "none", "zero", "one"})


def is_filler(content: str) -> bool:
    """Whether a text stands for another, or begins as an answer does."""
    text = content.strip().lower()
    return text.rstrip(".!") in FILLERS or (text.startswith(OPENINGS) and ":" in text.partition("\n")[0])


def repeats_request(item: str, content: str) -> bool:
    """Whether a text is the description in the request, such as `opposite of hot` for `write the opposite of hot to a.txt`."""
    words = " ".join(content.lower().removeprefix("the ").split()).strip(MARKS)
    own_words = " ".join(strip_lead_in(strip_introduction(item)).lower().split()).strip(MARKS)
    has_request = own_words.count(" ") >= 3 and own_words in words
    is_premise = words in (own_words.partition(":")[0], own_words.partition(":")[0].removeprefix("the ")) and ":" in own_words
    noun, given = find_description(own_words)
    description = f"{noun} {given}" if noun else own_words
    is_placed = PLACING.search(description) and not TURNING.search(own_words)
    is_choice = is_placed or (COMPARING.search(description) and CHOICE.search(own_words))
    may_be_given = is_choice or (NUMBER.fullmatch(words) and wants_calculation(item))
    is_given = f" {words} " in f" {given} " and not may_be_given
    is_sentence = bool(noun) and f" {noun} of {given} is " in f" {words} "
    whole = f" {' '.join(item.lower().split())} "
    is_description = words.count(" ") >= 2 and f" the {words} " in whole and f" that the {words} " not in whole
    is_task = words.count(" ") >= 2 and words.startswith(("a ", "an ", "one ")) and own_words.partition(" ")[2].startswith(words)
    is_noun = not may_be_given and is_described(words, own_words)
    return any((has_request, is_premise, is_given, is_sentence, is_description, is_task, is_noun))


def is_described(words: str, own_words: str) -> bool:
    """Whether a few words are only what the request describes the wanted text with, as `silver` is in `the symbol for silver`."""
    if words.count(" ") >= DESCRIBED_LIMIT or "," in words or not words:
        return False
    before, _, after = f" {own_words} ".partition(f" {words} ")
    lead, following = before.rpartition(" ")[2], read_words(after)
    is_object = len(following) > 1 and following[0].bare in ("to", "into", "in") and bool(following[1].path)
    return bool(after) and (lead in ("of", "for") or (lead in DESCRIBING and not is_object and bool(following)))


def find_description(own_words: str) -> tuple[str, str]:
    """Find `name` and `seat 2` in `write the name of seat 2 to FILE`: what is wanted, and what is given for it."""
    words = own_words.split()[:LITERAL_WORDS]
    start = words.index("the") + 1 if "the" in words else len(words)
    joint = next((n for n in range(start + 1, min(start + 4, len(words) - 2)) if words[n] in ("of", "with", "for")), 0)
    is_written = joint and words[-2] in ("to", "into", "in")
    return (" ".join(words[start:joint]), " ".join(words[joint + 1 : -2])) if is_written else ("", "")


def find_whole_entry(item: str, content: str, work: Work) -> str:
    """Return what was copied as a whole though a part of it was meant: a source, or a line with another part the item names."""
    entry = content.strip()
    texts = {source: work.contents[source] for source in list_paths(item) if source in work.contents}
    source = next((source for source, text in texts.items() if text.count("\n") > 1 and text.strip() == entry), "")
    if source and not COPYING.search(item):
        return source
    parts = [part.strip().lower() for part in SEPARATOR.split(entry)]
    if len(parts) == 1 and (named := NAME_AND_NUMBER.fullmatch(entry)):
        parts = [named[1].lower(), named[2]]
    own_words = " ".join(strip_introduction(item).lower().split())
    is_named = any(len(part) > 1 and part in own_words for part in parts) or WANTS_NAME.search(own_words)
    is_part_wanted = len(parts) > 1 and not ENTRY.search(own_words) and is_named
    is_line = any(entry in map(str.strip, text.splitlines()) for text in texts.values())
    return f"the line {entry}" if is_line and is_part_wanted else ""


def wants_calculation(item: str) -> bool:
    own_words = strip_introduction(item)
    return COMPUTING.search(item) is not None and bool(list_numbers(own_words) or list_sources(own_words))


def is_calculation_for(item: str, call: MadeCall, work: Work) -> bool:
    """Whether a call calculated only with numbers that the item or its sources name, and maybe a common factor."""
    if call.tool != "calculate" or not call.succeeded:
        return False
    texts = [work.contents.get(path, "") for path in list_sources(item)] if wants_calculation(item) else []
    expression = str(call.arguments.get("expression"))
    used, named = list_numbers(expression), list_numbers(item).union(*map(list_numbers, texts), list_factors(item))
    is_meant = (
        can_derive(item, get_field(call.result, "result"), strip_introduction(item))
        if is_direct(item)
        else has_sign_for(item, expression)
    )
    return used <= named | CONSTANTS and not used.isdisjoint(named) and is_meant


def find_number_doubts(item: str, content: str, work: Work) -> Iterator[tuple[Doubt, str]]:
    """Yield what speaks against the result of a calculation."""
    if EXPRESSION.search(content) and not DATE.search(content):
        yield "expression", "Write only the result. Call calculate first."
        return
    found = list_all_numbers(content)
    operands = list_numbers(item)
    texts = [work.contents.get(path, "") for path in list_paths(item)]
    if WANTS_NUMBER.search(item) and len(found) != 1:
        results = [number for number in found if number not in operands and can_derive(item, number, strip_introduction(item))]
        yield "number", f"Write only {results[-1]}." if results else "Write only the number that was asked for."
        return
    given = operands.union(*map(list_numbers, texts), list_factors(item))
    for number in found:
        is_calculated = any(
            strip_zeros(result) == strip_zeros(number)
            and not is_direct(item)
            and has_sign_for(item, expression)
            and (used := list_numbers(expression)) <= given | CONSTANTS
            and len(used - given) <= 1
            and len(used & operands) >= min(2, len(operands))
            for expression, result in work.calculations
        )
        is_stated = any(is_stated_number(item, number, text) for text in texts)
        if not (
            is_calculated
            or is_stated
            or can_derive(item, number, strip_introduction(item))
            or any(can_derive(item, number, text) or number == str(len(text.strip().splitlines())) for text in texts if text)
        ):
            yield "number", f"It is not clear where {number} comes from. {CALCULATE_FIRST}"


def is_stated_number(item: str, number: str, text: str) -> bool:
    """Whether a text says a number. A total or an average has to be called one, because its parts are not the result."""
    lines = [line for line in text.splitlines() if number in list_numbers(line)]
    combined = next((words for words in COMBINING if words.search(item)), None)
    return any(map(combined.search, lines)) if combined else bool(lines)


def strip_marks(text: str) -> str:
    return to_one_line(text).strip(MARKS)


def strip_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


# Proof of an item by the calls of an agent.


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
    """The facts about an item that changes files."""

    is_done: bool
    reason: str  # for people: what was written, or what is missing
    is_impossible: bool = False  # trying again cannot help


def judge_item(
    text: str, work: Work, exists: Exists, shared: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> ItemFinding | None:
    """Judge an item by its files; None if it does not ask for the change of a file, so that only the agent's word is left.

    `shared` has the other items that name a file. Then it proves nothing unless a change has to do with the item's own words.
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
    changed = [path for path in list_sources(text) if path in written and path in work.originals and path not in shared]
    if changed:
        return ItemFinding(is_done=False, reason=f"{changed[0]} is only to be read, but was changed")
    for path in written:
        doubts = find_doubts(text, "", path, work.written[path], work, exists, shared.get(path, ()))
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

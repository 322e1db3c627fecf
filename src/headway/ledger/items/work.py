"""The work of a run, summed up from its calls: which files were read and written, and with which text."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from headway.ledger.items.request_items import list_paths, normalise

READING_TOOLS: Final = frozenset(("read_file", "list_files", "search_files"))
WRITING_TOOLS: Final = frozenset(("write_file", "edit_file"))
PATH_LIMIT: Final = 300  # characters of an argument that may be a path
NUMBER: Final = re.compile(r"(?<![\w.])-?\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+(?!\.[A-Za-z])")
OPERATOR: Final = re.compile(r"[\w)]\s*[-+*/^%]|\w\(")
WORD: Final = re.compile(r"[^\W\d_]+")
TOKEN: Final = re.compile(r"\w+")
Exists = Callable[[str], bool]


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
    """The work of a run so far."""

    written: Mapping[str, str]  # by path: the text that was last written, empty if it is not known
    current: Mapping[str, str]  # by path: the text of the whole file, as far as it is known
    writes: Mapping[str, list[Write]]
    whole: frozenset[str]  # files whose whole text was written last
    read: frozenset[str]
    failed: Mapping[str, str]  # by path: why the last call for it failed
    contents: Mapping[str, str]  # by path: the text of a file as it was last read
    originals: Mapping[str, str]  # the same before the run changed it
    calculations: tuple[tuple[str, str], ...]  # each expression, and its result
    words: frozenset[str]  # of the results


UNKNOWN_WRITE: Final = Write(frozenset(), frozenset())


def collect_work(calls: Iterable[MadeCall], changed: Collection[str] = ()) -> Work:
    """Sum up calls, oldest first. `changed` are further files that programs and workers changed."""
    written: dict[str, str] = dict.fromkeys(changed, "")
    writes: dict[str, list[Write]] = {path: [UNKNOWN_WRITE] for path in changed}
    whole: set[str] = set()
    current: dict[str, str] = {}
    read: set[str] = set()
    failed: dict[str, str] = {}
    contents: dict[str, str] = {}
    originals: dict[str, str] = {}
    calculations: list[tuple[str, str]] = []
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
                known = current.get(path, "")
                writes.setdefault(path, []).append(compare(old or known, new))
                replaced = known.replace(old, new) if old and old in known else f"{known}\n{new}"
                current[path] = new if call.tool == "write_file" else replaced
        elif call.tool in READING_TOOLS:
            read.update(paths)
            contents.update(dict.fromkeys(paths, get_field(call.result, "content")))
            current.update(dict.fromkeys(paths, get_field(call.result, "content")))
            originals |= {path: contents[path] for path in paths if path not in originals.keys() | written.keys()}
        else:
            for path in paths:
                written.setdefault(path, "")
                writes.setdefault(path, []).append(UNKNOWN_WRITE)
            read.update(paths)
        expression = str(call.arguments.get("expression"))
        if call.tool == "calculate" and OPERATOR.search(expression):
            calculations.append((expression, get_field(call.result, "result")))
        if call.tool not in WRITING_TOOLS:
            words.update(list_words(call.result))
    return Work(
        written=written,
        current=current,
        writes=writes,
        whole=frozenset(whole),
        read=frozenset(read),
        failed=failed,
        contents=contents,
        originals=originals,
        calculations=tuple(calculations),
        words=frozenset(words),
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


def list_all_numbers(text: str) -> list[str]:
    """List the numbers in the order of the text."""
    return [number.replace(",", "") for number in NUMBER.findall(text)]


def list_words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}


def join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

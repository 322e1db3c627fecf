"""Tool calls in the texts that an agent has read.

A call stands in a text if the tool's name stands there as the name of a call, and the words of the arguments in their order. Words
alone are no call: a listing that contains `a.txt` does not contain the call that reads it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.parsing.read_text import fold, list_forms

WORD: Final = re.compile(r"[^\W_]{1,50}")
BEFORE_NAME: Final = ("name", "tool", "function", "calls", "begin", "sep")
BEFORE_ARGUMENTS: Final = ("arguments", "parameters", "parameter", "args", "input", "json", "tool")
KEY_WORDS: Final = frozenset((*BEFORE_NAME, *BEFORE_ARGUMENTS, "id", "type", "call", "end"))  # may stand among the arguments
FUNCTION: Final = re.compile(r"<function=([\w-]{1,100})>")
PARAMETER: Final = re.compile(r"<parameter=([\w-]{1,100})>")
NAMED_ELEMENT: Final = re.compile(r"<([a-z][\w-]{0,99})(?=[\s>/])")
COMPARED_WORDS: Final = 32  # of the arguments; two calls that begin with the same words are the same
SHORTEST_BEGINNING: Final = 2  # words: a key, and the first one of its value
OTHER_WORDS: Final = 2  # in the value of another key of a call
SEARCHED_WORDS: Final = 10  # next to the name of a tool
SEARCHED_LENGTH: Final = 50 * SEARCHED_WORDS
FORMS: Final = 3  # of a text with tags
FRACTION: Final = "\n"  # stands for a number that can be written in several ways

CallOrigin = Literal["own", "quoted", "confirmed"]  # confirmed: quoted, and the model was asked whether it means it
CallJudge = Callable[[str, str], CallOrigin]  # takes the tool and its arguments, a JSON object


def is_always_own(_tool: str, _arguments: str) -> CallOrigin:
    return "own"


class ReadWords(NamedTuple):
    """The words of a text, each with a space before and after it."""

    all: str
    without_keys: str


class ReadCalls:
    """The texts that may contain calls, reduced to words."""

    def __init__(self) -> None:
        self.texts: list[list[ReadWords]] = []  # each in all its forms

    def add(self, text: str) -> None:
        """Add a text. The work is linear in its length."""
        with_tags, *without_tags = list_forms(text)
        self.texts.append([find_words(form) for form in (name_elements(with_tags), *without_tags)])

    def has_call(self, tool: str, arguments: str) -> bool:
        """Whether the texts contain the call of a tool with these arguments, a JSON object. It may begin in one and end in another,
        because long texts are read in parts."""
        name = join(WORD.findall(fold(tool)))
        names_call = names_whole_call if not list_words(arguments, 0) else names_tool
        beginnings = [text for text in self.texts if any(names_call(form.all, name) for form in text)]
        return any(self.has_words(list_words(arguments, form), beginnings) for form in range(FORMS)) if beginnings else False

    def has_words(self, words: list[str], beginnings: list[list[ReadWords]]) -> bool:
        if any(contains(text, words) for text in beginnings):
            return True
        for end in range(SHORTEST_BEGINNING, len(words) - 1):
            # Between the parts, a word may be cut in two.
            if not any(contains(text, words[:end]) for text in beginnings):
                return False
            if any(contains(text, words[end + 1 :]) for text in self.texts):
                return True
        return False


def name_elements(text: str) -> str:
    """Write calls that consist of elements with the words of other calls."""
    text = PARAMETER.sub(r" \1 ", FUNCTION.sub(r" function \1 arguments ", text))
    return NAMED_ELEMENT.sub(r" name \1 arguments ", text)


def find_words(text: str) -> ReadWords:
    words = WORD.findall(text)
    return ReadWords(join(words), join(word for word in words if word not in KEY_WORDS))


def contains(text: list[ReadWords], words: list[str]) -> bool:
    pieces = [join(piece.split()) for piece in " ".join(words).split(FRACTION) if piece.strip()]
    return any(all(piece in form.without_keys for piece in pieces) for form in text)


def names_tool(text: str, name: str) -> bool:
    """Whether the name of a tool stands in the text as the name of a call."""
    heads = (*(f" {key}{name}" for key in BEFORE_NAME), *(f"{name}{key} " for key in BEFORE_ARGUMENTS))
    return any(head in text for head in heads)


def names_whole_call(text: str, name: str) -> bool:
    """The same for a call without words in its arguments, which needs both keys. Others may stand between them: `id call_1`."""
    parts = text.split(name)
    for before, after in pairwise(parts):
        *earlier, key = before[-SEARCHED_LENGTH:].split()[-SEARCHED_WORDS:] or [""]
        later = after[:SEARCHED_LENGTH].split()[:SEARCHED_WORDS]
        if key in BEFORE_NAME and (has_arguments(later, OTHER_WORDS) or has_arguments(earlier[::-1], 0)):
            return True
    return False


def has_arguments(words: Iterable[str], others: int) -> bool:
    """Whether only other keys with their values stand before the key of the arguments."""
    for word in words:
        if word in BEFORE_ARGUMENTS:
            return True
        others = 0 if word in KEY_WORDS else others + 1
        if others > OTHER_WORDS:
            return False
    return False


def join(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def list_words(arguments: str, form: int) -> list[str]:
    """Return the first words of the arguments, a JSON object, in one of the forms in which texts are compared."""
    return list(islice(yield_words(json.loads(arguments), form), COMPARED_WORDS))


def yield_words(value: Any, form: int) -> Iterator[str]:
    """Yield the words of the keys and values, in their order."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += [part for pair in reversed(one.items()) for part in reversed(pair)]
        elif isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, float):
            yield FRACTION
        else:
            forms = list_forms(one if isinstance(one, str) else json.dumps(one))
            yield from (word for word in WORD.findall(forms[min(form, len(forms) - 1)]) if word not in KEY_WORDS)

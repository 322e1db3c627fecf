"""Calls that stand in a text which an agent has read: found, so that they are not mistaken for its own."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from html.entities import html5
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.framing import IGNORABLE, LOOKALIKES

DECODINGS: Final = 4  # HTML may name signs of HTML, or of the JSON in it

# No pattern backtracks over what a text can repeat.
HIDDEN: Final = re.compile(rf"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{IGNORABLE}]+")
TAG: Final = re.compile(r"</?[A-Za-z][^<>]{0,300}>")
# However often a text is encoded as JSON, only the number of backslashes grows, and as HTML the number of `amp;`.
ESCAPE: Final = re.compile(r"\\++(?:u([0-9A-Fa-f]{4})|([bfnrtv]))?+")
ENTITY: Final = re.compile(r"&(?:amp;)*+(?:#([0-9]{1,7})|#[Xx]([0-9A-Fa-f]{1,6})|([A-Za-z][0-9A-Za-z]{1,30}));")


def fold(text: str) -> str:
    """Replace styled letters and signs by plain ones, in lower case, and remove what is invisible."""
    plain = text if text.isascii() else text.translate(get_plain_forms())
    return HIDDEN.sub("", plain.lower())


@cache
def get_plain_forms() -> dict[int, str]:
    """Map styled letters to plain ones, and other slashes to the plain one."""
    styled = {ord(sign): plain for plain, signs in LOOKALIKES.items() for sign in signs}
    return {**styled, **{ord(sign): "/" for sign in "\u2044\u2215\u29f8"}}


def list_forms(text: str) -> list[str]:
    """Return the forms, folded and without escapes, in which a text is compared: with its tags and, if it has any, without them.

    What an agent says is compared in the same forms. So a text that is encoded in part, or that only looks encoded, has the same
    words on both sides.
    """
    plain = fold(unescape(text))
    if not TAG.search(plain):
        return [plain]
    return [plain, TAG.sub(" ", plain), TAG.sub("", plain)]


def unescape(text: str) -> str:
    for _ in range(DECODINGS):
        decoded = ENTITY.sub(decode_entity, text) if "&" in text else text
        decoded = ESCAPE.sub(decode_escape, decoded) if "\\" in decoded else decoded
        if decoded == text:
            break
        text = decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # joins the halves of a character
    return text


def decode_escape(match: re.Match[str]) -> str:
    code, space = match.groups()
    if code:
        return chr(int(code, 16))
    return " " if space and space != "b" else ""  # a backspace is invisible, also where it is not escaped


def decode_entity(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return html5.get(f"{name};", f" {name} ")
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code) if code < 0x110000 else " "


# Tool calls in the texts that an agent has read.


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

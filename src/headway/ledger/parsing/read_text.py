"""The forms in which a text that an agent has read may be repeated: without invisible and styled letters, tags and escapes."""

import re
from functools import cache
from html.entities import html5
from typing import Final

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

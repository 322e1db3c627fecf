"""Regular expressions and globs, matched in linear time whatever the pattern and the text are."""

from typing import Any, Final

from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line

PATTERN_LIMIT: Final = 1_000  # characters
PROGRAM_LIMIT: Final = 10_000  # instructions of a compiled pattern; the time per byte of text grows with them
WILDCARDS: Final = frozenset("*?[{")


def compile_expression(expression: str) -> Any:
    """Compile a regular expression that is matched against single lines."""
    text.check_text(expression, "pattern", PATTERN_LIMIT)
    return compile_pattern(f"(?m){expression}", never_nl=True)


def compile_glob(glob: str) -> Any:
    """Compile a glob that is matched against whole paths."""
    text.check_text(glob, "pattern", PATTERN_LIMIT)
    return compile_pattern(translate_glob(glob), dot_nl=True)


def compile_pattern(pattern: str, **settings: bool) -> Any:
    import re2  # noqa: PLC0415  most runs search nothing

    options = re2.Options()
    options.log_errors, options.never_capture = False, True
    for name, value in settings.items():
        setattr(options, name, value)
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise Invalid(
            f"pattern is not valid: {to_one_line(reason.replace('(?m)', ''))[:200]}. The syntax is that of RE2: "
            "no lookaround and no backreferences."
        ) from None
    finally:
        re2.purge()  # its cache would keep 128 patterns of up to 8 MB
    if compiled.programsize > PROGRAM_LIMIT:
        raise Invalid("pattern is too large: repeat fewer times, or use * instead of a high count.")
    return compiled


def translate_glob(glob: str) -> str:
    """Translate a glob with `*`, `**`, `?`, `[a-z]` and `{a,b}` into a regular expression."""
    pieces, position, depth = [], 0, 0
    while position < len(glob):
        piece = next((piece for piece in WILDCARD_EXPRESSIONS if glob.startswith(piece, position)), glob[position])
        if piece == "[" and (end := glob.find("]", position + 2)) > 0:
            piece = glob[position : end + 1]
            pieces.append(translate_set(piece[1:-1]))
        elif piece in "},":
            pieces.append(BRACES[piece] if depth else piece)
        else:
            pieces.append(WILDCARD_EXPRESSIONS.get(piece) or escape(piece))
        depth += (piece == "{") - (piece == "}" and depth > 0)
        position += len(piece)
    return "".join(pieces)


WILDCARD_EXPRESSIONS: Final = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:"}
BRACES: Final = {"}": ")", ",": "|"}


def translate_set(characters: str) -> str:
    negation = "^/" if characters[0] in "!^" else ""
    members = characters[1:] if negation else characters
    return f"[{negation}{''.join(member if member == '-' else escape(member) for member in members)}]"


def escape(characters: str) -> str:
    return "".join(one if one.isalnum() or one in "_/ " or not one.isascii() else f"\\{one}" for one in characters)


def split_glob(glob: str) -> tuple[str, str]:
    """Split a glob into the folder that it begins with and the rest. A glob without a slash matches names in every folder."""
    parts = glob.removeprefix("./").split("/") if "/" in glob else ["**", glob]
    count = next((index for index, part in enumerate(parts[:-1]) if WILDCARDS & set(part)), len(parts) - 1)
    return "/".join(parts[:count]), "/".join(parts[count:])

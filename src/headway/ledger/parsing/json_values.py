"""JSON from strangers: values within limits, and the schemas and regular expressions that checks accept."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line

QUOTE = b'"'
SEPARATORS = (b",", b"[", b"{")


class ValueCounter:
    """Counts values in a text that arrives in pieces, until there are too many. Separators inside of strings do not count."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.is_in_string = False
        self.rest = b""  # a backslash whose next character has not arrived

    @property
    def has_exceeded(self) -> bool:
        return self.total > self.limit

    def feed(self, piece: bytes) -> None:
        text = self.rest + piece
        is_escaping = (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
        self.rest, text = (b"\\", text[:-1]) if is_escaping else (b"", text)
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        start = 0
        while start < len(text) and not self.has_exceeded:
            end = text.find(QUOTE, start)
            if not self.is_in_string:
                self.total += count_separators(text[start : end if end >= 0 else len(text)])
            if end < 0:
                return
            self.is_in_string, start = not self.is_in_string, end + 1

    def start_line(self) -> None:
        """Go on with a new line. No string of a JSON text goes beyond a line."""
        self.is_in_string, self.rest = False, b""

    def start_over(self) -> None:
        self.total = 0
        self.start_line()


def count_separators(text: bytes) -> int:
    return sum(text.count(sign) for sign in SEPARATORS)


def has_more_values(text: bytes, limit: int) -> bool:
    """Return whether a whole text has more values than that."""
    counter = ValueCounter(limit)
    counter.feed(text)
    return counter.has_exceeded


# Regular expressions and globs, matched in linear time whatever the pattern and the text are.


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
            f"pattern is not valid: {to_one_line(reason.replace('(?m)', ''))[:200]}. RE2 reads patterns: "
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


# The keywords that a JSON Schema may contain. A schema that breaks these rules is refused when a check is written, before there is
# a value.


# They can fetch documents, multiply the work, or match names with expressions that Python's own engine would have to match.
UNSUPPORTED_KEYWORDS: Final = frozenset(
    (*("$ref", "$dynamicRef", "patternProperties", "unevaluatedProperties", "unevaluatedItems"), "propertyNames", "uniqueItems")
)
TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
LIMITS: Final = (  # the smaller, the larger
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minContains", "maxContains"),
    ("minProperties", "maxProperties"),
)


def check_schema(schema: Any, field: str) -> None:
    """Raise Invalid, naming the keyword, if a schema is not valid or uses what checks do not support."""
    try:
        check_part(schema, field)
    except RecursionError:
        raise Invalid(f"{field} is nested too deeply.") from None


def check_part(schema: Any, field: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise Invalid(f"{field} must be a JSON Schema: an object, true or false.")
    if found := sorted(UNSUPPORTED_KEYWORDS & schema.keys()):
        raise Invalid(f"{field} uses {found[0]}, which checks do not support.")
    for keyword, value in schema.items():
        if rule := RULES.get(keyword):
            rule(value, f"{field}.{keyword}")
    for smaller, larger in LIMITS:
        if smaller in schema and larger in schema and schema[smaller] > schema[larger]:
            raise Invalid(f"{field}.{smaller} is larger than {larger}, so no value fits.")


def check_type(value: Any, field: str) -> None:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names) or len(set(names)) < len(names):
        raise Invalid(f"{field} must be one of {', '.join(TYPES)}, or a list of different ones.")


def check_pattern(value: Any, field: str) -> None:
    check_text(value, field)
    try:
        compile_pattern(value)
    except Invalid as error:
        raise Invalid(f"{field}: {error}") from None


def check_text(value: Any, field: str) -> None:
    if not isinstance(value, str):
        raise Invalid(f"{field} must be text.")


def check_boolean(value: Any, field: str) -> None:
    if not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false.")


def check_list(value: Any, field: str) -> None:
    if not isinstance(value, list):
        raise Invalid(f"{field} must be a list.")


def check_values(value: Any, field: str) -> None:
    if not isinstance(value, list) or not value:
        raise Invalid(f"{field} must be a list with at least one value.")


def check_number(value: Any, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"{field} must be a number.")


def check_divisor(value: Any, field: str) -> None:
    check_number(value, field)
    if value <= 0:
        raise Invalid(f"{field} must be larger than 0.")


def check_count(value: Any, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise Invalid(f"{field} must be a whole number from 0.")


def check_names(value: Any, field: str) -> None:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value) or len(set(value)) < len(value):
        raise Invalid(f"{field} must be a list of different names.")


def check_all(value: Any, field: str) -> None:
    check_values(value, field)
    for index, part in enumerate(value):
        check_part(part, f"{field}[{index}]")


def check_members(value: Any, field: str, rule: Callable[[Any, str], None] = check_part) -> None:
    if not isinstance(value, dict):
        raise Invalid(f"{field} must be an object.")
    for name, part in value.items():
        rule(part, f"{field}.{to_one_line(name[:60])}")


RULES: Final[Mapping[str, Callable[[Any, str], None]]] = {
    "type": check_type,
    "enum": check_values,
    "pattern": check_pattern,
    "multipleOf": check_divisor,
    "required": check_names,
    "dependentRequired": partial(check_members, rule=check_names),
    "examples": check_list,
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), check_number),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains"), check_count),
    **dict.fromkeys(("maxProperties", "minProperties"), check_count),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), check_members),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), check_all),
    **dict.fromkeys(("items", "additionalProperties", "contains", "not", "if", "then", "else", "contentSchema"), check_part),
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), check_text),
    **dict.fromkeys(("$schema", "$id", "$anchor", "$comment"), check_text),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), check_boolean),
}

"""What a JSON Schema may contain. A schema that breaks these rules is refused when a check is written, before any value is there.

The rules are those of draft 2020-12 for the keywords that checks support. Unknown keywords are ignored, as that draft says.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from headway.ledger.errors import Invalid
from headway.ledger.parsing.patterns import compile_pattern
from headway.ledger.text import to_one_line

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

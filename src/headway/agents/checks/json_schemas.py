"""Validates values against JSON Schemas that models and users wrote.

Regular expressions are matched by RE2, in linear time. Keywords that can fetch documents, multiply the work or match names with
other regular expressions are not supported, so the cost stays proportional to the schema and the value.
"""

from collections.abc import Iterator
from typing import Any, Final

import re2
from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators

from headway.ledger.errors import Invalid
from headway.ledger.text import to_one_line

MESSAGE_LIMIT: Final = 300
UNSUPPORTED_KEYWORDS: Final = frozenset(
    (*("$ref", "$dynamicRef", "patternProperties", "unevaluatedProperties", "unevaluatedItems"), "propertyNames", "uniqueItems")
)
NAMED_SCHEMAS: Final = frozenset(("properties", "$defs", "definitions", "dependentSchemas"))  # their keys are names, not keywords
VALUES: Final = frozenset(("const", "enum", "default", "examples"))  # not schemas


def find_mismatch(value: Any, schema: Any) -> str:
    """Return where and why the value does not fit the schema; empty if it does. Raises Invalid if the schema itself is wrong."""
    try:
        check_keywords(schema)
        Draft202012Validator.check_schema(schema)
        error = next(iter(SchemaValidator(schema).iter_errors(value)), None)
    except SchemaError as problem:
        raise Invalid(f"The JSON Schema is not valid: {describe(problem)}") from None
    except re2.error as problem:
        raise Invalid(f"The JSON Schema has a pattern that RE2 does not accept: {to_one_line(str(problem))[:200]}") from None
    except RecursionError:
        raise Invalid("The JSON Schema is nested too deeply.") from None
    return describe(error) if error else ""


def check_keywords(schema: Any) -> None:
    if isinstance(schema, list):
        for part in schema:
            check_keywords(part)
    if not isinstance(schema, dict):
        return
    if found := sorted(UNSUPPORTED_KEYWORDS & schema.keys()):
        raise Invalid(f"The JSON Schema uses {found[0]}, which checks do not support.")
    for keyword, part in schema.items():
        if keyword in NAMED_SCHEMAS and isinstance(part, dict):
            check_keywords(list(part.values()))
        elif keyword not in VALUES:
            check_keywords(part)


def match_pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not re2.search(pattern, value):
        yield ValidationError(f"{value[:80]!r} does not match {pattern!r}")


def describe(error: ValidationError | SchemaError) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return to_one_line(f"{place.lstrip('.') or 'the value'}: {error.message}")[:MESSAGE_LIMIT]


SchemaValidator: Final = validators.extend(Draft202012Validator, {"pattern": match_pattern})

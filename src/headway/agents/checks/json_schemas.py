"""Validates values against JSON Schemas that models and users wrote.

Regular expressions are matched by RE2, in linear time. Keywords that can fetch documents, multiply the work or match names with
other regular expressions are not supported. The cost is still the size of the schema times that of the value, so a large one is
validated by a process that runs this module and that can be killed.
"""

import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker, SchemaError, ValidationError, validators

from headway.ledger.errors import Invalid
from headway.ledger.parsing.json_values import check_schema, compile_pattern
from headway.ledger.text import to_one_line

MESSAGE_LIMIT: Final = 300
MEMORY_LIMIT: Final = 1 << 30  # bytes, of a process that validates
CPU_LIMIT_S: Final = 20


def find_mismatch(value: Any, schema: Any) -> str:
    """Return where and why the value does not fit the schema; empty if it does. Raises Invalid if the schema itself is wrong."""
    try:
        check_schema(schema, "schema")
        # Without formats, because checking that of a pattern compiles it with Python's own expressions.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
        error = next(iter(SchemaValidator(schema).iter_errors(value)), None)
    except SchemaError as problem:
        raise Invalid(f"The JSON Schema is not valid: {describe(problem)}") from None
    except RecursionError:
        raise Invalid("The JSON Schema is nested too deeply.") from None
    except ArithmeticError:
        raise Invalid("The JSON Schema or the value has a number that is too large.") from None
    return describe(error) if error else ""


def match_pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not compile_once(pattern).search(value):
        yield ValidationError(f"{value[:80]!r} does not match {pattern!r}")


def describe(error: ValidationError | SchemaError) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return to_one_line(f"{path.lstrip('.') or 'the value'}: {error.message}")[:MESSAGE_LIMIT]


def main() -> None:
    """Read `[schema, value]` from standard input, and write `{"mismatch"}` or `{"invalid"}` to standard output."""
    limit_resources()
    schema, value = json.load(sys.stdin)
    try:
        answer = {"mismatch": find_mismatch(value, schema)}
    except Invalid as error:
        answer = {"invalid": str(error)}
    json.dump(answer, sys.stdout)


def limit_resources() -> None:
    """Limit the memory and the time of this process, also if its parent is gone, and let other processes go first."""
    if sys.platform == "win32":
        return
    import os  # noqa: PLC0415
    import resource  # noqa: PLC0415  not available on Windows

    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))


compile_once: Final = lru_cache(maxsize=32)(compile_pattern)
SchemaValidator: Final = validators.extend(Draft202012Validator, {"pattern": match_pattern})

if __name__ == "__main__":
    main()

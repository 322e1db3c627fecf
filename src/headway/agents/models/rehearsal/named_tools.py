"""Calls of tools that a request names: `Use word_count with "one two"`, `call scale(3, by=2)`."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from headway.agents.models.rehearsal.reading import READ_LIMIT, CannotRun, RehearsalCall

TOOL_CALL: Final = re.compile(
    r"\b(?:use|call|run|invoke|with|using|tool)(?: the)?(?: tool)? [`'\"]?(\w{1,100})|\b(\w{1,100})\(", re.IGNORECASE
)
TEXT: Final = r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|“[^“”\n]*”"
NUMBER: Final = r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
VALUE: Final = re.compile(rf"(?<![\w.])(?:({TEXT})|({NUMBER}|true|false)(?![\w.]))")
NAMED_VALUE: Final = re.compile(rf"\b(\w{{1,60}}) ?[=:] ?(?:({TEXT})|({NUMBER}|true|false)(?![\w.]))")


def find_tool_name(step: str, names: Collection[str]) -> str:
    """Return the tool that a step calls by its name; empty if it calls none."""
    called = (first or second for first, second in TOOL_CALL.findall(step[:READ_LIMIT]))
    return next((name for name in called if name in names), "")


def build_named_call(name: str, schema: Mapping[str, Any], step: str, request: str) -> RehearsalCall | CannotRun:
    """Build the call with the values of the step or else of the whole request: named ones first, then the others in order."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = [argument for argument in schema.get("required", ()) if argument in properties]
    arguments: dict[str, Any] = {}
    for source in (step, request):
        text = source[:READ_LIMIT].replace(f"`{name}`", name)
        named = {key: parse_value(*value) for key, *value in NAMED_VALUE.findall(text)}
        arguments = {**read_object(text), **named, **arguments}
        values = [parse_value(*found) for found in VALUE.findall(NAMED_VALUE.sub(" ", text))]
        for argument in required:
            if argument not in arguments and (value := take_fitting(values, properties[argument])) is not None:
                arguments[argument] = value
    arguments = {key: value for key, value in arguments.items() if key in properties}
    if missing := [argument for argument in required if argument not in arguments]:
        return CannotRun(f"{name} needs {', '.join(missing)}, which the request does not give.")
    return RehearsalCall(name, arguments)


def read_object(text: str) -> dict[str, Any]:
    """Read the JSON object that a text contains, if there is one."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1]) if 0 <= start < end else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_value(text: str, literal: str) -> Any:
    return text[1:-1] if text else json.loads(literal)


def take_fitting(values: list[Any], schema: Mapping[str, Any]) -> Any:
    """Take the first value of the type out of the list."""
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = kinds.get(str(schema.get("type")))
    for index, value in enumerate(values):
        if kind is not None and isinstance(value, kind) and isinstance(value, bool) == (kind is bool):  # type: ignore[arg-type]
            return values.pop(index)
    return None

"""The arguments of tool calls as models write them: JSON, or text that should be JSON."""

import json
from itertools import chain
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ToolCallPart

from headway.agents.loop.step import Step
from headway.agents.tools.arguments import parse_json_text
from headway.agents.tools.results import USE_TOOL
from headway.agents.tools.toolbox import Tool, match_name
from headway.ledger.text import to_storable

MAX_JSON_DEPTH: Final = 500  # half of Python's recursion limit, and far more than any tool needs


class ResolvedCall(NamedTuple):
    name: str
    arguments: Any
    tool: Tool | None
    on_demand: bool = False


def reject_constant(constant: str) -> None:
    """Reject NaN and infinity, which Python's JSON parser accepts and other parsers do not."""
    raise ValueError(constant)


# Shared, because json.loads and json.dumps with options build a new codec on every call.
JSON_DECODER: Final = json.JSONDecoder(parse_constant=reject_constant)
JSON_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


def resolve_tool(step: Step, call: ToolCallPart) -> ResolvedCall:
    """Find the tool that a call names. A call of use_tool names another tool in its arguments."""
    tools = step.context.tools
    name, arguments = match_name(call.tool_name, tools), parse_arguments(call)
    on_demand = name == USE_TOOL and isinstance(arguments, dict) and isinstance(arguments.get("name"), str)
    if on_demand:
        name, arguments = match_name(arguments["name"], tools), parse_json_text(arguments.get("arguments"))
    return ResolvedCall(name, arguments, tools.get(name) if name != USE_TOOL else None, on_demand)


def parse_arguments(call: ToolCallPart) -> Any:
    """Parse a call's arguments. Returns the raw text if it is not valid JSON."""
    if not isinstance(call.args, str):
        return call.args or {}
    try:
        arguments = JSON_DECODER.decode(call.args) if call.args.strip() else {}
    except (ValueError, RecursionError):
        return call.args
    return call.args if is_too_deep(arguments) else arguments


def is_too_deep(value: Any) -> bool:
    """Return whether JSON is nested so deeply that encoding it could hit the recursion limit, which depends on the call stack."""
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        below = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        level = list(chain.from_iterable(below))
        if not level:
            return False
    return True


def encode_arguments(arguments: Any) -> str:
    return to_storable(JSON_ENCODER.encode({} if arguments is None else arguments))

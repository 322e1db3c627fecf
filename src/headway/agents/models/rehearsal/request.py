"""Reads a request for the rehearsal model: its steps, and the tools that it names."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from headway.agents.models.rehearsal import reading
from headway.agents.models.rehearsal.reading import READ_LIMIT, CannotRun, RecentResults, RehearsalCall, format_title, parse_json
from headway.agents.tools.results import list_callable_names
from headway.agents.tools.toolbox import to_result
from headway.agents.transcripts.transcript import Facts, find_facts, strip_attachments
from headway.ledger.text import to_storable
from headway.ledger.todo import OPEN_STATUSES

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


# The rehearsal model's view of a request: the turn's request, its plan as facts, and the tool calls so far.


PLANNING_TOOLS: Final = frozenset(("create_todo", "start_todo", "complete_todo"))
BOOKKEEPING_TOOLS: Final = PLANNING_TOOLS | {"list_todo", "manage_todos"}
CALL_ID: Final = re.compile(r"rehearsal-([0-9]{1,9})-[0-9]+-[0-9a-f]+")


def hash_key(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:10]


class RehearsalItem(NamedTuple):
    id: str
    title: str
    status: str


class RehearsalPlan(NamedTuple):
    open: list[RehearsalItem]
    ended: list[RehearsalItem]


class RehearsalRequest(NamedTuple):
    text: str
    is_delegated: bool = False  # the answer goes to another agent instead of a user


class CompletedCall(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    id: str
    result: Any


class PlannedCall(NamedTuple):
    call: RehearsalCall
    key: str  # identifies the call's purpose, so that its result can be found later


RehearsalReply = str | list[PlannedCall]


class ParsedMessages:
    def __init__(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        self.all = messages
        self.offered = frozenset(list_callable_names(parameters.function_tools))
        self.schemas = {tool.name: tool.parameters_json_schema for tool in parameters.function_tools}
        self.instructions = [part.content for part in parameters.instruction_parts or ()]
        requests = [(index, request) for index, message in enumerate(messages) if (request := find_request(message))]
        index, request = requests[-1] if requests else (0, RehearsalRequest(""))
        # The turn's request and the messages since. Earlier turns of the conversation may precede it.
        self.turn = (request, messages[index + bool(requests) :])
        self.facts = merge_facts(messages[index:])
        self.messages = [facts["steering"] for message in self.turn[1] if (facts := find_facts(message)) and "steering" in facts]
        self.plan = load_plan(self.facts)

    @property
    def request(self) -> RehearsalRequest:
        return self.turn[0]

    @cached_property
    def steps(self) -> list[str]:
        """The steps of the request, followed by the steps of later messages."""
        return [*reading.split_request(self.request.text), *self.added_steps]

    @cached_property
    def added_steps(self) -> list[str]:
        return [step for message in self.messages for step in reading.split_request(message)]

    def find_step(self, item: RehearsalItem) -> str:
        """Return the full step for an item, whose title may be shortened."""
        return next((step for step in self.steps if format_title(step) == item.title), item.title)

    @cached_property
    def completed_calls(self) -> list[CompletedCall]:
        """The turn's tool calls that are still inside the context window."""
        return list_completed_calls(self.turn[1])

    @cached_property
    def earlier_calls(self) -> list[CompletedCall]:
        return list_completed_calls(self.all[: len(self.all) - len(self.turn[1])])

    def find_call(self, tool: str, item: RehearsalItem | None = None) -> CompletedCall | None:
        calls = (call for call in reversed(self.completed_calls) if call.tool == tool)
        return next((call for call in calls if item is None or call.arguments.get("todoId") == item.id), None)

    def find_call_for(self, key: str) -> CompletedCall | None:
        suffix = f"-{hash_key(key)}"
        return next(
            (call for call in reversed(self.completed_calls) if call.id.endswith(suffix) and call.tool not in BOOKKEEPING_TOOLS),
            None,
        )

    def find_named_tool(self, step: str) -> RehearsalCall | CannotRun | None:
        """Return the call of a tool that a step names, such as `Use word_count with "one two"`. Its texts may stand anywhere in the
        request."""
        name = find_tool_name(step, self.schemas.keys() - BOOKKEEPING_TOOLS)
        return build_named_call(name, self.schemas[name], step, self.request.text) if name else None

    @property
    def recent_results(self) -> RecentResults:
        """What "the result" and "it" refer to: calls of this turn, or of the turns before it, which it may continue."""
        calls = [call for call in (*self.earlier_calls, *self.completed_calls) if call.tool not in BOOKKEEPING_TOOLS]
        path = next((str(path) for call in reversed(calls) if (path := call.arguments.get("path"))), None)
        last = next((call for call in reversed(calls) if call.tool not in reading.ACTION_TOOLS), None)
        if last is None or to_result(last.result).is_error:
            return RecentResults(None, path)
        return RecentResults(reading.describe_result(last.tool, last.arguments, last.result).value or None, path)

    @property
    def last_response(self) -> ModelResponse | None:
        return next((message for message in reversed(self.turn[1]) if isinstance(message, ModelResponse)), None)

    @property
    def next_number(self) -> int:
        return 1 + max((int(match[1]) for call in self.completed_calls if (match := CALL_ID.fullmatch(call.id))), default=0)

    @property
    def size(self) -> int:
        characters = sum(len(str(part.args if isinstance(part, ToolCallPart) else part.content)) for part in iter_parts(self.all))
        return characters + sum(map(len, self.instructions))

    @property
    def moment(self) -> datetime:
        """The time of the last message, so that the same messages always give the same answer."""
        moments = (
            part.timestamp for part in reversed(list(iter_parts(self.all))) if isinstance(part, UserPromptPart | ToolReturnPart)
        )
        return next(moments, datetime.fromtimestamp(0, UTC))


def list_completed_calls(messages: Sequence[ModelMessage]) -> list[CompletedCall]:
    parts = (part for message in messages for part in message.parts)
    results = {part.tool_call_id: parse_json(part.content) for part in parts if isinstance(part, ToolReturnPart)}
    return [
        CompletedCall(call.tool_name, parse_arguments(call), call.tool_call_id, results.get(call.tool_call_id, reading.NO_RESULT))
        for message in messages
        if isinstance(message, ModelResponse)
        for call in message.tool_calls
    ]


SpokenPart = UserPromptPart | ToolReturnPart | ToolCallPart | TextPart


def iter_parts(messages: Iterable[ModelMessage]) -> Iterable[SpokenPart]:
    return (part for message in messages for part in message.parts if isinstance(part, SpokenPart))


def parse_arguments(call: ToolCallPart) -> dict[str, Any]:
    arguments = parse_json(call.args)
    return arguments if isinstance(arguments, dict) else {}


def merge_facts(messages: Iterable[ModelMessage]) -> Facts:
    """Merge the facts of all messages. Later ones replace earlier ones, and a person's message lifts the step limit."""
    merged: Facts = {}
    for message in messages:
        facts = find_facts(message) or {}
        if "steering" in facts:
            merged.pop("last_call", None)
        merged.update(facts)
    return merged


def load_plan(facts: Facts) -> RehearsalPlan | None:
    if "plan" not in facts:
        return None
    items = [RehearsalItem(**item) for item in facts["plan"]]
    open_items = [item for item in items if item.status in OPEN_STATUSES]
    return RehearsalPlan(open_items, [item for item in items if item.status not in OPEN_STATUSES])


def find_request(message: ModelMessage) -> RehearsalRequest | None:
    """Return the request that a user's message or a delegation makes. Text next to tool results comes from the runtime."""
    if not isinstance(message, ModelRequest) or not all(isinstance(part, UserPromptPart) for part in message.parts):
        return None
    facts = find_facts(message)
    if facts is not None and "request" in facts:
        return RehearsalRequest(facts["request"])
    if facts is not None:
        return RehearsalRequest(facts["task"], is_delegated=True) if "task" in facts else None
    prompts = [format_prompt(part) for part in message.parts if isinstance(part, UserPromptPart)]
    return RehearsalRequest(strip_attachments("\n".join(prompts)))


def format_prompt(part: UserPromptPart) -> str:
    pieces = [part.content] if isinstance(part.content, str) else part.content
    return to_storable("\n".join(piece for piece in pieces if isinstance(piece, str)))

"""The journaled messages of a run, as the model layer knows them, and the part of them that is sent."""

import json
import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from uuid import uuid4

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from headway.agents.toolbox import match_name
from headway.ledger.events import json_text
from headway.ledger.framing import unframed
from headway.ledger.run import Message, Run
from headway.storage import message_store, run_store
from headway.storage.transaction import Transaction

WINDOW: Final = 10  # messages that go to the model, the turn's request among them
NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
NAME_LIMIT: Final = 64


class Entry(NamedTuple):
    n: int
    message: ModelMessage
    sent: bool = True


def load(tx: Transaction, run: Run) -> list[Entry]:
    """What was said so far of what it is at."""
    found = run_store.messages(tx, run.tenant_id, run.id, run.begins_at)
    return [Entry(n, decode(message), sent) for n, message, sent in found]


def history(tx: Transaction, tenant_id: int, conversation_id: int, turn_id: str) -> list[ModelMessage]:
    """What was said in the conversation before this turn. Its tool calls are over, and nobody pays for them again."""
    first = message_store.first_of_turn(tx, tenant_id, conversation_id, turn_id)
    said = message_store.page(tx, tenant_id, conversation_id, WINDOW, first) if first is not None else []
    return [as_sent(message) for message in said]


def as_sent(message: Message) -> ModelMessage:
    said = unframed(message.content)
    return user(said) if message.role == "user" else ModelResponse([TextPart(said)])


def user(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def spoken(message: ModelMessage) -> str:
    """What a model said, in words."""
    return message.text or "" if isinstance(message, ModelResponse) else ""


def encode(message: ModelMessage) -> str:
    """As it is stored. What we say ourselves has two plain shapes, written by hand: the general way takes longer than the rest
    of a step. What a model said may hold anything."""
    if isinstance(message, ModelRequest):
        return json_text([{"parts": [plain_part(part) for part in message.parts], "kind": "request"}])
    return ModelMessagesTypeAdapter.dump_json([message], exclude_none=True).decode()


def plain_part(part: ModelRequestPart) -> dict[str, Any]:
    if isinstance(part, UserPromptPart):
        return {"content": part.content, "timestamp": part.timestamp.isoformat(), "part_kind": "user-prompt"}
    assert isinstance(part, ToolReturnPart)
    return {
        "tool_name": part.tool_name,
        "content": part.content,
        "tool_call_id": part.tool_call_id,
        "timestamp": part.timestamp.isoformat(),
        "part_kind": "tool-return",
    }


def decode(stored: str) -> ModelMessage:
    return ModelMessagesTypeAdapter.validate_json(stored)[0]


def window(before: Sequence[ModelMessage], transcript: Sequence[Entry]) -> list[ModelMessage]:
    """The newest messages, at most ten. The turn's request is always one of them, and no tool result is without its call."""
    sent = (sendable(entry.message) for entry in reversed(transcript) if entry.sent)  # a long one is not looked at as a whole
    recent = list(islice(sent, WINDOW + 1))[::-1]
    if len(recent) > WINDOW:  # the request has been left behind
        request = next(entry.message for entry in transcript if entry.sent)
        return [request, *after(recent[2:], is_tool_result)]
    messages = [*before, *recent][-WINDOW:]
    return after(messages, lambda message: isinstance(message, ModelResponse))  # some providers want a user to speak first


def sendable(message: ModelMessage) -> ModelMessage:
    """A tool call that was cut off is sent as text: as a call it would need a result, and its arguments are not JSON yet."""
    if isinstance(message, ModelResponse) and message.finish_reason == "length":
        return ModelResponse([TextPart(said_so_far(message))])
    return message


def said_so_far(response: ModelResponse) -> str:
    return "\n".join([*([response.text] if response.text else []), *(str(call.args) for call in response.tool_calls)])


def after(messages: list[ModelMessage], unwanted: Callable[[ModelMessage], bool]) -> list[ModelMessage]:
    """The messages without the unwanted ones in front."""
    start = next((place for place, message in enumerate(messages) if not unwanted(message)), len(messages))
    return messages[start:]


def is_tool_result(message: ModelMessage) -> bool:
    return any(isinstance(part, ToolReturnPart) for part in message.parts)


def cleaned(response: ModelResponse, offered: Container[str] = ()) -> ModelResponse:
    """The response with nothing in it that cannot be stored, or that providers do not take back: models send lone
    surrogates and NUL characters, too, names that no tool can have, and calls with no id or with another's. Calls have
    the names under which the tools were offered."""
    taken: set[str] = set()
    return replace(response, parts=[clean_part(part, taken, offered) for part in response.parts])


def clean_part(part: ModelResponsePart, taken: set[str], offered: Container[str]) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        return replace(part, content=storable(part.content))
    if isinstance(part, ToolCallPart):
        call = cast("ToolCallPart[Any]", part)
        name = match_name(NOT_IN_NAMES.sub("_", call.tool_name)[:NAME_LIMIT] or "_", offered)
        if not isinstance(call.args, str | dict | None):
            raise TypeError(f"arguments of {name} are a {type(call.args).__name__}")
        arguments = storable(call.args) if isinstance(call.args, str) else json.dumps(call.args or {})
        return replace(call, tool_name=name, tool_call_id=own_id(storable(call.tool_call_id), taken), args=arguments)
    return part


def own_id(wanted: str, taken: set[str]) -> str:
    call_id = wanted if wanted and wanted not in taken else f"call_{uuid4().hex}"
    taken.add(call_id)
    return call_id


def storable(text: str) -> str:
    """The text with a mark where something cannot be stored. Halves of a character that came apart are put together."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def storable_all(value: Any) -> Any:
    """With nothing in it that cannot be stored: what is escaped in JSON passes for harmless until it is read."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_all(one) for one in value]
        case dict():
            return {storable(key): storable_all(one) for key, one in value.items()}
    return value

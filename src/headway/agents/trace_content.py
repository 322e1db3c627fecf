"""The content of messages and tool calls as attributes of spans, for installations that opt in.

The JSON follows the schemas of OpenTelemetry's semantic conventions for generative AI. Secrets are removed from every text, long
texts are cut, and of a long conversation only the newest messages are kept.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from headway.agents.tracing import Attributes
from headway.ledger.redaction import Redactor

TEXT_LIMIT: Final = 8_000  # characters of one text
MESSAGES_LIMIT: Final = 64_000  # characters of all messages of a request
MAX_DEPTH: Final = 20

Part = dict[str, Any]
ChatMessage = dict[str, Any]


def describe_request(messages: Sequence[ModelMessage], parameters: ModelRequestParameters, redact: Redactor) -> Attributes:
    """Describe a request: the newest messages that fit, the instructions and the tools."""
    chat: list[ChatMessage] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            chat.append({"role": "assistant", "parts": describe_answer_parts(message)})
        else:
            chat += describe_request_parts(message)
    kept: list[str] = []
    size = 0
    for one in reversed(chat):
        encoded = encode(one, redact)
        size += len(encoded)
        if size > MESSAGES_LIMIT and kept:
            break
        kept.append(encoded)
    attributes: dict[str, str | int] = {"gen_ai.input.messages": f"[{','.join(reversed(kept))}]"}
    if len(kept) < len(chat):
        attributes["headway.input.messages.left_out"] = len(chat) - len(kept)
    if parameters.instruction_parts:
        instructions = [to_text_part(part.content) for part in parameters.instruction_parts]
        attributes["gen_ai.system_instructions"] = encode(instructions, redact)
    if parameters.function_tools:
        tools = [{"type": "function", "name": tool.name, "description": tool.description} for tool in parameters.function_tools]
        attributes["gen_ai.tool.definitions"] = encode(tools, redact)
    return attributes


def describe_answer(response: ModelResponse, redact: Redactor) -> Attributes:
    message = {"role": "assistant", "parts": describe_answer_parts(response), "finish_reason": response.finish_reason or "stop"}
    return {"gen_ai.output.messages": encode([message], redact)}


def describe_task(task: str, redact: Redactor) -> Attributes:
    """Describe what an agent was asked to do."""
    return {"gen_ai.input.messages": encode([{"role": "user", "parts": [to_text_part(task)]}], redact)}


def describe_call(arguments: Any, result: Any, redact: Redactor) -> Attributes:
    return {"gen_ai.tool.call.arguments": encode(arguments, redact), "gen_ai.tool.call.result": encode(result, redact)}


def describe_request_parts(request: ModelRequest) -> list[ChatMessage]:
    """Return one message for each run of parts with the same role."""
    pairs = [(role, part) for one in request.parts for role, part in describe_request_part(one)]
    return [{"role": role, "parts": [part for _, part in group]} for role, group in groupby(pairs, key=lambda pair: pair[0])]


def describe_request_part(part: Any) -> list[tuple[str, Part]]:
    match part:
        case SystemPromptPart(content=text):
            return [("system", to_text_part(text))]
        case UserPromptPart(content=str(text)):
            return [("user", to_text_part(text))]
        case UserPromptPart(content=items):
            return [("user", to_text_part(describe_item(item))) for item in items]
        case ToolReturnPart():
            response = {"type": "tool_call_response", "id": part.tool_call_id, "response": part.content}
            return [("tool", response)]
        case RetryPromptPart(tool_name=str(), tool_call_id=call_id):
            return [("tool", {"type": "tool_call_response", "id": call_id, "response": part.model_response()})]
        case RetryPromptPart():
            return [("user", to_text_part(part.model_response()))]
    return []


def describe_item(item: Any) -> str:
    """Describe an item of a message. Files are named by their type and size."""
    if isinstance(item, BinaryContent):
        return f"[{item.media_type}, {len(item.data):,} bytes]"
    return item if isinstance(item, str) else f"[{type(item).__name__}]"


def describe_answer_parts(response: ModelResponse) -> list[Part]:
    parts: list[Part] = []
    for part in response.parts:
        match part:
            case TextPart(content=text):
                parts.append(to_text_part(text))
            case ThinkingPart(content=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolCallPart():
                parts.append({"type": "tool_call", "id": part.tool_call_id, "name": part.tool_name, "arguments": part.args})
    return parts


def to_text_part(text: str) -> Part:
    return {"type": "text", "content": text}


def encode(value: Any, redact: Redactor) -> str:
    return json.dumps(clean(value, redact), ensure_ascii=False, default=lambda other: redact(str(other))[:TEXT_LIMIT])


def clean(value: Any, redact: Redactor, depth: int = 0) -> Any:
    """Return the value with every text redacted and cut."""
    if isinstance(value, str):
        text = redact(value)
        return text if len(text) <= TEXT_LIMIT else f"{text[:TEXT_LIMIT]}… [{len(text) - TEXT_LIMIT:,} more characters]"
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {redact(str(name))[:TEXT_LIMIT]: clean(item, redact, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item, redact, depth + 1) for item in value]
    return value

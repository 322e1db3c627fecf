"""The journaled messages of a run as model messages."""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import replace
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

from headway.agents.tools.toolbox import match_name
from headway.agents.transcripts.attachments import CanRead, attach
from headway.agents.transcripts.facts import Facts, find_facts
from headway.agents.transcripts.tokens import estimate_message, get_reported_tokens
from headway.ledger.attachment import Attachment
from headway.ledger.events import to_json
from headway.ledger.run import Run
from headway.ledger.text import to_storable
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

INVALID_NAME_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_-]")
NAME_LIMIT: Final = 64


class TranscriptEntry(NamedTuple):
    """A message, with what every step looks up in all messages of a run."""

    n: int
    message: ModelMessage
    sent: bool
    tokens: int  # estimated
    reported_tokens: int  # of a response and its request, as the provider counted them; 0 if it did not
    facts: Facts  # empty for a user's or a model's message
    is_cut_off: bool  # by the length limit

    @classmethod
    def of(cls, n: int, message: ModelMessage, *, sent: bool = True) -> "TranscriptEntry":
        tokens = estimate_message(message)
        if isinstance(message, ModelResponse):
            return cls(n, message, sent, tokens, get_reported_tokens(message), {}, message.finish_reason == "length")
        return cls(n, message, sent, tokens, 0, find_facts(message) or {}, is_cut_off=False)


def load(tx: Transaction, run: Run, attachments: Sequence[Attachment] = ()) -> list[TranscriptEntry]:
    """Load the messages of the run's current task. The attachments belong to the first one, which does not store them."""
    rows = run_store.list_messages(tx, run.tenant_id, run.id, run.begins_at)
    entries = [TranscriptEntry.of(n, decode(message), sent=sent) for n, message, sent in rows]
    return attach_to_first(entries, attachments)


def attach_to_first(
    entries: list[TranscriptEntry], attachments: Sequence[Attachment], can_read: CanRead | None = None
) -> list[TranscriptEntry]:
    """Add the turn's attachments to the message that opens the run."""
    if not attachments or not entries:
        return entries
    first, *rest = entries
    return [TranscriptEntry.of(first.n, attach(first.message, attachments, can_read), sent=first.sent), *rest]


def build_user_message(text: str) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)])


def get_text(message: ModelMessage) -> str:
    """Return the text of a model's response; empty for other messages."""
    return message.text or "" if isinstance(message, ModelResponse) else ""


def encode(message: ModelMessage) -> str:
    """Encode a message for storage.

    Our own requests without images have two simple shapes, which are encoded by hand, because pydantic takes longer than the rest
    of a step. Responses may contain anything.
    """
    if isinstance(message, ModelRequest) and not any(map(has_files, message.parts)):
        metadata = {"metadata": message.metadata} if message.metadata is not None else {}
        return to_json([{"parts": [encode_part(part) for part in message.parts], "kind": "request", **metadata}])
    return ModelMessagesTypeAdapter.dump_json([message], exclude_none=True).decode()


def has_files(part: ModelRequestPart) -> bool:
    return isinstance(part, UserPromptPart) and not isinstance(part.content, str)


def encode_part(part: ModelRequestPart) -> dict[str, Any]:
    if isinstance(part, UserPromptPart):
        return {"content": part.content, "timestamp": part.timestamp.isoformat(), "part_kind": "user-prompt"}
    assert isinstance(part, ToolReturnPart)
    return {
        "tool_name": part.tool_name,
        "content": part.content,
        "tool_call_id": part.tool_call_id,
        "timestamp": part.timestamp.isoformat(),
        "part_kind": "tool-return",
        **({"metadata": part.metadata} if part.metadata is not None else {}),
    }


def decode(stored: str) -> ModelMessage:
    return ModelMessagesTypeAdapter.validate_json(stored)[0]


def clean_response(response: ModelResponse, offered: Container[str] = ()) -> ModelResponse:
    """Clean a response so that it can be stored and sent back to any provider.

    Models send lone surrogates, NUL characters, invalid tool names, and calls with a missing or duplicate id. Tool names are
    matched to those that were offered.
    """
    used_ids: set[str] = set()
    parts = [clean_part(part, used_ids, offered) for part in response.parts]
    is_clean = all(cleaned is part for cleaned, part in zip(parts, response.parts, strict=True))
    return response if is_clean else replace(response, parts=parts)


def clean_part(part: ModelResponsePart, used_ids: set[str], offered: Container[str]) -> ModelResponsePart:
    if isinstance(part, TextPart | ThinkingPart):
        content = to_storable(part.content)
        return part if content == part.content else replace(part, content=content)
    if isinstance(part, ToolCallPart):
        call = cast("ToolCallPart[Any]", part)
        name = match_name(INVALID_NAME_CHARACTER.sub("_", call.tool_name[:NAME_LIMIT]) or "_", offered)
        if not isinstance(call.args, str | dict | None):
            raise TypeError(f"arguments of {name} are a {type(call.args).__name__}")
        arguments = to_storable(call.args) if isinstance(call.args, str) else json.dumps(call.args or {})
        call_id = ensure_unique_id(to_storable(call.tool_call_id), used_ids)
        if (name, arguments, call_id) == (call.tool_name, call.args, call.tool_call_id):
            return part
        return replace(call, tool_name=name, tool_call_id=call_id, args=arguments)
    return part


def ensure_unique_id(proposed_id: str, used_ids: set[str]) -> str:
    call_id = proposed_id if proposed_id and proposed_id not in used_ids else f"call_{uuid4().hex}"
    used_ids.add(call_id)
    return call_id

"""The transcript of a run: messages with their facts, attachments and sizes in tokens."""

import json
import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from string import ascii_letters
from typing import Any, Final, NamedTuple, TypedDict, cast
from uuid import uuid4

from pydantic_ai.messages import (
    BaseToolCallPart,
    BinaryContent,
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
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters

from headway.agents.tools.toolbox import match_name
from headway.ledger.attachment import BINARY_TYPES, PDF, Attachment
from headway.ledger.errors import AttachmentRefused
from headway.ledger.events import to_json
from headway.ledger.framing import escape_frames, format_frame, format_inline
from headway.ledger.run import Run
from headway.ledger.text import to_storable
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

METADATA_KEY: Final = "headway"


class PlanItemFacts(TypedDict):
    id: str
    title: str
    status: str


class SubGoalFacts(TypedDict):
    id: str
    status: str
    depends_on: list[str]
    description: str
    outcome: str
    divergence: str | None


class CompactionFacts(TypedDict):
    """The effect of a compaction on the messages before it. Messages are named by their number in the transcript."""

    shrunk_before: int  # older tool results are sent as stubs
    noted_before: int | None  # older messages are replaced by this message; None if it replaces none
    results: list[tuple[str, str]]  # the call and the handle of each result that the note replaces
    scale: float  # reported tokens per estimated token, until the next response reports usage


class Facts(TypedDict, total=False):
    """Empty if a message, such as a refusal, states nothing that its model would have to look up in it."""

    request: str  # the turn's request, repeated
    task: str  # a sub-agent's task, without its envelope and context
    plan: list[PlanItemFacts]  # the turn's plan
    plan_digest: str  # changes with everything that the plan shows; missing if the message does not show all that changed
    item_digests: dict[str, str]  # the same for each item, by id
    compaction: CompactionFacts
    refused_tokens: int  # the provider refused a request of this size as too long
    guide: bool  # the message shows the workspace's AGENTS.md
    steering: str  # a person's message to the running agent
    returned_calls: list[str]  # the digests of quoted calls about which the message asks
    focus: list[int]  # the todos that the context which begins here is about
    last_call: str  # the outcome with which the turn ends after the answer to this message
    stretch: str  # to summarise in a note
    answer: str  # to assess
    cut_off: str  # to summarise
    goal: str  # to plan
    sub_goals: list[SubGoalFacts]  # of the goal to replan or to judge
    outcome: str  # of the sub-goal to evaluate


def build_runtime_message(text: str, facts: Facts | None = None) -> ModelRequest:
    return ModelRequest([UserPromptPart(text)], metadata=to_metadata(facts))


def to_metadata(facts: Facts | None = None) -> dict[str, Any]:
    return {METADATA_KEY: facts or {}}


def find_facts(message: ModelMessage) -> Facts | None:
    """Return the facts of a message from the runtime; None for a user's or a model's."""
    metadata = message.metadata if isinstance(message, ModelRequest) else None
    return metadata.get(METADATA_KEY) if metadata else None


# A turn's attachments in the message that opens its run: text files as text, images and PDFs as content for models that
# read them.


FRAME = "ATTACHED FILE"
IMAGE_TOKENS = 1_500
PDF_BYTES_PER_TOKEN = 100
TEXT_BYTES_PER_TOKEN = 3

CanRead = Callable[[Attachment], bool]


def attach(message: ModelMessage, attachments: Sequence[Attachment], can_read: CanRead | None = None) -> ModelMessage:
    """Add the attachments to a user's message. Files that the model cannot read are only named; by default it reads all."""
    if not attachments:
        return message
    assert isinstance(message, ModelRequest)
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert isinstance(part.content, str)
    return replace(message, parts=[replace(part, content=to_prompt_content(part.content, attachments, can_read))])


def to_prompt_content(text: str, attachments: Sequence[Attachment], can_read: CanRead | None = None) -> str | list[UserContent]:
    """Return the text followed by the attachments: one text if all of them are text, otherwise a list."""
    texts = [text]
    content: list[UserContent] = []
    for attachment in attachments:
        if attachment.is_text:
            texts.append(render_frame(attachment, escape_frames(attachment.data.decode("utf-8-sig"))))
        elif can_read is None or can_read(attachment):
            texts.append(render_frame(attachment))
            content += ["\n\n".join(texts), BinaryContent(attachment.data, media_type=attachment.media_type)]
            texts = []
        else:
            texts.append(render_frame(attachment, "(not shown: this model cannot read such files)"))
    if not content:
        return "\n\n".join(texts)
    return [*content, "\n\n".join(texts)] if texts else content


def render_frame(attachment: Attachment, *lines: str) -> str:
    head = f"{format_inline(attachment.name)} ({attachment.media_type})"
    return format_frame(FRAME, [head, *lines], f"END {FRAME}")


def strip_attachments(text: str) -> str:
    """Return a message's own text, without the attachments after it."""
    return split_attachments(text)[0]


def split_attachments(text: str) -> tuple[str, str]:
    """Split a message into its own text and its attachments."""
    own_text, _, attached = text.partition(f"\n\n[{FRAME}]\n")
    return own_text, attached


def can_model_read(model: Model, attachment: Attachment) -> bool:
    """Whether the model may read the file, as far as its profile says. A profile that says nothing leaves it to the provider."""
    profile = model.profile
    if attachment.is_text:
        return True
    if attachment.media_type != PDF:
        return profile.get("supports_image_input", True)
    is_listed = PDF in profile.get("supported_document_media_types", (PDF,))
    return profile.get("supports_document_input", True) and is_listed


def check_readable(name: str, model: Model, attachments: Sequence[Attachment]) -> None:
    """Raise AttachmentRefused if the model is known not to read one of the files."""
    for attachment in attachments:
        if not can_model_read(model, attachment):
            raise AttachmentRefused(
                f"The model {name} does not accept {attachment.name!r} ({attachment.media_type}). Nothing was started. "
                "Leave the file out, or set HEADWAY_MODEL to a model that accepts it."
            )


def estimate_attachment_tokens(media_type: str, size: int) -> int:
    """Estimate on the safe side how many tokens a file of this many bytes takes."""
    if media_type == PDF:
        return IMAGE_TOKENS + size // PDF_BYTES_PER_TOKEN
    return IMAGE_TOKENS if media_type in BINARY_TYPES else size // TEXT_BYTES_PER_TOKEN + 1


# Estimates of how many tokens a text takes, on the safe side.


CHARACTERS_PER_TOKEN: Final = 3  # English prose and code have about four
MOST_CHARACTERS_PER_TOKEN: Final = 6  # on average over a message
BYTES_PER_TOKEN: Final = 2  # of digits, signs and other scripts
LETTERS: Final = (ascii_letters + " \n").encode()
TOKENIZER_MARGIN: Final = 1.1
MESSAGE_TOKENS: Final = 8  # the frame of a message or part: role, names, ids
FILE_TOKENS: Final = 1_500  # a file of which only the address is known


@cache
def load_tokenizer() -> Callable[[str], list[int]] | None:
    """Load the tokenizer of the optional extra `tokens`. None if it is not installed."""
    try:
        from bpe_openai import get_encoding  # noqa: PLC0415  an optional extra
    except ImportError:
        return None
    encode: Callable[[str], list[int]] = get_encoding("o200k_base").encode_ordinary
    return encode


def estimate_text(text: str) -> int:
    """Count a text's tokens, or estimate them: three letters or spaces per token, and two bytes of anything else.

    The tokenizer is OpenAI's, and other models split text into more tokens, hence the margin.
    """
    if tokenize := load_tokenizer():
        return int(len(tokenize(text)) * TOKENIZER_MARGIN) + 1
    encoded = text.encode("utf-8", "replace")
    others = len(encoded.translate(None, LETTERS))
    return ceil((len(encoded) - others) / CHARACTERS_PER_TOKEN) + ceil(others / BYTES_PER_TOKEN) + 1


def estimate_message(message: ModelMessage) -> int:
    return sum(MESSAGE_TOKENS + estimate_part(part) for part in message.parts)


def estimate_part(part: Any) -> int:
    content = get_content(part)
    if isinstance(content, str):
        return estimate_text(content)
    if isinstance(content, dict):
        return estimate_text(json.dumps(content, ensure_ascii=False))
    pieces: Iterable[Any] = content if isinstance(content, list | tuple) else ()
    return sum(estimate_text(piece) if isinstance(piece, str) else estimate_file(piece) for piece in pieces)


def count_fewest_tokens(messages: Iterable[ModelMessage]) -> int:
    """Count the fewest tokens that any tokenizer needs for the text of messages in a natural language or a program."""
    contents = (get_content(part) for message in messages for part in message.parts)
    return sum(count_characters(content) for content in contents) // MOST_CHARACTERS_PER_TOKEN


def count_characters(content: Any) -> int:
    pieces = content if isinstance(content, list | tuple) else [content]
    return sum(len(piece) for piece in pieces if isinstance(piece, str))


def get_content(part: Any) -> Any:
    return part.args if isinstance(part, BaseToolCallPart) else getattr(part, "content", None)


def estimate_file(content: Any) -> int:
    return estimate_attachment_tokens(content.media_type, len(content.data)) if isinstance(content, BinaryContent) else FILE_TOKENS


def estimate_parameters(parameters: ModelRequestParameters) -> int:
    """Estimate the tokens of the instructions and the tool schemas."""
    instructions = sum(estimate_text(part.content) for part in parameters.instruction_parts or ())
    schemas = (
        f"{tool.name}{tool.description or ''}{json.dumps(tool.parameters_json_schema)}" for tool in parameters.function_tools
    )
    return instructions + sum(MESSAGE_TOKENS + estimate_text(schema) for schema in schemas)


def get_reported_tokens(response: ModelResponse) -> int:
    """Return the tokens of a request and its response as the provider counted them; 0 if it did not."""
    usage = response.usage
    return usage.input_tokens + usage.output_tokens if usage.input_tokens else 0


# The journaled messages of a run as model messages.


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
    matched to the tools that were offered.
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

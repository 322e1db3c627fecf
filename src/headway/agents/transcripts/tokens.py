"""Estimates of how many tokens a text takes, on the safe side."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from math import ceil
from string import ascii_letters
from typing import Any, Final

from pydantic_ai.messages import BaseToolCallPart, BinaryContent, ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters

from headway.agents.transcripts.attachments import estimate_attachment_tokens

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

"""What the encoders of both APIs share: the answer to one request, as a stream and as a document."""

from typing import Any, NamedTuple, Protocol

from headway.actions.spending import Usage
from headway.surfaces.http.problems import build_openai_error
from headway.surfaces.http.routes.openai.answers import AnswerEnd, AnswerTranslator

Document = dict[str, Any]


class AnswerHead(NamedTuple):
    """What is known when a turn has begun."""

    turn_id: str
    conversation_id: int
    created: int  # in epoch seconds
    model: str
    metadata: dict[str, str]

    @property
    def hex_id(self) -> str:
        return self.turn_id.replace("-", "")


class AnswerEncoder(Protocol):
    answer: AnswerTranslator

    @property
    def translator(self) -> Any: ...

    def encode(self, kind: str, data: Document) -> str:
        """Encode an event of the turn, except its end."""

    def encode_end(self, end: AnswerEnd, usage: Usage) -> str:
        """Encode the end of the stream."""

    def encode_error(self, message: str, code: str) -> str:
        """Encode an error that ends the stream."""

    def build_document(self, end: AnswerEnd, usage: Usage) -> Document:
        """Build the answer of a request that does not stream."""


def build_error(message: str, code: str) -> Document:
    return build_openai_error(500, message, code)


def split_usage(usage: Usage, names: tuple[str, str]) -> Document:
    """Describe the tokens of a turn, of all its model calls together. The names are those of input and output."""
    given, made = names
    return {
        f"{given}_tokens": usage.input_tokens,
        f"{made}_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        f"{given}_tokens_details": {"cached_tokens": usage.cached_tokens},
        f"{made}_tokens_details": {"reasoning_tokens": 0},
    }

"""The transport behind the library's methods: to actions in this process, or to a server."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headway.ledger.attachment import Attachment, build_attachment, check_attachments
from headway.ledger.errors import Invalid, UnsafeText
from headway.ledger.run import TurnMode
from headway.ledger.text import check_text
from headway.ledger.todo import UNSET
from headway.storage.home_files import read_attachment

if TYPE_CHECKING:
    from headway.values.events import TypedEvent

Document = dict[str, Any]

PARAMETER_LIMIT: Final = 4_000  # characters of one part of a URL


class AskedMessage(NamedTuple):
    """A message for an agent to answer."""

    content: str
    conversation: int | str | None = None  # an id, a key, or None for a new conversation
    mode: TurnMode | None = None
    attachments: tuple[Path | bytes, ...] = ()
    continues: str = ""


class RequestTransport(Protocol):
    """Carries requests. They are named like the routes of the REST API, and have their documents."""

    async def send(
        self,
        route: str,
        *path: int | str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        is_slow: bool = False,
    ) -> Document:
        """Send a request and return its answer, or {} without one. `is_slow` allows minutes, for requests that run checks."""
        ...

    async def download(self, route: str, *path: int | str, query: Mapping[str, Any] | None = None) -> bytes:
        """Return the content of a file."""
        ...

    async def begin_turn(self, message: AskedMessage) -> str:
        """Start a turn and return its id."""
        ...

    async def answer(self, message: AskedMessage) -> str:
        """Start a turn, wait until it has ended and return its id."""
        ...

    def stream_answer(self, message: AskedMessage) -> AsyncGenerator["TypedEvent"]:
        """Start a turn and yield its events from the first one on. The first is `turn_started`."""
        ...

    def follow_turn(self, turn_id: str, after: int | None) -> AsyncGenerator["TypedEvent"]:
        """Yield the events of a turn, from its start or after a number, until it ends."""
        ...

    def follow(self, conversation_id: int | None, after: int | None) -> AsyncGenerator["TypedEvent"]:
        """Yield new events, or those after a number and then new ones, until the caller leaves."""
        ...


def encode_path(parts: tuple[int | str, ...]) -> tuple[str, ...]:
    """Encode the ids and names in a path as text."""
    texts = tuple(check_text(str(part), "a part of the path", PARAMETER_LIMIT) for part in parts)
    if any(text in ("", ".", "..") or "/" in text for text in texts):
        raise Invalid("An id or a name must not be empty, `.` or `..`, and must not contain `/`.")
    return texts


def encode_key(key: str) -> str:
    """Refuse a key that is not a string. An empty list would be no parameter, and every conversation would match."""
    if not isinstance(key, str):
        raise Invalid("The key of a conversation must be a string.")
    return key


def encode_query(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Encode the parameters of a query as text. A list is a parameter that is repeated."""
    pairs = [(name, one) for name, value in query.items() for one in (value if isinstance(value, list) else [value])]
    texts = [(name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in pairs]
    return tuple((name, check_text(text, name, PARAMETER_LIMIT)) for name, text in texts)


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode a body as JSON."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        raise UnsafeText("The request contains a lone surrogate, which is not valid text.") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"The request cannot be written as JSON: {error}.") from None


def encode_checks(checks: Any) -> Any:
    """Encode a list of checks for a body. Anything else is sent as it is, and refused as in a request of REST."""
    if isinstance(checks, str | Mapping) or not isinstance(checks, Iterable):
        return checks
    return [dict(check) if isinstance(check, Mapping) else check for check in checks]


def present(**fields: Any) -> Document:
    """Return the fields that were given."""
    return {name: value for name, value in fields.items() if value is not UNSET}


def join_explanation(answer: Any) -> str:
    """Return the lines of an explanation, oldest first."""
    return "\n".join(str(line["text"]) for line in answer["why"])


def drop_none(**fields: Any) -> Document:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def to_files(attachments: Iterable[Path | str | bytes]) -> tuple[Path | bytes, ...]:
    return tuple(Path(source) if isinstance(source, str) else source for source in attachments)


async def read_files(sources: Sequence[Path | bytes]) -> list[Attachment]:
    """Read the attachments of a message. Contents without a file are named by their number."""
    files = [
        build_attachment(f"file {n}", source) if isinstance(source, bytes) else await asyncio.to_thread(read_attachment, source)
        for n, source in enumerate(sources, 1)
    ]
    check_attachments(files)
    return files

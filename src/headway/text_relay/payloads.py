"""The payloads of notifications about live text. Any role that can connect to the database can send some, so they are checked."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from headway.ledger.events import to_json

READERS = "headway_readers"  # the channel on which processes announce their readers
TEXT_PREFIX = "headway_text_"  # of the channels that receive text, one per listening connection
MAX_PAYLOAD_BYTES = 7_900  # Postgres accepts less than 8,000
READERS_PER_PAYLOAD = 150
MAX_CHANNEL_LENGTH = 63

ReaderKey = tuple[int, int]  # tenant and conversation; TENANT_WIDE stands for all conversations of the tenant


class Notification(NamedTuple):
    channel: str
    payload: str


class ReaderNotice(NamedTuple):
    """What the readers of one process have begun to follow, or still follow, and what they no longer follow."""

    channel: str
    follows: Sequence[ReaderKey]
    left: Sequence[ReaderKey]


class TextNotice(NamedTuple):
    """Consecutive pieces of an answer, numbered from `first`. Without pieces, it withdraws the answer so far."""

    source: str  # names the process that writes the answer, and its attempt to answer
    tenant_id: int
    conversation_id: int
    turn_id: str
    run_id: str
    step: int  # the number that the answer will have in the transcript
    first: int
    pieces: Sequence[str]


def encode_readers(channel: str, follows: Iterable[ReaderKey], left: Iterable[ReaderKey]) -> Iterator[Notification]:
    marked = [*((key, True) for key in follows), *((key, False) for key in left)]
    for start in range(0, len(marked), READERS_PER_PAYLOAD):
        part = marked[start : start + READERS_PER_PAYLOAD]
        keys = [key for key, is_here in part if is_here], [key for key, is_here in part if not is_here]
        yield Notification(READERS, to_json([channel, *keys]))


def encode_text(notice: TextNotice) -> tuple[str, int]:
    """Encode as many pieces as fit into one payload, and return their number with it. A piece of MAX_PIECE characters fits."""
    size, count = len(to_json(notice._replace(pieces=())).encode()), 0
    for piece in notice.pieces:
        size += len(to_json(piece).encode()) + 1
        if size > MAX_PAYLOAD_BYTES:
            break
        count += 1
    return to_json(notice._replace(pieces=notice.pieces[:count])), count


def decode_readers(payload: str) -> ReaderNotice | None:
    """Return None if another program sent this."""
    match parse(payload):
        case [str(channel), list(follows), list(left)] if is_text_channel(channel) and all(map(is_key, [*follows, *left])):
            return ReaderNotice(channel, [(key[0], key[1]) for key in follows], [(key[0], key[1]) for key in left])
    return None


def decode_text(payload: str) -> TextNotice | None:
    """Return None if another program sent this."""
    match parse(payload):
        case [str(), int(), int(), str(), str(), int(), int(), list(pieces)] as fields if all(
            isinstance(piece, str) for piece in pieces
        ):
            return TextNotice(*fields)
    return None


def parse(payload: str) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def is_key(value: Any) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [int, int]


def is_text_channel(name: str) -> bool:
    suffix = name.removeprefix(TEXT_PREFIX)
    return len(name) <= MAX_CHANNEL_LENGTH and suffix != name and suffix.isascii() and suffix.isalnum()

"""Live text between processes, on Postgres: what this process sends, what it receives, and in which form."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import uuid4

from headway.actions.turns.live_text import LiveText, RemotePieces
from headway.feed import Feed, RemoteText
from headway.ledger.errors import StorageError
from headway.ledger.events import encode_json, to_json
from headway.ledger.run import Run
from headway.ledger.scope import TENANT_WIDE
from headway.storage.postgres.announcements import Subscriber
from headway.storage.retry import repeat_forever

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
    """The conversations that the readers of one process begin to follow, still follow, or no longer follow."""

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


# The text that this process writes for readers of other processes.


INTERVAL_S = 0.1  # at least this long between two notifications to one process about one answer
MAX_BATCH = 20  # notifications per interval, of all answers together
EXPIRES_S = 12.0  # readers that were not announced again within this time are gone
MAX_READERS = 10_000  # announced readers of other processes that are kept
NO_STEP = -1  # of a withdrawal


class OutgoingAnswer:
    """An answer that a model is writing. One without pieces says that the answer so far was withdrawn."""

    __slots__ = ("is_finished", "pieces", "run", "sent", "source", "step")

    def __init__(self, source: str, run: Run, step: int) -> None:
        self.source = source
        self.run = run
        self.step = step
        self.pieces: list[str] = []
        self.sent: dict[str, int] = {}  # the number of pieces that were sent, by channel
        self.is_finished = False


class OutgoingText:
    """All answers that models are writing in this process, and the readers of other processes. Used on the event loop only."""

    def __init__(self) -> None:
        self.name = uuid4().hex[:12]
        self.numbers = count(1)  # of the answers
        self.readers: dict[ReaderKey, dict[str, float]] = {}  # when each channel's readers expire
        self.answers: dict[str, OutgoingAnswer] = {}  # by run
        self.due: dict[tuple[str, str], OutgoingAnswer] = {}  # what to send, by run and channel, in order
        self.has_due = asyncio.Event()
        self.next_cleanup = 0.0

    def hear(self, run: Run, data: dict[str, Any]) -> None:
        """Take the next piece of an answer, or the withdrawal of what was written."""
        answer = self.answers.get(run.id)
        if data.get("restart"):
            self.finish(run.id)
            answer = self._create_answer(run, NO_STEP)
        else:
            if answer is None or data["n"] == 1:
                answer = self.answers[run.id] = self._create_answer(run, data["step"])
            answer.pieces.append(data["text"])
        if self.readers:
            self._set_due(answer)

    def finish(self, run_id: str) -> None:
        """Forget an answer that is complete. Pieces that were not sent yet are part of the message that is stored now."""
        answer = self.answers.pop(run_id, None)
        if answer:
            answer.is_finished = True

    def update_readers(self, notice: ReaderNotice) -> None:
        """Take an announcement of another process. Readers that join during an answer get it from its beginning."""
        now = monotonic()
        if len(self.readers) >= MAX_READERS:
            self._remove_expired(now)
        for key in notice.follows:
            if key in self.readers or len(self.readers) < MAX_READERS:
                self.readers.setdefault(key, {})[notice.channel] = now + EXPIRES_S
        for key in notice.left:
            channels = self.readers.get(key, {})
            channels.pop(notice.channel, None)
            if not channels:
                self.readers.pop(key, None)
        for answer in self.answers.values():
            self._set_due(answer)

    def find_channels(self, run: Run) -> set[str]:
        """Return the channels of the processes that have readers of this run's conversation."""
        now = monotonic()
        keys = ((run.tenant_id, run.conversation_id), (run.tenant_id, TENANT_WIDE))
        return {channel for key in keys for channel, expires in self.readers.get(key, {}).items() if expires > now}

    def collect(self) -> list[Notification]:
        """Return what is to be sent now: at most one notification per answer and channel, and at most MAX_BATCH of them."""
        if (now := monotonic()) >= self.next_cleanup:
            self._remove_expired(now)
        batch: list[Notification] = []
        for key in list(self.due):
            if len(batch) == MAX_BATCH:
                break
            answer, channel = self.due.pop(key), key[1]
            if not answer.is_finished and channel in self.find_channels(answer.run):
                batch.append(Notification(channel, self._take_payload(answer, channel)))
                if answer.sent[channel] < len(answer.pieces):
                    self.due[key] = answer  # the rest, after the other answers
        if not self.due:
            self.has_due.clear()
        return batch

    def _create_answer(self, run: Run, step: int) -> OutgoingAnswer:
        return OutgoingAnswer(f"{self.name}.{next(self.numbers)}", run, step)

    def _take_payload(self, answer: OutgoingAnswer, channel: str) -> str:
        run, sent = answer.run, answer.sent.get(channel, 0)
        origin = (answer.source, run.tenant_id, run.conversation_id, run.turn_id or "", run.id, answer.step)
        payload, added = encode_text(TextNotice(*origin, sent + 1, answer.pieces[sent:]))
        answer.sent[channel] = sent + added
        return payload

    def _set_due(self, answer: OutgoingAnswer) -> None:
        for channel in self.find_channels(answer.run):
            if not answer.pieces or answer.sent.get(channel, 0) < len(answer.pieces):
                self.due[answer.run.id, channel] = answer
                self.has_due.set()

    def _remove_expired(self, now: float) -> None:
        self.next_cleanup = now + EXPIRES_S
        for key, channels in list(self.readers.items()):
            self.readers[key] = {channel: expires for channel, expires in channels.items() if expires > now}
            if not self.readers[key]:
                del self.readers[key]


# Exchanges live text with the other processes of a Postgres database.


SETTLE_S = 0.2  # readers that come and go within this time are not announced
REPEAT_S = 5.0  # how often readers are announced again; less than half of EXPIRES_S
RESTART: Final = {"text": "", "restart": True}

SendBatch = Callable[[Sequence[Notification]], Awaitable[None]]


class TextRelay(Subscriber):
    """Sends the text of this process to other processes with readers of it, and delivers theirs to the readers here.

    `subscribe`, `start_listening`, `stop_listening` and `hear` are called by the thread that listens, everything else on the event
    loop. Without a connection that listens, or before `start`, nothing is announced and nothing arrives.
    """

    def __init__(self, feed: Feed, live_text: LiveText, send: SendBatch) -> None:
        self.feed = feed
        self.live_text = live_text
        self.send = send
        self.outgoing = OutgoingText()
        self.channel = ""  # where this process listens; empty: nowhere
        self.announced: set[ReaderKey] = set()
        self.repeat_at = 0.0
        self.readers_changed = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.subscribed = ""
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.feed.on_readers_changed = self.readers_changed.set
        if self.subscribed:
            self._set_channel(self.subscribed)
        steps = ((self._announce_readers, "announcing readers"), (self._send_text, "live text"))
        self.tasks = [asyncio.create_task(repeat_forever(step, name)) for step, name in steps]

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()

    # Called by the thread that listens

    def subscribe(self) -> Sequence[str]:
        """Return the channels that a new connection listens to."""
        self.subscribed = ""
        return (READERS, TEXT_PREFIX + uuid4().hex[:16])

    def start_listening(self, channels: Sequence[str]) -> None:
        self.subscribed = channels[-1]
        self._call(self._set_channel, self.subscribed)

    def stop_listening(self) -> None:
        self.subscribed = ""
        self._call(self._set_channel, "")

    def hear(self, channel: str, payload: str) -> None:
        self._call(self._receive_readers if channel == READERS else self._receive_text, payload)

    def _call(self, function: Callable[[str], None], argument: str) -> None:
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, argument)

    # The readers of this process

    def _set_channel(self, channel: str) -> None:
        self.channel = channel
        self.announced = set()
        self.readers_changed.set()

    async def _announce_readers(self) -> None:
        """Announce the readers of this process when they change, and again before they would expire."""
        if self.announced:
            try:
                await asyncio.wait_for(self.readers_changed.wait(), max(0.0, self.repeat_at - monotonic()))
            except TimeoutError:
                self.announced = set()
        else:
            await self.readers_changed.wait()
        if self.readers_changed.is_set():
            await asyncio.sleep(SETTLE_S)
            self.readers_changed.clear()
        channel, followed = self.channel, self.feed.list_followed()
        if not channel or followed == self.announced:
            return
        if not self.announced:
            self.repeat_at = monotonic() + REPEAT_S
        batch = list(encode_readers(channel, followed - self.announced, self.announced - followed))
        self.announced = followed
        try:
            await self.send(batch)
        except StorageError:
            self._set_channel(self.channel)  # to announce all of them again
            raise

    def _receive_text(self, payload: str) -> None:
        notice = decode_text(payload)
        if notice is None or notice.tenant_id not in self.feed.channels:
            return
        news = self.live_text.hear_remote(RemotePieces(notice.source, notice.run_id, notice.step, notice.first, notice.pieces))
        origin = {"turn_id": notice.turn_id, "run_id": notice.run_id}
        address = (notice.conversation_id, notice.turn_id, notice.run_id)
        if news.withdrawn:
            self.feed.relay(notice.tenant_id, RemoteText(*address, news.withdrawn.step, [encode_json({**origin, **RESTART})]))
        if news.pieces:
            pieces = enumerate(news.pieces, news.first)
            data = [encode_json({**origin, "text": text, "n": n, "step": notice.step}) for n, text in pieces]
            self.feed.relay(notice.tenant_id, RemoteText(*address, notice.step, data))

    # The text of this process

    def stream(self, run: Run, data: dict[str, Any]) -> None:
        """Send a piece of an answer, or its withdrawal, to the processes with readers of it."""
        self.outgoing.hear(run, data)

    def finish(self, run: Run) -> None:
        self.outgoing.finish(run.id)

    def _receive_readers(self, payload: str) -> None:
        notice = decode_readers(payload)
        if notice and notice.channel != self.channel:
            self.outgoing.update_readers(notice)

    async def _send_text(self) -> None:
        await self.outgoing.has_due.wait()
        if batch := self.outgoing.collect():
            await self.send(batch)
            await asyncio.sleep(INTERVAL_S)

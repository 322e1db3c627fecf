"""Exchanges live text with the other processes of a Postgres database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from headway.actions.history.live_text import LiveText, RemotePieces
from headway.feed import Feed
from headway.feed_channel import RemoteText
from headway.ledger.errors import StorageError
from headway.ledger.events import encode_json
from headway.ledger.run import Run
from headway.storage.postgres.announcements import Subscriber
from headway.storage.retry import repeat_forever
from headway.text_relay.outgoing import INTERVAL_S, OutgoingText
from headway.text_relay.payloads import READERS, TEXT_PREFIX, Notification, ReaderKey, decode_readers, decode_text, encode_readers

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
        place = {"turn_id": notice.turn_id, "run_id": notice.run_id}
        address = (notice.conversation_id, notice.turn_id, notice.run_id)
        if news.withdrawn:
            self.feed.relay(notice.tenant_id, RemoteText(*address, news.withdrawn.step, [encode_json({**place, **RESTART})]))
        if news.pieces:
            pieces = enumerate(news.pieces, news.first)
            data = [encode_json({**place, "text": text, "n": n, "step": notice.step}) for n, text in pieces]
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

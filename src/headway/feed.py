"""The event log, live: readers get each event once, in order, across reconnects and processes."""

import asyncio
import json
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from headway.cells.redirects import Departure, check_has_not_left, find_departure, find_departures
from headway.ledger.errors import QuotaExceeded, StorageError, WrongCell
from headway.ledger.events import TURN_ENDS, LoggedEvent
from headway.ledger.scope import TENANT_WIDE
from headway.ledger.tenancy import Quotas
from headway.storage.database import Database
from headway.storage.retry import StorageRetry, repeat_forever
from headway.storage.server_session import ServerSession
from headway.storage.stores import events as event_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.events import LogBounds
from headway.storage.transaction import Transaction

TENANT_MOVED = "tenant_moved"
TURN_RESUMED = "turn_resumed"  # an ended turn continues
MAX_KEPT_EVENTS = 1024  # per channel
MAX_KEPT_CHARACTERS = 2 * 1024 * 1024  # of the kept events' data; their encoded form may take as much again


@dataclass(slots=True, eq=False)
class FeedEvent:
    """An event on its way to readers. All readers share it, and so a surface keeps the encoded form in it."""

    seq: int  # a reader that has seen the event is at this position of the log
    conversation_id: int
    turn_id: str | None
    kind: str
    data: str  # a JSON object
    is_broadcast: bool = False  # whether only the current readers get it, because the log does not contain it
    encoded: bytes | None = None

    def decode_data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.data)
        return data


def build_event(logged: LoggedEvent) -> FeedEvent:
    return FeedEvent(logged.seq, logged.conversation_id, logged.turn_id, logged.kind, logged.data)


def build_pruned(after: int, pruned: int) -> FeedEvent:
    """Tell a reader that events which it has not seen were deleted because of their age."""
    return FeedEvent(after, TENANT_WIDE, None, "log_pruned", json.dumps({"after": after, "pruned": pruned}))


def build_ping(seq: int) -> FeedEvent:
    """Build a heartbeat, which carries the reader's position."""
    return FeedEvent(seq, TENANT_WIDE, None, "ping", "{}")


def build_moved(departure: Departure) -> FeedEvent:
    """Tell a reader that its tenant has moved to another cell. It has no number, because the log continues there."""
    return FeedEvent(0, TENANT_WIDE, None, TENANT_MOVED, json.dumps(departure._asdict()), is_broadcast=True)


class RemoteText(NamedTuple):
    """Text of an answer that another process is writing: the data of `text_delta` events."""

    conversation_id: int
    turn_id: str
    run_id: str
    step: int  # the number that the answer will have in the transcript
    data: list[str]


class Bell:
    """Wakes the single task that waits for it. It costs half as much as an asyncio.Event; an event may ring a thousand."""

    __slots__ = ("rung", "waiting")

    def __init__(self) -> None:
        self.rung = False
        self.waiting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self.rung = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    async def wait(self) -> None:
        if not self.rung:
            self.waiting = asyncio.get_running_loop().create_future()
            await self.waiting


class FeedReader:
    """One open stream: its position in the log and the bell that wakes it. It closes when the turn that it follows ends."""

    __slots__ = ("after", "bell", "conversation_id", "due_ping", "follows_text", "gone", "position", "pruned", "turn_id")

    def __init__(self, conversation_id: int | None, after: int) -> None:
        self.conversation_id = conversation_id
        self.turn_id: str | None = None
        self.after = after
        self.position: int | None = None  # position in the channel's events, once the reader has caught up
        self.pruned = 0  # the last event that was deleted before the reader has seen it; 0: none was
        self.due_ping = False
        self.follows_text = False  # whether it shows the text that models write
        self.gone = False
        self.bell = Bell()

    def leave(self) -> None:
        self.gone = True
        self.bell.ring()

    def follow_turn(self, turn_id: str, after: int) -> None:
        """Receive only the events of this turn, starting after a sequence number."""
        self.turn_id = turn_id
        self.after = after
        self.position = None
        self.bell.ring()

    def wants(self, event: FeedEvent) -> bool:
        if self.turn_id is not None:
            return event.turn_id == self.turn_id
        return self.conversation_id is None or event.conversation_id in (self.conversation_id, TENANT_WIDE)

    def take(self, events: Iterable[FeedEvent]) -> list[FeedEvent]:
        matching = [event for event in events if self.wants(event)]
        if self.turn_id is not None and any(event.kind in TURN_ENDS for event in matching):
            self.gone = True
        return matching


def find_last_words(events: Sequence[LoggedEvent]) -> set[int]:
    """Return the numbers of the events before which the text of turns that end here has to arrive: the last message of each, or its
    end."""
    ended = {event.turn_id for event in events if event.kind in TURN_ENDS}
    last: dict[str | None, int] = {}
    for event in events:
        is_end = event.kind in TURN_ENDS and event.turn_id not in last
        if event.turn_id in ended and (is_end or event.kind == "message"):
            last[event.turn_id] = event.seq
    return set(last.values())


class FeedChannel:
    """The new events of one tenant's log, read once for all its readers."""

    def __init__(self, tenant_id: int, head: int) -> None:
        self.tenant_id = tenant_id
        self.head = head  # the last event read from the log
        self.floor = head  # the events after this one are kept
        self.events: deque[FeedEvent] = deque()
        self.count = 0  # number of events so far, including dropped ones
        self.behind = False  # whether the log has events that are not read yet
        # Broadcasts that wait for those events.
        self.backlog: deque[tuple[int, str | None, str, str]] = deque(maxlen=MAX_KEPT_EVENTS)
        self.remote_texts: deque[RemoteText] = deque(maxlen=MAX_KEPT_EVENTS)  # texts that are to be compared with the log first
        self.writing: dict[str, tuple[str, int]] = {}  # run and step of answers that were not in the log yet, by turn
        self.ended_turns: dict[str | None, None] = {}  # the last ones whose end was read, oldest first
        self.size = 0  # of the kept events' data, in characters
        self.readers: set[FeedReader] = set()
        self.dirty = asyncio.Event()
        self.pump: asyncio.Task[None] | None = None
        self.departure: Departure | None = None  # where the tenant has moved

    def take(self, events: Sequence[LoggedEvent]) -> None:
        last_words = find_last_words(events)
        for event in events:
            if event.seq in last_words:
                self._release_backlog(event.turn_id)
            self._keep(build_event(event))
            self.head = event.seq
            self.writing.pop(event.turn_id or "", None)
            self._note_end(event)
        for reader in self.readers:
            reader.bell.ring()

    def _note_end(self, event: LoggedEvent) -> None:
        if event.kind in TURN_ENDS:
            self.ended_turns[event.turn_id] = None
            if len(self.ended_turns) > MAX_KEPT_EVENTS:
                del self.ended_turns[next(iter(self.ended_turns))]
        elif event.kind == TURN_RESUMED:
            self.ended_turns.pop(event.turn_id, None)

    def broadcast(self, conversation_id: int, turn_id: str | None, kind: str, data: str) -> None:
        """Send something to the current readers only. It is not logged, has no sequence number and is never repeated. It is
        delivered after everything that was logged before it.

        Text of a turn whose end was read waits until the log is read again: it is delivered if the turn was resumed, and dropped
        otherwise. A process that writes an answer learns only at its next heartbeat that another one has canceled the turn."""
        if turn_id in self.ended_turns:
            self.behind = True
            self.dirty.set()
        if self.behind:
            self.backlog.append((conversation_id, turn_id, kind, data))
        else:
            self._broadcast(conversation_id, turn_id, kind, data)

    def send_backlog(self) -> None:
        """Send everything that waited for events, all of which have been read."""
        self.behind = False
        while self.backlog:
            self._broadcast(*self.backlog.popleft())

    def _release_backlog(self, turn_id: str | None) -> None:
        """Send the waiting text of a turn that ends."""
        waiting, self.backlog = self.backlog, deque(maxlen=MAX_KEPT_EVENTS)
        for broadcast in waiting:
            if broadcast[1] == turn_id:
                self._broadcast(*broadcast)
            else:
                self.backlog.append(broadcast)

    def relay(self, text: RemoteText) -> None:
        """Broadcast text of another process. It must not follow the message that it belongs to, which may be in the log by now. So
        the text waits for a comparison with the rows if this channel has read events of the turn since the last comparison."""
        if self.behind or self.remote_texts or self.writing.get(text.turn_id) != (text.run_id, text.step):
            self.remote_texts.append(text)
            self.dirty.set()
        else:
            self._broadcast_text(text)

    def relay_unfinished(self, next_steps: dict[str, int]) -> None:
        """Broadcast the waiting texts of these runs whose answer is the next step, and drop the others."""
        waiting, self.remote_texts = self.remote_texts, deque(maxlen=MAX_KEPT_EVENTS)
        for text in waiting:
            if text.run_id not in next_steps:
                self.remote_texts.append(text)  # it arrived after the comparison
            elif next_steps[text.run_id] == text.step:
                self.writing[text.turn_id] = (text.run_id, text.step)
                self._broadcast_text(text)
        while len(self.writing) > MAX_KEPT_EVENTS:
            del self.writing[next(iter(self.writing))]
        if self.remote_texts:
            self.dirty.set()

    def _broadcast_text(self, text: RemoteText) -> None:
        for data in text.data:
            self._broadcast(text.conversation_id, text.turn_id, "text_delta", data)

    def _broadcast(self, conversation_id: int, turn_id: str | None, kind: str, data: str) -> None:
        if turn_id in self.ended_turns:
            return
        event = FeedEvent(self.head, conversation_id, turn_id, kind, data, is_broadcast=True)
        self._keep(event)
        for reader in self.readers:
            if reader.wants(event):
                reader.bell.ring()

    def _keep(self, event: FeedEvent) -> None:
        self.events.append(event)
        self.count += 1
        self.size += len(event.data)
        while len(self.events) > MAX_KEPT_EVENTS or self.size > MAX_KEPT_CHARACTERS:
            oldest = self.events.popleft()
            self.size -= len(oldest.data)
            self.floor = oldest.seq

    def stop_pump(self) -> None:
        """Stop reading the log. A canceled task keeps its channel. If the channel kept the task, its events would stay until the
        garbage collector examines all objects, which in a server happens hours later."""
        if self.pump:
            self.pump.cancel()
            self.pump = None

    def news(self, reader: FeedReader) -> list[FeedEvent]:
        """Return the kept events that this reader has not seen, and mark them as seen."""
        events, position, after = self.events, reader.position, reader.after
        if position is None and after > self.head:  # the reader is ahead of this channel
            return []
        reader.position, reader.after = self.count, self.head
        if position == self.count:
            return []
        if position == self.count - 1:  # the usual case: one new event for every reader
            return reader.take((events[-1],))
        if position is None:
            start = bisect_right(events, after, key=lambda event: event.seq)
        else:
            start = max(0, position - (self.count - len(events)))
        return reader.take(islice(events, start, None))


# Live event streams. Each reader gets every event of its tenant once and in order, however slow it is.


PAGE_EVENTS = 500
PAGE_BYTES = 1024 * 1024
EVENTS_PER_READ = 50  # events read at a time, before their total size is checked
HEARTBEAT_S = 15.0
POLL_S = 0.2  # how often to look for other processes' commits when there are no notifications
POLL_ANNOUNCED_S = 2.0  # with notifications, polling only makes up for lost ones


class LogPage(NamedTuple):
    """A page of the log. `is_last` means that there was nothing after it when it was read."""

    events: list[LoggedEvent]
    is_last: bool


def read_page(tx: Transaction, tenant_id: int, conversation_id: int | None, after: int) -> LogPage:
    """Read a page of the log, limited in events and in bytes, so that the pages of many readers fit into memory."""
    events: list[LoggedEvent] = []
    size = 0
    while len(events) < PAGE_EVENTS and size < PAGE_BYTES:
        batch = read_log(tx, tenant_id, conversation_id, events[-1].seq if events else after)
        events += batch
        size += sum(len(event.data) for event in batch)
        if len(batch) < EVENTS_PER_READ:
            return LogPage(events, is_last=True)
    return LogPage(events, is_last=False)


def read_log(tx: Transaction, tenant_id: int, conversation_id: int | None, after: int) -> list[LoggedEvent]:
    if conversation_id is None:
        return event_store.list_after(tx, tenant_id, after, EVENTS_PER_READ)
    return event_store.list_after_in_conversation(tx, tenant_id, conversation_id, after, EVENTS_PER_READ)


def read_older_page(tx: Transaction, tenant_id: int, conversation_id: int | None, after: int) -> LogPage:
    """Read a page of the log, or raise WrongCell if the tenant has moved: its events are deleted here part by part, so the page
    could have gaps."""
    check_has_not_left(tx, tenant_id)
    return read_page(tx, tenant_id, conversation_id, after)


def read_bounds(tx: Transaction, tenant_id: int) -> LogBounds:
    check_has_not_left(tx, tenant_id)
    return event_store.get_bounds(tx, tenant_id)


class LogNews(NamedTuple):
    """A page of the log, and the numbers of the next messages of some runs at the same moment."""

    page: LogPage
    next_steps: dict[str, int]
    departure: Departure | None  # where the tenant has moved


def read_news(tx: Transaction, tenant_id: int, after: int, run_ids: Collection[str]) -> LogNews:
    """Read what is new in the log. If nothing is new, or numbers are missing, the tenant may have moved to another cell."""
    page = read_page(tx, tenant_id, None, after)
    is_complete = page.events[-1].seq == after + len(page.events) if page.events else bool(run_ids)
    departure = None if is_complete else find_departure(tx, tenant_id)
    return LogNews(page, {run_id: run_store.get_next_message_number(tx, tenant_id, run_id) for run_id in run_ids}, departure)


class TenantStates(NamedTuple):
    """The last event number of each tenant, and where the tenants are that have moved."""

    seqs: dict[int, int]
    departures: dict[int, Departure]


def read_states(tx: Transaction, tenant_ids: tuple[int, ...]) -> TenantStates:
    return TenantStates(event_store.get_last_seqs(tx, tenant_ids), find_departures(tx, tenant_ids))


class Feed:
    """All live streams of this process."""

    def __init__(self, database: Database, session: ServerSession, *, per_tenant: int = Quotas().streams) -> None:
        self.database = database
        self.per_tenant = per_tenant
        self.session = session
        self.heartbeat_s = HEARTBEAT_S
        self.channels: dict[int, FeedChannel] = {}
        self.lines: WeakValueDictionary[tuple[int, int], asyncio.Lock] = WeakValueDictionary()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.closed = False
        self.tasks: list[asyncio.Task[None]] = []
        self.delivered = 0
        self.on_readers_changed: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.tasks = [asyncio.create_task(repeat_forever(step, "the feed")) for step in (self._poll, self._beat)]

    def close(self) -> None:
        """End all streams. Call this on the event loop; a signal handler may call it too."""
        self.closed = True
        for channel in self.channels.values():
            for reader in channel.readers:
                reader.bell.ring()
        for task in self.tasks:
            task.cancel()

    def notify_commit(self, tenants: frozenset[int]) -> None:
        """Announce a commit, from any thread. Waking the event loop is costly, so only tenants with open streams cause it."""
        if self.loop is not None and not self.closed and not self.loop.is_closed() and not tenants.isdisjoint(self.channels):
            self.loop.call_soon_threadsafe(self._ring, tenants)

    @property
    def alive(self) -> bool:
        """Whether new events would reach the readers."""
        return bool(self.tasks) and not any(task.done() for task in self.tasks)

    @property
    def open_streams(self) -> int:
        return sum(len(channel.readers) for channel in self.channels.values())

    async def open(self, tenant_id: int, conversation_id: int | None, after: int | None) -> tuple[FeedChannel, FeedReader]:
        """Open a reader positioned after a sequence number, at most at the end of the log. None means the end. Raises QuotaExceeded
        if the tenant has as many open streams as it may, and WrongCell if it has moved to another cell."""
        bounds = await self.database.of(tenant_id).read(partial(read_bounds, tenant_id=tenant_id))
        reader = FeedReader(conversation_id, bounds.last_seq if after is None else min(after, bounds.last_seq))
        if reader.after < bounds.pruned:
            reader.pruned = bounds.pruned
        channel = await self._channel(tenant_id)
        if len(channel.readers) >= self.per_tenant:
            raise QuotaExceeded(
                f"This tenant has {len(channel.readers):,} open event streams, which is its quota. Close one of them. "
                "Or ask the operator to raise the quota streams in HEADWAY_QUOTAS."
            )
        channel.readers.add(reader)
        return channel, reader

    async def follow(self, channel: FeedChannel, reader: FeedReader, *, text: bool = True) -> AsyncIterator[list[FeedEvent]]:
        """Yield a ping with the reader's position, then the events it has not seen, then new events until it leaves. Events that
        are available together are yielded in one list, which is the caller's own.

        If events were deleted that the reader has not seen, `log_pruned` comes before the ping. If the tenant moves to another
        cell, `tenant_moved` is the last event; what the reader has not seen is in the other cell. Without `text`, other processes
        are not asked for the text that models write there."""
        reader.follows_text = text
        self.on_readers_changed()
        retry = StorageRetry("an event stream")
        ping = build_ping(reader.after)
        yield [build_pruned(reader.after, reader.pruned), ping] if reader.pruned else [ping]
        while not self.closed and not reader.gone and not channel.departure:
            reader.bell.rung = False  # before reading, so that anything that arrives later rings again
            try:
                events = channel.news(reader) if reader.after >= channel.floor else await self._read_older(channel, reader)
            except StorageError as error:
                await retry.wait(error)
                continue
            except WrongCell as error:
                self._end_channel(channel, Departure(error.cell, error.location))
                break
            if reader.due_ping:
                reader.due_ping = False
                events.append(build_ping(reader.after))
            if events:
                yield events
            else:
                await reader.bell.wait()
        if channel.departure and not reader.gone:
            yield [build_moved(channel.departure)]

    def get_line(self, tenant_id: int, conversation_id: int) -> asyncio.Lock:
        """Return the lock of those who wait for the conversation's turn to end. They get it in order."""
        return self.lines.setdefault((tenant_id, conversation_id), asyncio.Lock())

    def broadcast(self, tenant_id: int, conversation_id: int, turn_id: str | None, kind: str, data: str) -> None:
        channel = self.channels.get(tenant_id)
        if channel:
            channel.broadcast(conversation_id, turn_id, kind, data)

    def relay(self, tenant_id: int, text: RemoteText) -> None:
        """Broadcast text that another process has sent. Call this on the event loop."""
        channel = self.channels.get(tenant_id)
        if channel:
            channel.relay(text)

    def list_followed(self) -> set[tuple[int, int]]:
        """List the tenants and conversations whose text is read here. TENANT_WIDE stands for all conversations of a tenant."""
        return {
            (channel.tenant_id, reader.conversation_id or TENANT_WIDE)
            for channel in self.channels.values()
            for reader in channel.readers
            if reader.follows_text
        }

    def leave(self, channel: FeedChannel, reader: FeedReader) -> None:
        """Remove the reader. A channel without readers is closed."""
        reader.leave()
        channel.readers.discard(reader)
        if reader.follows_text:
            self.on_readers_changed()
        if not channel.readers and self.channels.get(channel.tenant_id) is channel:
            del self.channels[channel.tenant_id]
            channel.stop_pump()

    async def _read_older(self, channel: FeedChannel, reader: FeedReader) -> list[FeedEvent]:
        """Read the next page of the log, for a reader that is behind the kept events."""
        head = channel.head  # before reading, because the page may not cover later events
        work = partial(read_older_page, tenant_id=channel.tenant_id, conversation_id=reader.conversation_id, after=reader.after)
        events, is_last = await self.database.of(channel.tenant_id).read(work)
        last = events[-1].seq if events else reader.after
        reader.after = max(head, last) if is_last else last
        reader.position = None
        return reader.take(map(build_event, events))

    async def _channel(self, tenant_id: int) -> FeedChannel:
        if tenant_id not in self.channels:
            head = await self.database.of(tenant_id).read(partial(event_store.get_last_seq, tenant_id=tenant_id))
            if tenant_id not in self.channels:
                channel = self.channels[tenant_id] = FeedChannel(tenant_id, head)
                channel.dirty.set()  # commits since the read above did not wake this channel
                channel.pump = asyncio.create_task(repeat_forever(partial(self._pump, channel), "the feed"))
        return self.channels[tenant_id]

    async def _pump(self, channel: FeedChannel) -> None:
        """Wait for a commit and read the new events. A burst of commits is read together."""
        await channel.dirty.wait()
        run_ids = {text.run_id for text in channel.remote_texts}
        work = partial(read_news, tenant_id=channel.tenant_id, after=channel.head, run_ids=run_ids)
        channel.dirty.clear()
        try:
            page, next_steps, departure = await self.database.of(channel.tenant_id).read(work)
        except StorageError:
            channel.dirty.set()  # the events are still unread, and nothing else will wake this channel
            raise
        if departure:
            self._end_channel(channel, departure)
            return
        if page.events:
            channel.take(page.events)
            self.delivered += len(page.events)
        if not page.is_last:
            channel.dirty.set()
        elif channel.remote_texts:
            channel.relay_unfinished(next_steps)
        if not channel.dirty.is_set():
            channel.send_backlog()

    def _ring(self, tenants: Iterable[int]) -> None:
        for tenant_id in tenants:
            channel = self.channels.get(tenant_id)
            if channel:
                channel.behind = True
                channel.dirty.set()

    def _end_channel(self, channel: FeedChannel, departure: Departure) -> None:
        """End the streams of a tenant that has moved. If it comes back, its next reader gets a new channel."""
        channel.departure = departure
        if self.channels.get(channel.tenant_id) is channel:
            del self.channels[channel.tenant_id]
        channel.stop_pump()
        for reader in channel.readers:
            reader.bell.ring()

    async def _poll(self) -> None:
        """Check for commits of other processes, and for tenants that have moved to another cell."""
        await asyncio.sleep(POLL_ANNOUNCED_S if self.session.is_open else POLL_S)
        if self.channels:
            seqs, departures = await self.database.unrestricted.read(partial(read_states, tenant_ids=tuple(self.channels)))
            self._ring(
                [tenant_id for tenant_id, channel in self.channels.items() if seqs.get(tenant_id, 0) > channel.head],
            )
            for tenant_id in departures.keys() & self.channels.keys():
                self._end_channel(self.channels[tenant_id], departures[tenant_id])

    async def _beat(self) -> None:
        await asyncio.sleep(self.heartbeat_s)
        for channel in self.channels.values():
            for reader in channel.readers:
                reader.due_ping = True
                reader.bell.ring()

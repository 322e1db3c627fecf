"""The new events of a tenant's log, on their way to its readers."""

import asyncio
import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from headway.ledger.events import TURN_ENDS, LoggedEvent
from headway.ledger.scope import TENANT_WIDE
from headway.storage.stores.cells import Departure

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

    __slots__ = ("after", "bell", "conversation_id", "due_ping", "follows_text", "gone", "place", "pruned", "turn_id")

    def __init__(self, conversation_id: int | None, after: int) -> None:
        self.conversation_id = conversation_id
        self.turn_id: str | None = None
        self.after = after
        self.place: int | None = None  # position in the channel's events, once the reader has caught up
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
        self.place = None
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

    def news(self, reader: FeedReader) -> list[FeedEvent]:
        """Return the kept events that this reader has not seen, and mark them as seen."""
        events, position, after = self.events, reader.place, reader.after
        if position is None and after > self.head:  # the reader is ahead of this channel
            return []
        reader.place, reader.after = self.count, self.head
        if position == self.count:
            return []
        if position == self.count - 1:  # the usual case: one new event for every reader
            return reader.take((events[-1],))
        if position is None:
            start = bisect_right(events, after, key=lambda event: event.seq)
        else:
            start = max(0, position - (self.count - len(events)))
        return reader.take(islice(events, start, None))

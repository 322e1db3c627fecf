"""Live text for readers of other processes: what is sent, within which bounds, and in which order it arrives."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.actions.turns.live_text import LiveText, PartialAnswer, RemotePieces
from headway.agents.loop.requests import MAX_PIECE, RESTART_DELTA
from headway.feed import Feed, RemoteText
from headway.ledger.events import Event, EventKind, encode_json
from headway.ledger.run import Run
from headway.ledger.scope import TENANT_WIDE
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.server_session import ServerSession
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from headway.text_relay import (
    MAX_BATCH,
    MAX_PAYLOAD_BYTES,
    READERS,
    TEXT_PREFIX,
    Notification,
    OutgoingText,
    ReaderKey,
    ReaderNotice,
    TextRelay,
    decode_readers,
    decode_text,
    encode_readers,
)
from tests.tables import each_row

CHANNEL = f"{TEXT_PREFIX}a1"
LATER_CHANNEL = f"{TEXT_PREFIX}b2"
WIDEST = "\x01"  # takes six bytes in JSON


def build_run(number: int = 1, tenant_id: int = 1, conversation_id: int = 7) -> Run:
    return Run(f"run-{number}", tenant_id, conversation_id, f"turn-{number}", None, "supervisor", "", 0, "running", 0, 0, 10)


def write(outgoing: OutgoingText, run: Run, *pieces: str, step: int = 3, first: int = 1) -> None:
    for n, piece in enumerate(pieces, first):
        outgoing.hear(run, {"text": piece, "n": n, "step": step})


def follow(*keys: ReaderKey, channel: str = CHANNEL) -> ReaderNotice:
    return ReaderNotice(channel, keys, ())


def read_pieces(batch: list[Notification], channel: str = CHANNEL) -> list[tuple[int, list[str]]]:
    """Return the number of the first piece, and the pieces, of each notification."""
    notices = [decode_text(one.payload) for one in batch if one.channel == channel]
    return [(notice.first, list(notice.pieces)) for notice in notices if notice]


def test_without_readers_nothing_is_sent() -> None:
    outgoing, run = OutgoingText(), build_run()
    outgoing.update_readers(follow((1, 8), (2, TENANT_WIDE)))  # another conversation, and another tenant
    write(outgoing, run, "one", "two")
    assert outgoing.collect() == []

    outgoing.update_readers(follow((1, 7)))
    outgoing.update_readers(ReaderNotice(CHANNEL, (), [(1, 7)]))
    write(outgoing, run, "three", first=3)
    assert outgoing.collect() == []


def test_pieces_that_arrive_together_are_sent_together() -> None:
    outgoing, run = OutgoingText(), build_run()
    outgoing.update_readers(follow((1, 7)))
    write(outgoing, run, "one", "two")
    assert read_pieces(outgoing.collect()) == [(1, ["one", "two"])]
    assert outgoing.collect() == []
    write(outgoing, run, "three", first=3)
    assert read_pieces(outgoing.collect()) == [(3, ["three"])]


def test_a_reader_that_joins_late_gets_the_answer_from_its_beginning() -> None:
    outgoing, run = OutgoingText(), build_run()
    outgoing.update_readers(follow((1, 7)))
    write(outgoing, run, "one", "two")
    outgoing.collect()
    outgoing.update_readers(follow((1, TENANT_WIDE), channel=LATER_CHANNEL))
    batch = outgoing.collect()
    assert (read_pieces(batch), read_pieces(batch, LATER_CHANNEL)) == ([], [(1, ["one", "two"])])


def test_a_finished_answer_is_not_sent_and_a_withdrawn_one_is_withdrawn() -> None:
    outgoing, run = OutgoingText(), build_run()
    outgoing.update_readers(follow((1, 7)))
    write(outgoing, run, "one")
    outgoing.finish(run.id)
    assert outgoing.collect() == []

    write(outgoing, run, "two")
    outgoing.collect()
    outgoing.hear(run, RESTART_DELTA)
    outgoing.finish(run.id)
    assert read_pieces(outgoing.collect()) == [(1, [])]
    assert outgoing.collect() == []


def test_a_notification_never_exceeds_what_postgres_accepts() -> None:
    outgoing, run = OutgoingText(), build_run()
    outgoing.update_readers(follow((1, 7)))
    pieces = [WIDEST * MAX_PIECE, *["word "] * 3_000]
    write(outgoing, run, *pieces)
    batches = list(iter(outgoing.collect, []))

    assert {len(batch) for batch in batches} == {1}
    assert all(len(batch[0].payload.encode()) <= MAX_PAYLOAD_BYTES for batch in batches)
    assert [piece for batch in batches for _, part in read_pieces(batch) for piece in part] == pieces


def test_many_answers_share_the_limit_of_a_process() -> None:
    outgoing, runs = OutgoingText(), [build_run(number) for number in range(MAX_BATCH + 5)]
    outgoing.update_readers(follow((1, 7)))
    for run in runs:
        write(outgoing, run, "one")
    batches = list(iter(outgoing.collect, []))
    assert [len(batch) for batch in batches] == [MAX_BATCH, 5]


def test_announcements_of_many_readers_are_split() -> None:
    keys = {(2**62, 2**62 + number) for number in range(1_000)}
    notices = list(encode_readers(CHANNEL, keys, [(1, 1)]))
    decoded = [notice for notice in (decode_readers(one.payload) for one in notices) if notice]

    assert {one.channel for one in notices} == {READERS}
    assert all(len(one.payload.encode()) <= MAX_PAYLOAD_BYTES for one in notices)
    assert {key for notice in decoded for key in notice.follows} == keys
    assert [key for notice in decoded for key in notice.left] == [(1, 1)]


@each_row(
    "payload",
    [
        "",
        "[]",
        "[" * 10_000,
        '["pg_temp", [], []]',
        f'["{CHANNEL}", [[1]], []]',
        f'["{CHANNEL}", [[1, "2"]], []]',
        '["", 1, 1, "", "", 1, 1, [2]]',
    ],
)
def test_a_payload_of_another_program_is_ignored(payload: str) -> None:
    assert decode_readers(payload) is None
    assert decode_text(payload) is None


def hear(live_text: LiveText, source: str, first: int, *pieces: str, step: int = 3) -> tuple[PartialAnswer | None, list[str]]:
    """Return what readers must forget, and what they get."""
    news = live_text.hear_remote(RemotePieces(source, "run", step, first, pieces))
    return news.withdrawn, list(news.pieces)


def test_pieces_that_come_twice_are_taken_once_and_none_after_a_gap() -> None:
    live_text = LiveText()
    assert hear(live_text, "a.1", 1, "one", "two") == (None, ["one", "two"])
    assert hear(live_text, "a.1", 1, "one", "two", "three") == (None, ["three"])
    assert hear(live_text, "a.1", 5, "five") == (None, [])
    assert live_text.of("run", 3) == (3, 3, "onetwothree")
    assert hear(live_text, "a.2", 4, "four", step=4) == (None, [])  # begins in the middle
    assert hear(live_text, "a.3", 1, "One", step=5) == (None, ["One"])
    assert hear(live_text, "a.1", 4, "four") == (None, [])  # an earlier answer


def test_a_process_that_takes_over_replaces_the_text_of_the_other() -> None:
    live_text = LiveText()
    hear(live_text, "a.1", 1, "one", "two")
    assert hear(live_text, "b.1", 1) == ((3, 2, "onetwo"), [])
    assert hear(live_text, "b.2", 1, "One") == (None, ["One"])
    assert hear(live_text, "a.1", 3, "three") == (None, [])
    assert hear(live_text, "c.1", 1, "I") == ((3, 1, "One"), ["I"])

    live_text.hear("run", {"text": "local", "n": 1, "step": 3})
    assert hear(live_text, "c.1", 2, "II") == (None, [])
    assert live_text.of("run", 3) == (3, 1, "local")


@pytest.fixture
def run(desk: TenantHarness) -> Run:
    return start_run(desk)


def start_run(desk: TenantHarness) -> Run:
    """Start a run that answers a turn and whose transcript has one message."""
    conversation = desk.write(conversations.add_conversation)
    started: Run = desk.write(turns.start_turn, conversation.id, turns.TurnRequest("hello"))
    desk.write(run_store.append_messages, started.id, 0, "{}")
    return started


def build_text(run: Run, step: int, *pieces: str) -> RemoteText:
    data = [encode_json({"text": piece}) for piece in pieces]
    return RemoteText(run.conversation_id, run.turn_id or "", run.id, step, data)


def build_event(run: Run, kind: EventKind, step: int = 0) -> Event:
    return Event(run.tenant_id, kind, encode_json({"step": step}), run.conversation_id, run.turn_id)


def store_answer(tx: Transaction, run: Run, step: int) -> None:
    run_store.append_messages(tx, run.tenant_id, run.id, step, "{}")
    tx.emit(build_event(run, "message", step))


@pytest.mark.invented_events
def test_text_never_follows_the_message_that_contains_it(database_url: str, desk: TenantHarness, run: Run) -> None:
    async def scenario() -> None:
        database = Database(database_url)
        feed, write = Feed(database, ServerSession()), database.of(run.tenant_id).write
        feed.start()
        channel, reader = await feed.open(run.tenant_id, run.conversation_id, None)
        stream = feed.follow(channel, reader)

        async def read_next() -> list[tuple[str, Any]]:
            events = [event for event in await anext(stream) if event.kind != "ping"]
            return [(event.kind, event.decode_data()) for event in events] or await read_next()

        def relay(step: int, *pieces: str) -> None:
            feed.relay(run.tenant_id, build_text(run, step, *pieces))

        relay(1, "one")
        assert await read_next() == [("text_delta", {"text": "one"})]
        relay(1, "two")
        assert await read_next() == [("text_delta", {"text": "two"})]
        await write(lambda tx: store_answer(tx, run, 1))
        feed.notify_commit(frozenset({run.tenant_id}))
        assert await read_next() == [("message", {"step": 1})]
        relay(1, "late")
        relay(2, "next")
        assert await read_next() == [("text_delta", {"text": "next"})]
        await write(lambda tx: tx.emit(build_event(run, "cost_changed")))
        feed.notify_commit(frozenset({run.tenant_id}))
        assert await read_next() == [("cost_changed", {"step": 0})]
        await write(lambda tx: store_answer(tx, run, 2))  # the announcement of this commit is lost
        relay(2, "late")
        assert await read_next() == [("message", {"step": 2})]
        relay(3, "last")
        assert await read_next() == [("text_delta", {"text": "last"})]
        feed.leave(channel, reader)
        feed.close()
        database.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class Bus:
    """Carries notifications between relays, instead of a server."""

    def __init__(self) -> None:
        self.listeners: dict[str, set[TextRelay]] = {}

    def connect(self, relay: TextRelay) -> None:
        channels = relay.subscribe()
        for channel in channels:
            self.listeners.setdefault(channel, set()).add(relay)
        relay.start_listening(channels)

    def cut(self, relay: TextRelay) -> None:
        for relays in self.listeners.values():
            relays.discard(relay)
        relay.stop_listening()

    async def send(self, batch: Sequence[Notification]) -> None:
        for channel, payload in batch:
            for relay in self.listeners.get(channel, ()):
                relay.hear(channel, payload)


def test_a_connection_that_is_lost_during_an_answer_costs_no_text(sqlite_url: str) -> None:
    with DirectDatabase(sqlite_url) as direct:
        run = start_run(TenantHarness(direct))

    async def scenario() -> None:
        bus, database = Bus(), Database(sqlite_url)
        feeds = [Feed(database, ServerSession()) for _ in range(2)]
        writer, reader = (TextRelay(feed, LiveText(), bus.send) for feed in feeds)
        for relay in (writer, reader):
            bus.connect(relay)
            relay.start()
        feeds[1].start()
        channel, place = await feeds[1].open(run.tenant_id, run.conversation_id, None)
        received: list[tuple[int, str]] = []

        async def read_until(n: int) -> None:
            async for events in feeds[1].follow(channel, place):
                deltas = [event.decode_data() for event in events if event.kind == "text_delta"]
                received.extend((delta["n"], delta["text"]) for delta in deltas)
                if received and received[-1][0] >= n:
                    return

        writer.stream(run, {"text": "one", "n": 1, "step": 1})  # before the reader is announced
        await read_until(1)
        bus.cut(reader)
        writer.stream(run, {"text": "two", "n": 2, "step": 1})
        await asyncio.sleep(0)
        bus.connect(reader)
        writer.stream(run, {"text": "three", "n": 3, "step": 1})
        await read_until(3)
        assert received == [(1, "one"), (2, "two"), (3, "three")]
        for feed, relay in zip(feeds, (writer, reader), strict=True):
            feed.close()
            relay.close()
        database.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))

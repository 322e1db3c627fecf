"""Live text waits for the events that were logged before it, and arrives before the last message and the end of its turn. What is
written after the end is dropped."""

import asyncio
from contextlib import closing

import pytest

from headway.feed import Feed, RemoteText
from headway.ledger.events import Event, EventKind
from headway.storage.database import Database
from headway.storage.direct import DirectDatabase
from headway.storage.server_session import ServerSession
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness

pytestmark = pytest.mark.invented_events

HERE = 7  # a conversation
PATIENCE_S = 60


def log(desk: TenantHarness, kind: EventKind, turn_id: str) -> None:
    def emit(tx: Transaction, tenant_id: int) -> None:
        tx.emit(Event(tenant_id, kind, "{}", HERE, turn_id))

    desk.write(emit)


def test_no_text_of_a_turn_arrives_after_its_end(postgres_url: str) -> None:
    """On Postgres, because SQLite is read at once and never leaves text waiting."""

    async def scenario(feed: Feed, desk: TenantHarness) -> list[tuple[str, str | None]]:
        feed.start()
        channel, reader = await feed.open(desk.tenant.id, HERE, None)
        following = feed.follow(channel, reader)
        log(desk, "turn_started", "ended")
        feed.notify_commit(frozenset({desk.tenant.id}))
        while not any(event.kind == "turn_started" for event in await anext(following)):
            pass
        log(desk, "message", "ended")
        log(desk, "turn_finished", "ended")
        log(desk, "message", "open")
        feed.notify_commit(frozenset({desk.tenant.id}))
        await asyncio.sleep(0)  # the channel knows of new events, and has not read them
        for turn_id in ("ended", "open"):
            feed.broadcast(desk.tenant.id, HERE, turn_id, "text_delta", "{}")
        seen: list[tuple[str, str | None]] = []
        async for events in following:
            seen += [(event.kind, event.turn_id) for event in events if event.kind != "ping"]
            if ("text_delta", "open") in seen:
                break
        feed.close()
        return seen

    with DirectDatabase(postgres_url) as direct, closing(Database(postgres_url)) as database:
        feed = Feed(database, ServerSession())
        seen = asyncio.run(asyncio.wait_for(scenario(feed, TenantHarness(direct)), PATIENCE_S))

    # If the channel has read some of the events by itself, because the writes above took long, the text comes later or is left out.
    assert ("text_delta", "ended") not in seen[seen.index(("turn_finished", "ended")) :]
    assert [entry for entry in seen if entry != ("text_delta", "ended")] == [
        ("message", "ended"),
        ("turn_finished", "ended"),
        ("message", "open"),
        ("text_delta", "open"),
    ]


def test_text_that_is_written_after_the_end_of_its_turn_is_dropped_unless_the_turn_was_resumed(database_url: str) -> None:
    """Another process has canceled the turn, and this one streams its answer until the next heartbeat."""

    async def scenario(feed: Feed, desk: TenantHarness) -> list[tuple[str, str | None]]:
        feed.start()
        channel, reader = await feed.open(desk.tenant.id, HERE, None)
        following = feed.follow(channel, reader)
        seen: list[tuple[str, str | None]] = []

        async def read_until(last: tuple[str, str]) -> None:
            while last not in seen:
                seen.extend((event.kind, event.turn_id) for event in await anext(following) if event.kind != "ping")

        log(desk, "turn_canceled", "ended")
        log(desk, "turn_failed", "failed")
        await read_until(("turn_failed", "failed"))
        log(desk, "turn_resumed", "failed")  # by another process: this one has not been told
        for turn_id in ("ended", "failed", "open"):
            feed.broadcast(desk.tenant.id, HERE, turn_id, "text_delta", "{}")
            feed.relay(desk.tenant.id, RemoteText(HERE, turn_id, f"run of {turn_id}", 0, ["{}"]))
        await read_until(("text_delta", "open"))
        log(desk, "turn_finished", "open")
        await read_until(("turn_finished", "open"))
        feed.close()
        return seen

    with DirectDatabase(database_url) as direct, closing(Database(database_url)) as database:
        feed = Feed(database, ServerSession())
        seen = asyncio.run(asyncio.wait_for(scenario(feed, TenantHarness(direct)), PATIENCE_S))

    assert ("text_delta", "ended") not in seen
    assert seen.index(("turn_resumed", "failed")) < seen.index(("text_delta", "failed"))
    assert seen.index(("turn_failed", "failed")) < seen.index(("turn_resumed", "failed"))

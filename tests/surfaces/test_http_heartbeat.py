"""The heartbeat of a stream: each ping carries the position, and the reader's token is checked again."""

import asyncio
from functools import partial
from pathlib import Path

from headway.actions.access import tokens
from headway.actions.todos import todos
from headway.ledger.todo import Draft
from headway.process.assembly import Headway
from headway.surfaces.http.server_sent_events import encode_events
from tests.surfaces.event_stream import StreamEvent, parse_frames
from tests.surfaces.in_process_app import open_app


async def wait_for_streams(headway: Headway, count: int) -> None:
    """Wait until exactly `count` streams are open."""
    async with asyncio.timeout(30):
        while headway.feed.open_streams != count:
            await asyncio.sleep(0.005)


def test_pings_repeat_the_position(tmp_path: Path) -> None:
    async def run_scenario() -> list[StreamEvent]:
        async with open_app(tmp_path) as (app, _, token):
            feed = app.headway.feed
            channel, reader = await feed.open(token.token.tenant_id, None, None)
            received: list[StreamEvent] = []
            async for events in feed.follow(channel, reader):
                received += parse_frames(iter([encode_events(events)]))
                if len(received) == 3:
                    await app.headway.database.of(token.token.tenant_id).write(
                        partial(todos.add_todo, tenant_id=token.token.tenant_id, draft=Draft("told"))
                    )
                if received[-1] == (1, "ping", {}):
                    return received
            raise AssertionError("it ended")

    events = asyncio.run(asyncio.wait_for(run_scenario(), 30))
    assert [event.event for event in events].count("todo_changed") == 1
    assert [event.id for event in events] == sorted(event.id for event in events)
    assert events[0].id == 0


def test_a_revoked_token_ends_its_streams_and_no_others(tmp_path: Path) -> None:
    async def run_scenario() -> bool:
        async with open_app(tmp_path) as (app, client, token):
            headway = app.headway
            other = await headway.database.of(token.token.tenant_id).write(
                partial(tokens.create_token, tenant_id=token.token.tenant_id)
            )
            theirs = {"Authorization": f"Bearer {other.secret}"}
            ended = asyncio.create_task(client.get("/v1/events"))
            stays = asyncio.create_task(client.get("/v1/events", headers=theirs))
            await wait_for_streams(headway, 2)
            await headway.database.of(token.token.tenant_id).write(
                partial(tokens.revoke, tenant_id=token.token.tenant_id, token_id=token.token.id)
            )
            answer = await asyncio.wait_for(ended, 30)
            await wait_for_streams(headway, 1)
            alive = not stays.done()
            headway.feed.close()
            await asyncio.wait_for(stays, 30)
            await wait_for_streams(headway, 0)
            assert answer.status_code == 200
            return alive

    assert asyncio.run(run_scenario())

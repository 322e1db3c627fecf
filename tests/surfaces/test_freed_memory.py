"""What a request, a stream or a turn has used is freed when it ends. Nothing of it waits until the garbage collector examines all
objects, which in a server happens hours later."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import headway
from headway.feed import FeedChannel, FeedReader
from tests.model_server import ModelServer, calls, environment, text
from tests.surfaces.in_process_app import InProcessApp, open_app

SOURCES = str(Path(headway.__file__).parent)
OWNERS = ("headway.", "httpx2")  # the second makes the requests to models, with whole conversations
PATIENCE_S = 60


async def use(opened: InProcessApp) -> None:
    """Write, read, ask for something that is not there, follow a turn with a call of a model to its end, and then all events."""
    app, client, token = opened
    assert (await client.post("/v1/todos", json={"subject": "write"})).status_code == 201
    assert (await client.get("/v1/todos")).status_code == 200
    assert (await client.get("/v1/todos/999999")).status_code == 404
    changes = [client.patch(f"/v1/todos/{number}", json={"status": "completed"}) for number in range(999_990, 999_999)]
    assert {answer.status_code for answer in await asyncio.gather(*changes)} == {404}  # some are refused in one transaction
    assert (await client.get("/v1/todos", headers={"Authorization": "Bearer nobody"})).status_code == 401
    conversation = (await client.post("/v1/conversations", json={})).json()["conversation"]["id"]
    path, stream = f"/v1/conversations/{conversation}/messages", {"Accept": "text/event-stream"}
    assert "turn_finished" in (await client.post(path, json={"content": "hello"}, headers=stream)).text
    feed = app.headway.feed
    channel, reader = await feed.open(token.token.tenant_id, None, 0)
    following = asyncio.create_task(follow(opened, channel, reader))
    while reader.position is None:
        await asyncio.sleep(0)
    feed.leave(channel, reader)
    await following


async def follow(opened: InProcessApp, channel: FeedChannel, reader: FeedReader) -> None:
    async for _ in opened.app.headway.feed.follow(channel, reader):
        pass


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def list_garbage() -> Counter[str]:
    """What only a collection would free: our objects, and the frames of our functions, which keep all that they have used."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    names = [type(found).__qualname__ for found in gc.garbage if type(found).__module__.startswith(OWNERS)]
    names += [
        found.f_code.co_qualname
        for found in gc.garbage
        if isinstance(found, FrameType) and found.f_code.co_filename.startswith(SOURCES)
    ]
    gc.garbage.clear()
    return Counter(names)


@pytest.mark.both_databases
def test_nothing_that_a_request_has_used_waits_for_the_garbage_collector(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> Counter[str]:
        async with open_app(tmp_path, database_url=database_url) as opened:
            await use(opened)  # loads and keeps what the first request needs
            with without_collector():
                await use(opened)
                while opened.app.headway.engine.tasks:  # the turn's task outlives its stream
                    await asyncio.sleep(0)
                return list_garbage()

    with ModelServer(lambda request: calls(("now", {})) if request.assistant_turns % 2 == 0 else text("done")) as model:
        for name, value in environment(model).items():
            monkeypatch.setenv(name, value)
        found = asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))

    assert found == {}

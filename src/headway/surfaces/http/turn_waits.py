"""Starts a turn when the one before it in the conversation has ended. A waiting request reads the feed and writes nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.responses import Response

from headway.actions import turns
from headway.feed_channel import TENANT_MOVED
from headway.ledger.errors import TurnRunning, TurnWaiting
from headway.ledger.events import TURN_ENDS
from headway.surfaces.http.request_context import Action, RequestContext

BeginTurn = Action[dict[str, Any]]

REQUEST_ALLOWANCE_S = 30  # for everything except the wait
# Events after which a waiting request looks at the conversation again: its turn has ended or starts to wait for a person, or the
# tenant has moved, so that looking raises this error. First comes a ping: the turn may have ended before the reader was opened.
WAKING_KINDS = TURN_ENDS | {"ping", "approval_requested", "question_asked", TENANT_MOVED}


async def begin_when_free(request: RequestContext, begin: BeginTurn, wait_s: float) -> Response:
    """Start a turn. While another one runs in the conversation, wait up to `wait_s` for it to end."""
    await request.headway.agents_ready()
    try:
        return await request.post(begin, 202)
    except TurnWaiting:  # it may take a person hours to decide
        raise
    except TurnRunning as error:
        if not wait_s:
            raise
        obstacle = error
    until = asyncio.get_running_loop().time() + wait_s
    request.request.scope["headway.deadline"].reschedule(until + REQUEST_ALLOWANCE_S)
    tenant_id = await request.read(lambda _tx, tenant_id: tenant_id)
    # Requests wait in line. Only the first one watches the feed, so that the end of a turn does not start a race of all of them.
    line = request.headway.feed.get_line(tenant_id, obstacle.conversation_id)
    async with limit_wait(request, until, obstacle):
        await line.acquire()
    try:
        while True:
            async with limit_wait(request, until, obstacle):
                await watch_conversation(request, tenant_id, obstacle)
            try:
                return await request.post(begin, 202)
            except TurnWaiting:
                raise
            except TurnRunning as error:  # a request that did not wait in this line came first
                obstacle = error
    finally:
        line.release()


@asynccontextmanager
async def limit_wait(request: RequestContext, until: float, obstacle: TurnRunning) -> AsyncIterator[None]:
    """Raise the obstacle if the block takes until the given time, or until the client disconnects."""
    try:
        async with asyncio.timeout_at(until) as patience:
            watcher = asyncio.create_task(watch_disconnect(request, patience))
            try:
                yield
            finally:
                watcher.cancel()
    except TimeoutError:
        raise obstacle from None


async def watch_disconnect(request: RequestContext, patience: asyncio.Timeout) -> None:
    while (await request.request.receive())["type"] != "http.disconnect":
        pass
    patience.reschedule(asyncio.get_running_loop().time())


async def watch_conversation(request: RequestContext, tenant_id: int, obstacle: TurnRunning) -> None:
    """Return when no turn runs in the conversation. Raise TurnWaiting if its turn starts to wait for a person."""
    conversation_id, feed = obstacle.conversation_id, request.headway.feed
    channel, reader = await feed.open(tenant_id, conversation_id, None)
    try:
        async for events in feed.follow(channel, reader, text=False):
            if any(event.kind in WAKING_KINDS for event in events):
                found = await request.read(lambda tx, tenant_id: turns.find_obstacle(tx, tenant_id, conversation_id))
                if found is None:
                    return
                if isinstance(found, TurnWaiting):
                    raise found
        raise obstacle  # the server stops
    finally:
        feed.leave(channel, reader)

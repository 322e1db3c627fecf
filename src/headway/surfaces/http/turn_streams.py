"""Starts a turn for a request and streams its events. All front ends share this code."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from starlette.responses import Response

from headway.actions import turns
from headway.ledger.errors import TurnRunning
from headway.ledger.job import Job
from headway.surfaces.http.request_context import Action, RequestContext
from headway.surfaces.http.routes.events import ChunkTranslator, EventStream

BeginTurn = Action[dict[str, Any]]
EventEncoder = Callable[[str, dict[str, Any]], str]

TURN_POLL_S = 0.1  # how often to check whether the running turn has ended
REQUEST_ALLOWANCE_S = 30  # for everything except the wait
HEARTBEAT_COMMENT = b": ping\n\n"  # a comment, because other protocols have no heartbeat event


async def stream_turn(
    call: RequestContext, begin: BeginTurn, begun: list[Job], wait_s: float, translate: ChunkTranslator | None = None
) -> Response:
    """Start a turn and return a stream of its events that ends with it. Disconnecting does not stop the turn."""
    feed = call.headway.feed
    tenant_id = await call.read(lambda _tx, tenant_id: tenant_id)
    channel, reader = await feed.open(tenant_id, None, None)  # before the turn starts, so that no event is missed
    try:
        answer = await begin_when_free(call, begin, wait_s)
        start_jobs(call, begun)
        if answer.status_code != 202:
            feed.leave(channel, reader)
            return answer
        turn_id = str(json.loads(bytes(answer.body))["turn_id"])
        reader.conversation_id, start = await call.read(lambda tx, tenant_id: turns.find_start(tx, tenant_id, turn_id))
    except BaseException:
        feed.leave(channel, reader)
        raise
    reader.follow_turn(turn_id, start - 1)
    call.request.scope["headway.deadline"].reschedule(None)  # a stream has no time limit
    return EventStream(feed, channel, reader, call, translate)


async def begin_when_free(call: RequestContext, begin: BeginTurn, wait_s: float) -> Response:
    """Start a turn. While another one runs in the conversation, wait up to `wait_s` for it to end."""
    await call.headway.agents_ready()
    until = time.monotonic() + wait_s
    call.request.scope["headway.deadline"].reschedule(asyncio.get_running_loop().time() + wait_s + REQUEST_ALLOWANCE_S)
    while True:
        try:
            return await call.post(begin, 202)
        except TurnRunning:
            if time.monotonic() >= until or await call.request.is_disconnected():  # the caller no longer waits
                raise
        await asyncio.sleep(TURN_POLL_S)


def start_jobs(call: RequestContext, begun: list[Job]) -> None:
    """Hand the started jobs to the engine. The list is empty if the response was replayed for an Idempotency-Key."""
    for job in begun:
        call.headway.engine.take(job)


def build_translator(tell: EventEncoder) -> Callable[[bytes], bytes]:
    """Return a function that translates our event stream into another protocol."""

    def translate(chunk: bytes) -> bytes:
        return b"".join(HEARTBEAT_COMMENT if kind == "ping" else tell(kind, data).encode() for kind, data in decode_events(chunk))

    return translate


def decode_events(chunk: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events in a chunk of whole frames. The last two lines of each frame are its event name and its data."""
    for frame in chunk.decode().split("\n\n"):
        if frame:
            *_, kind, data = frame.split("\n")
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))

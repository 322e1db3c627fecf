"""A turn that a request begins, and the stream that tells of it. Every front end begins one the same way."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from starlette.responses import Response

from headway.actions import conversations
from headway.ledger.errors import TurnRunning
from headway.ledger.job import Job
from headway.storage.stores import events as event_store
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import Action, RequestContext
from headway.surfaces.http.routes.events import ChunkTranslator, EventStream

BeginTurn = Action[dict[str, Any]]
EventEncoder = Callable[[str, dict[str, Any]], str]

TURN_POLL_S = 0.1  # whether the running turn has ended
REQUEST_ALLOWANCE_S = 30  # for everything but the waiting
HEARTBEAT_COMMENT = b": ping\n\n"  # a comment: other protocols know no heartbeats


async def stream_turn(
    call: RequestContext, begin: BeginTurn, begun: list[Job], wait_s: float, translate: ChunkTranslator | None = None
) -> Response:
    """Begin a turn, and give its own stream, which ends with it. Who hangs up does not stop it."""
    feed = call.headway.feed
    tenant_id = await call.read(lambda _tx, tenant_id: tenant_id)
    channel, reader = await feed.open(tenant_id, None, None)  # before it begins: to miss nothing
    try:
        answer = await begin_when_free(call, begin, wait_s)
        start_jobs(call, begun)
        if answer.status_code != 202:
            feed.leave(channel, reader)
            return answer
        turn_id = str(json.loads(bytes(answer.body))["turn_id"])
        reader.conversation_id, start = await call.read(lambda tx, tenant_id: get_turn_start(tx, tenant_id, turn_id))
    except BaseException:
        feed.leave(channel, reader)
        raise
    reader.follow_turn(turn_id, start - 1)
    call.request.scope["headway.deadline"].reschedule(None)  # a stream may last
    return EventStream(feed, channel, reader, call, translate)


def get_turn_start(tx: Transaction, tenant_id: int, turn_id: str) -> tuple[int, int]:
    """Where in the log a turn begins."""
    conversation_id = conversations.get_turn(tx, tenant_id, turn_id).conversation_id
    return conversation_id, event_store.find_turn_start(tx, tenant_id, conversation_id, turn_id)


async def begin_when_free(call: RequestContext, begin: BeginTurn, wait_s: float) -> Response:
    """Begin a turn; while another one runs, wait for as long as the caller is willing to."""
    await call.headway.agents_ready()
    until = time.monotonic() + wait_s
    call.request.scope["headway.deadline"].reschedule(asyncio.get_running_loop().time() + wait_s + REQUEST_ALLOWANCE_S)
    while True:
        try:
            return await call.post(begin, 202)
        except TurnRunning:
            if time.monotonic() >= until or await call.request.is_disconnected():  # nobody waits any more
                raise
        await asyncio.sleep(TURN_POLL_S)


def start_jobs(call: RequestContext, begun: list[Job]) -> None:
    """An answer that was given before has begun nothing now."""
    for job in begun:
        call.headway.engine.take(job)


def build_translator(tell: EventEncoder) -> Callable[[bytes], bytes]:
    """Our own stream in another protocol's words."""

    def translate(chunk: bytes) -> bytes:
        return b"".join(HEARTBEAT_COMMENT if kind == "ping" else tell(kind, data).encode() for kind, data in decode_events(chunk))

    return translate


def decode_events(chunk: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of whole frames as the feed makes them: of each, the last two lines are its name and its data."""
    for frame in chunk.decode().split("\n\n"):
        if frame:
            *_, kind, data = frame.split("\n")
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))

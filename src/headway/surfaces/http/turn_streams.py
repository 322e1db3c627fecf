"""Answers that wait for a turn: its end, or its events as a stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple, Protocol

from starlette.responses import Response

from headway.actions.engine import run_ends
from headway.actions.runs import waiting
from headway.actions.turns import turns
from headway.feed import TENANT_MOVED, FeedChannel, FeedEvent, FeedReader
from headway.ledger.errors import HeadwayError, StorageError, TurnRunning, TurnWaiting, WrongCell
from headway.ledger.events import TURN_ENDS
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import Action, RequestContext
from headway.surfaces.http.server_sent_events import HEARTBEAT_COMMENT, EventStream, FindEnd, StreamEncoder
from headway.surfaces.turn_events import TurnEventTranslator

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


# Starts a turn for a request and streams its events. All front ends share this code.


ADVICE_AFTER_MOVE: Final = "The tenant has moved to another cell. Send the request there again, with its Idempotency-Key."


class EventEncoder(Protocol):
    """Encodes the events of a turn in another protocol."""

    @property
    def translator(self) -> TurnEventTranslator: ...

    def encode(self, kind: str, data: dict[str, Any]) -> str: ...

    def encode_error(self, message: str, code: str) -> str: ...


class TurnEncoder(EventEncoder, Protocol):
    """Encodes a turn in another protocol, with its end."""

    def encode_wait(self) -> str:
        """End the stream of a turn that waits for a person."""


CreateEncoder = Callable[[str], TurnEncoder]  # takes the id of the turn


async def stream_turn(
    request: RequestContext, begin: BeginTurn, started_jobs: list[Job], wait_s: float, create_encoder: CreateEncoder | None = None
) -> Response:
    """Start or continue a turn and return a stream of its events that ends with it. Disconnecting does not stop the turn.

    In another protocol, the stream also ends when the turn waits for a person.
    """
    opened = await open_turn(request, begin, started_jobs, wait_s)
    if isinstance(opened, Response):
        return opened
    if create_encoder is None:
        return EventStream(request.headway.feed, opened.channel, opened.reader, request)
    turn_id = str(opened.begun["turn_id"])
    encoder = create_encoder(turn_id)
    find_end = build_wait_check(request, opened.tenant_id, turn_id, encoder)
    return EventStream(request.headway.feed, opened.channel, opened.reader, request, build_encoder(encoder), find_end)


class OpenedTurn(NamedTuple):
    """A turn that has begun, with a reader of its events from the first one on."""

    tenant_id: int
    begun: dict[str, Any]  # what the action that began it returned, with its `turn_id`
    channel: FeedChannel
    reader: FeedReader


async def open_turn(request: RequestContext, begin: BeginTurn, started_jobs: list[Job], wait_s: float) -> OpenedTurn | Response:
    """Start or continue a turn and read its events. From then on, the request has no time limit. Returns the response of a request
    that was refused earlier with the same Idempotency-Key."""
    feed = request.headway.feed
    tenant_id = await request.read(lambda _tx, tenant_id: tenant_id)
    channel, reader = await feed.open(tenant_id, None, None)  # before the turn starts, so that no event is missed
    try:
        answer = await begin_when_free(request, begin, wait_s)
        start_jobs(request, started_jobs)
        if answer.status_code != 202:
            feed.leave(channel, reader)
            return answer
        begun: dict[str, Any] = json.loads(bytes(answer.body))
        turn_id = str(begun["turn_id"])
        reader.conversation_id, start = await request.read(lambda tx, tenant_id: turns.find_start(tx, tenant_id, turn_id))
    except BaseException:
        feed.leave(channel, reader)
        raise
    reader.follow_turn(turn_id, start - 1)
    request.request.scope["headway.deadline"].reschedule(None)
    return OpenedTurn(tenant_id, begun, channel, reader)


def stop_when_left(request: RequestContext, stream: EventStream) -> None:
    """Let a stream cancel its turn if the client closes it before its end."""

    async def stop() -> None:
        def cancel(tx: Transaction, tenant_id: int) -> list[str]:
            return run_ends.cancel_turn(tx, tenant_id, stream.reader.turn_id or "", request.headway.live_text)

        with suppress(HeadwayError):  # it has just ended, or the token was revoked
            request.headway.interrupt(await request.write(cancel))

    stream.on_left = stop


def start_jobs(request: RequestContext, jobs: list[Job]) -> None:
    """Hand the started jobs to the engine. The list is empty if the response was replayed for an Idempotency-Key."""
    for job in jobs:
        request.headway.engine.take(job)


def build_encoder(encoder: EventEncoder) -> StreamEncoder:
    """Return a function that encodes a turn's events in another protocol."""

    def encode(event: FeedEvent) -> str:
        if event.kind == "ping":
            return HEARTBEAT_COMMENT
        if event.kind == TENANT_MOVED:
            return encoder.encode_error(ADVICE_AFTER_MOVE, WrongCell().code)
        return encoder.encode(event.kind, event.decode_data())

    return lambda events: "".join(map(encode, events)).encode()


def build_wait_check(request: RequestContext, tenant_id: int, turn_id: str, encoder: TurnEncoder) -> FindEnd:
    async def find_end() -> bytes:
        """End the stream if the turn waits for a person, for exactly what the client has read about."""
        announced = encoder.translator.waiting
        if not announced:
            return b""
        try:
            is_over = await request.headway.database.of(tenant_id).read(
                lambda tx: waiting.is_waiting_for(tx, tenant_id, turn_id, announced)
            )
        except StorageError:
            return b""  # the next event or heartbeat checks again
        return encoder.encode_wait().encode() if is_over else b""

    return find_end

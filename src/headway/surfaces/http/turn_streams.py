"""Starts a turn for a request and streams its events. All front ends share this code."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from starlette.responses import Response

from headway.actions import run_ends, turns
from headway.actions.people import waiting
from headway.feed_channel import TENANT_MOVED, FeedChannel, FeedEvent, FeedReader
from headway.ledger.errors import HeadwayError, StorageError, WrongCell
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.surfaces.http.request_context import RequestContext
from headway.surfaces.http.routes.events import EventStream, FindEnd, StreamEncoder
from headway.surfaces.http.server_sent_events import HEARTBEAT_COMMENT
from headway.surfaces.http.turn_events import TurnEventTranslator
from headway.surfaces.http.turn_waits import BeginTurn, begin_when_free

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

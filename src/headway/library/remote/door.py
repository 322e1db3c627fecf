"""Carries the library's requests to a server."""

import base64
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

from headway.ledger.events import TURN_ENDS
from headway.library.door import AskedMessage, Document, drop_none, encode_path, read_file
from headway.library.namespaces.conversations import Conversations
from headway.library.remote.exchange import RemoteCall, ServerConnection, StreamLost, build_call
from headway.values.turns import Event


class RemoteDoor:
    """The door to a server. Streams reconnect where they left off."""

    def __init__(self, exchange: ServerConnection) -> None:
        self.exchange = exchange

    async def send(
        self,
        route: str,
        *path: int | str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        is_slow: bool = False,
    ) -> Document:
        method, _, template = route.partition(" ")
        return await self.exchange.send(build_call(method, fill_path(template, path), query, body), is_slow=is_slow)

    async def download(self, route: str, *path: int | str, query: Mapping[str, Any] | None = None) -> bytes:
        method, _, template = route.partition(" ")
        return await self.exchange.fetch(build_call(method, fill_path(template, path), query))

    # Turns

    async def begin_turn(self, message: AskedMessage) -> str:
        body = await encode_message(message)
        if message.conversation is None:  # in one request: if the message is refused, no conversation is left behind
            return str((await self.send("POST /conversations", body={"message": body}))["turn_id"])
        place = await self._find_place(message.conversation)
        return str((await self.send("POST /conversations/{}/messages", place, body=body))["turn_id"])

    async def answer(self, message: AskedMessage) -> str:
        turn_id = await self.begin_turn(message)
        async for _event in self.follow_turn(turn_id, None):
            pass
        return turn_id

    async def stream_answer(self, message: AskedMessage) -> AsyncGenerator[Event]:
        body = await encode_message(message)
        if message.conversation is None:
            place = (await Conversations(self).add()).id
        else:
            place = await self._find_place(message.conversation)
        call = build_call("POST", fill_path("/conversations/{}/messages", (place,)), None, body)
        turn_id, last = None, None
        failures = 0
        while turn_id is None:  # the same request again continues the same turn
            loss: StreamLost | None = None
            try:
                async for event in self.exchange.stream(call):
                    turn_id, last = turn_id or event.turn_id, event.number or last
                    yield event
                    if event.kind in TURN_ENDS:
                        return
            except StreamLost as failure:
                loss = failure
            if turn_id is None:
                failures += 1
                await self.exchange.wait_to_reconnect(failures, loss)
        async for event in self.follow_turn(turn_id, last):
            yield event

    async def _find_place(self, conversation: int | str) -> int:
        return conversation if isinstance(conversation, int) else (await Conversations(self).ensure(conversation)).id

    # Events

    async def follow_turn(self, turn_id: str, after: int | None) -> AsyncGenerator[Event]:
        call = build_call("GET", fill_path("/turns/{}/events", (turn_id,)))
        async for event in self._follow(call, after, turn_id):
            yield event
            if event.kind in TURN_ENDS:
                return

    async def follow(self, conversation_id: int | None, after: int | None) -> AsyncGenerator[Event]:
        path = fill_path("/events", ()) if conversation_id is None else fill_path("/conversations/{}/events", (conversation_id,))
        async for event in self._follow(build_call("GET", path), after):
            yield event

    async def _follow(self, call: RemoteCall, after: int | None, turn_id: str | None = None) -> AsyncGenerator[Event]:
        """Yield events, and reconnect after the last one when the connection is lost or the server restarts."""
        failures = 0
        while True:
            loss: StreamLost | None = None
            try:
                async for event in self.exchange.stream(call, after):
                    failures, after = 0, event.number or after
                    yield event
            except StreamLost as failure:
                loss = failure
            failures += 1
            await self.exchange.wait_to_reconnect(failures, loss)
            if turn_id and not loss and (await self.send("GET /turns/{}", turn_id))["turn"]["ended_at"]:
                return  # the server has nothing more to say about it


def fill_path(template: str, parts: tuple[int | str, ...]) -> str:
    return "/v1" + template.format(*(quote(text, safe="") for text in encode_path(parts)))


async def encode_message(message: AskedMessage) -> Document:
    files = [await read_file(source, n) for n, source in enumerate(message.attachments, 1)]
    attachments = [
        {"name": file.name, "media_type": file.media_type, "data": base64.b64encode(file.data).decode()} for file in files
    ]
    return drop_none(
        content=message.content, mode=message.mode, attachments=attachments or None, continues=message.continues or None
    )

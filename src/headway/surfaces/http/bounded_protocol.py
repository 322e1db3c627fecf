"""Limits what uvicorn does not limit: the size and the time of each part of a request, and the number of connections."""

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_LIMIT: Final = 64 * 1024
HEADERS_LIMIT: Final = 256
CHUNKS_LIMIT: Final = 20_000
TRAILERS_LIMIT: Final = HEAD_LIMIT  # also between two chunks
IGNORED_LIMIT: Final = 2 * 1024 * 1024  # bytes of a body that is still sent after the answer
MAX_CONNECTIONS: Final = 10_000
SHARE_OF_ADDRESS: Final = 10  # one address may have a tenth of all connections without showing a valid token
FULL: Final = "The server has too many connections. Try again later."


class ConnectionLimits:
    """The connections that have not shown a valid token yet, oldest first. If there are too many connections, the oldest of
    these is closed, so that a stranger can displace strangers only."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.limit_of_address = max(1, limit // SHARE_OF_ADDRESS)
        self.strangers: dict[BoundedProtocol, None] = {}
        self.by_address: dict[str, dict[BoundedProtocol, None]] = {}

    def add(self, connection: "BoundedProtocol", total: int) -> bool:
        """Add a new connection. Return whether there is room for it."""
        own = self.by_address.setdefault(connection.address, {})
        if len(own) >= self.limit_of_address:
            next(iter(own)).drop()
        elif total > self.limit:
            if not self.strangers:
                return False
            next(iter(self.strangers)).drop()
        self.by_address.setdefault(connection.address, {})[connection] = self.strangers[connection] = None
        return True

    def discard(self, connection: "BoundedProtocol") -> None:
        self.strangers.pop(connection, None)
        if own := self.by_address.get(connection.address):
            own.pop(connection, None)
            if not own:
                del self.by_address[connection.address]


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. One timer watches the part of the request that is expected."""

    limits = ConnectionLimits(MAX_CONNECTIONS)
    patience_s = 30.0  # for the head, and for the rest of the request
    grace_s = 5.0  # more for a body, so that the answer 408 comes first
    linger_s = 5.0  # for the rest of a request that is answered already
    stall_s = 60.0  # for a client that does not read what we send
    address = ""
    in_head = True
    head_size = 0
    header_count = 0
    chunks = 0
    unparsed = 0  # bytes since the last piece of the body: chunk headers and trailers
    ignored = 0  # bytes of the body since the answer
    timer: asyncio.TimerHandle | None = None
    stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.limits.add(self, len(self.connections)):
            self.start_timer(self.patience_s, self.give_up_head)
        else:
            self.refuse(503, FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_timer()
        self.stop_stall_timer()
        self.limits.discard(self)
        super().connection_lost(exc)

    def keep(self) -> None:
        """Keep the connection, because its caller has shown a valid token."""
        self.limits.discard(self)

    def drop(self) -> None:
        self.limits.discard(self)
        self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.header_count = 0
        self.scope["headway.connection"] = self  # type: ignore[typeddict-unknown-key]

    # Sizes

    def data_received(self, data: bytes) -> None:
        if self.in_head:
            self.head_size += len(data)
        elif self.cycle.response_complete:
            self.ignored += len(data)
        self.unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self.in_head:
            if self.unparsed > TRAILERS_LIMIT or self.ignored > IGNORED_LIMIT:
                self.drop()
        elif self.head_size > HEAD_LIMIT:
            self.send_400_response("The request headers are too large.")
        elif self.head_size and self.timer is None:
            self.start_timer(self.patience_s, self.give_up_head)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.header_count += 1
        if self.header_count > HEADERS_LIMIT:
            raise ValueError(f"more than {HEADERS_LIMIT} headers")  # the parser stops, and the answer is 400
        if self.in_head:  # not a trailer: the request has been judged by its head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()  # may find a mistake in the head
        self.in_head = False
        self.chunks = self.unparsed = self.ignored = 0
        self.start_timer(self.patience_s + self.grace_s, self.give_up_body)

    def on_chunk_header(self) -> None:
        self.unparsed = 0
        self.chunks += 1
        if self.chunks > CHUNKS_LIMIT:
            raise ValueError(f"more than {CHUNKS_LIMIT} chunks")

    def on_body(self, body: bytes) -> None:
        self.unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.in_head = True  # the following bytes belong to the next request
        self.head_size = 0
        self.stop_timer()
        super().on_message_complete()

    # Times

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.in_head or self.transport.is_closing():
            return
        if self.cycle.response_complete:
            self.start_timer(self.linger_s, self.drop)
        else:  # the next request was waiting for this answer, and we did not read from the connection
            self.start_timer(self.patience_s + self.grace_s, self.give_up_body)

    def start_timer(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.stop_timer()
        self.timer = self.loop.call_later(seconds, give_up)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def give_up_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.start_timer(self.patience_s, self.give_up_head)  # the last request is still being answered
        elif not self.head_size:
            self.drop()  # browsers connect ahead of need, and would take an answer for that of the request they are about to send
        elif not self.transport.is_closing():
            self.send_400_response(f"The request headers did not arrive within {self.patience_s:g} s.")

    def give_up_body(self) -> None:
        if self.pipeline:  # an earlier request is still being answered, and we do not read from the connection
            self.start_timer(self.patience_s + self.grace_s, self.give_up_body)
        else:
            self.drop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timer = self.loop.call_later(self.stall_s, self.drop)

    def resume_writing(self) -> None:
        self.stop_stall_timer()
        super().resume_writing()

    def stop_stall_timer(self) -> None:
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None

    def timeout_keep_alive_handler(self) -> None:
        self.drop()  # also if the client has not read the last answer

    def send_400_response(self, msg: str) -> None:
        if self.in_head:
            super().send_400_response(msg)
        else:  # the request may have been answered, perhaps in part
            self.drop()

    def refuse(self, status: int, message: str) -> None:
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(message)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + (head + message).encode())
        self.transport.close()


def build_protocol(max_connections: int) -> type[BoundedProtocol]:
    """Return the protocol of one server, with its own limits."""
    return type("Protocol", (BoundedProtocol,), {"limits": ConnectionLimits(max_connections)})

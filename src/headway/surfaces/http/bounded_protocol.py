"""Limits the size and the arrival time of request heads, which uvicorn does not limit."""

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT: Final = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a size limit and a timeout for request heads."""

    patience_s = 30.0
    in_head = True
    head_size = 0
    waiting: asyncio.TimerHandle | None = None  # fires if the head is not complete in time

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.in_head:
            self.head_size += len(data)
        super().data_received(data)
        if self.in_head and self.head_size > HEAD_LIMIT and not self.transport.is_closing():
            self.send_400_response("The request headers are too large.")
        if self.in_head and self.head_size and self.waiting is None:
            self.start_head_timer()

    def on_headers_complete(self) -> None:
        self.in_head = False
        self.stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_head = True  # the following bytes belong to the next request
        self.head_size = 0
        super().on_message_complete()

    def start_head_timer(self) -> None:
        self.waiting = self.loop.call_later(self.patience_s, self.give_up)

    def stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def give_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.start_head_timer()  # the last request is still being answered; the next one may take as long
        elif not self.transport.is_closing():
            self.send_400_response(f"The request headers did not arrive within {self.patience_s:g} s.")

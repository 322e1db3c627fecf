"""JSON-RPC over two byte streams: one message per line, requests in both directions."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.events import to_json

log = logging.getLogger("headway.acp")

LINE_LIMIT: Final = 64 * 1024 * 1024  # bytes; a prompt may carry images
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002  # ACP's code for a session that does not exist

Params = dict[str, Any]
Handler = Callable[[Params], Awaitable[Any]]


class RefusedByClient(HeadwayError):
    """The client refused a request."""


class RpcConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, Handler]) -> None:
        self.reader = reader
        self.writer = writer
        self.handlers = handlers
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting: dict[int, asyncio.Future[Any]] = {}  # our own requests
        self.last_id = 0

    async def serve(self) -> None:
        """Handle messages until the client closes its side. Requests run at the same time, because a prompt takes long."""
        try:
            while line := await self.reader.readline():
                if line.strip():
                    self.receive(line)
        except ValueError:
            self.send_error(None, INVALID_REQUEST, f"A message has more than {LINE_LIMIT // 2**20} MiB.")
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self.send_error(None, PARSE_ERROR, "The message is not JSON.")
            return
        if not isinstance(message, dict):
            self.send_error(None, INVALID_REQUEST, "The message is not an object.")
        elif "method" in message:
            task = asyncio.create_task(self.handle(message))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        elif isinstance(message.get("id"), int) and (future := self.waiting.pop(message["id"], None)) and not future.done():
            if "error" in message:
                future.set_exception(RefusedByClient(str(message["error"])[:500]))
            else:
                future.set_result(message.get("result"))

    async def handle(self, message: Params) -> None:
        """Handle a request or a notification. Only a request gets an answer."""
        request_id, params = message.get("id"), message.get("params", {})
        handler = self.handlers.get(str(message["method"]))
        try:
            if handler is None:
                self.send_error(request_id, METHOD_NOT_FOUND, f"Unknown method {str(message['method'])[:80]!r}.")
                return
            if not isinstance(params, dict):
                raise Invalid("params must be an object.")
            result = await handler(params)
        except HeadwayError as error:
            code = INVALID_PARAMS if isinstance(error, Invalid) else NOT_FOUND if isinstance(error, NotFound) else INTERNAL_ERROR
            self.send_error(request_id, code, str(error))
        except Exception:
            log.exception("a request failed")
            self.send_error(request_id, INTERNAL_ERROR, "Headway hit an internal error. See its log for details.")
        else:
            if request_id is not None:
                self.send({"id": request_id, "result": result})
        await self.writer.drain()

    def send_error(self, request_id: Any, code: int, text: str) -> None:
        if request_id is not None or code in (PARSE_ERROR, INVALID_REQUEST):
            self.send({"id": request_id, "error": {"code": code, "message": text}})

    def send(self, message: Params) -> None:
        self.writer.write(to_json({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def notify(self, method: str, params: Params) -> None:
        self.send({"method": method, "params": params})
        await self.writer.drain()

    async def request(self, method: str, params: Params) -> Any:
        """Send a request to the client, and return its result."""
        self.last_id += 1
        future = self.waiting[self.last_id] = asyncio.get_running_loop().create_future()
        self.send({"id": self.last_id, "method": method, "params": params})
        await self.writer.drain()
        return await future

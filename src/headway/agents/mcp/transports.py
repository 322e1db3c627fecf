"""Transports to MCP servers: standard input and output, and HTTP, with limits on messages."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import IO, Any, Final, NamedTuple

import anyio
import httpx2
from anyio.abc import ByteReceiveStream, ObjectReceiveStream, ObjectSendStream, Process
from mcp import types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from headway.agents.mcp.config import McpServerConfig
from headway.ledger.parsing.json_values import ValueCounter, count_separators, has_more_values

MESSAGE_LIMIT: Final = 8_000_000  # bytes
VALUES_LIMIT: Final = 60_000  # values in one message; parsing takes about a microsecond for each
TOO_MANY_VALUES: Final = f"a message with more than {VALUES_LIMIT:,} values"
TOOLS_LIMIT: Final = 500
CONTENT_LIMIT: Final = 1_000  # parts of one result


class TooLarge(Exception):
    """A server sent a message that exceeds a limit. The words continue "the server sent"."""


def check_size(size: int) -> None:
    if size > MESSAGE_LIMIT:
        raise TooLarge(f"a message of more than {MESSAGE_LIMIT:,} bytes")


async def check_values(message: bytes) -> None:
    """Raise TooLarge for a message with too many values. Counting exactly takes long, so it is done on a thread, if at all."""
    if count_separators(message) > VALUES_LIMIT and await asyncio.to_thread(has_more_values, message, VALUES_LIMIT):
        raise TooLarge(TOO_MANY_VALUES)


class EventMeter:
    """Measures Server-Sent Events as their text arrives. An event ends with an empty line, and each may be one message."""

    def __init__(self) -> None:
        self.size = 0
        self.values = ValueCounter(VALUES_LIMIT)
        self.has_empty_line = True
        self.rest = ""  # a carriage return whose next character has not arrived

    def take(self, text: str) -> None:
        """Count a piece of the stream. Raises TooLarge if an event exceeds a limit."""
        text = self.rest + text
        self.rest = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        for number, line in enumerate(text.split("\n")):
            if number:
                self.end_line()
            if line:
                self.has_empty_line = False
                content = line.encode("utf-8", "surrogatepass")
                self.size += len(content)
                check_size(self.size)
                self.values.feed(content)
                if self.values.has_exceeded:
                    raise TooLarge(TOO_MANY_VALUES)

    def end_line(self) -> None:
        if self.has_empty_line:
            self.size = 0
            self.values.start_over()
        else:
            self.values.start_line()
        self.has_empty_line = True


def trim(message: Any) -> Any:
    """Shorten the lists of a server's answer before the MCP library reads them. One tool too many shows that there are more."""
    result = message.message.result if isinstance(getattr(message, "message", None), types.JSONRPCResponse) else {}
    tools, content = result.get("tools"), result.get("content")
    if isinstance(tools, list):
        del tools[TOOLS_LIMIT + 1 :]
    if isinstance(content, list) and len(content) > CONTENT_LIMIT:
        note = f"[{len(content) - CONTENT_LIMIT:,} more parts are left out.]"
        content[CONTENT_LIMIT:] = [{"type": "text", "text": note}]
    return message


# The connection to an MCP server that Headway starts: one JSON message per line, over its standard streams.


STOP_WAIT_S: Final = 2.0  # after the end of its input, and again after SIGTERM
EXIT_POLL_S: Final = 0.01
END_ERRORS: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


@asynccontextmanager
async def open_stdio(
    config: McpServerConfig, command: list[str], stderr: IO[str], on_excess: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server, and yield its messages and where to send ours. A message that is too large ends the connection."""
    environment = {**get_default_environment(), **dict(config.env)}
    process = await anyio.open_process(command, env=environment, stderr=stderr, cwd=config.cwd or None, start_new_session=True)
    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, queue = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            has_read = anyio.Event()

            async def read() -> None:
                await read_messages(process, incoming, on_excess)
                has_read.set()

            tasks.start_soon(read)
            tasks.start_soon(write_messages, process, queue, incoming)
            try:
                yield messages, outgoing
            finally:
                messages.close()
                outgoing.close()
                with anyio.CancelScope(shield=True):
                    await stop(process)
                    with anyio.move_on_after(STOP_WAIT_S):  # another process may have the server's output open
                        await has_read.wait()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, messages, outgoing, queue):
            stream.close()


async def read_messages(
    process: Process, incoming: ObjectSendStream[SessionMessage | Exception], on_excess: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    with suppress(*END_ERRORS):
        async with incoming:
            try:
                await read_lines(process.stdout, incoming)
            except TooLarge as error:
                on_excess(str(error))
                send_signal(process, signal.SIGKILL)
    with suppress(*END_ERRORS):  # a server that cannot write does not end
        async for _ in process.stdout:
            pass


async def read_lines(source: ByteReceiveStream, incoming: ObjectSendStream[SessionMessage | Exception]) -> None:
    line = bytearray()
    async for chunk in source:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            await deliver(bytes(line + end), incoming)
            line.clear()
        line += rest
        check_size(len(line))


async def deliver(line: bytes, incoming: ObjectSendStream[SessionMessage | Exception]) -> None:
    check_size(len(line))
    await check_values(line)
    try:
        message = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        await incoming.send(error)
    else:
        await incoming.send(message)


async def write_messages(
    process: Process, queue: ObjectReceiveStream[SessionMessage], incoming: ObjectSendStream[SessionMessage | Exception]
) -> None:
    assert process.stdin is not None
    try:
        async with queue:
            async for message in queue:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
    except END_ERRORS:
        await incoming.aclose()  # the server reads nothing more, so no answer will come


async def stop(process: Process) -> None:
    """End a server: it ends by itself when its input ends, or it is killed with everything that it started."""
    assert process.stdin is not None
    with suppress(*END_ERRORS):
        await process.stdin.aclose()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await has_ended(process):
            break
        send_signal(process, number)
    await has_ended(process)


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal a server and everything that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def has_ended(process: Process) -> bool:
    """Wait a while for a process to end. Waiting for its streams as well could take longer, if another process has them."""
    with anyio.move_on_after(STOP_WAIT_S):
        while process.returncode is None:
            await anyio.sleep(EXIT_POLL_S)
    return process.returncode is not None


# The HTTP client for MCP servers. It keeps the reason why a request failed: the MCP library says only that it did.


TIMEOUT_S: Final = 30.0
CLIENT_ERROR: Final = 400
SERVER_ERROR: Final = 500
TRANSFER_HEADERS: Final = ("content-encoding", "content-length", "transfer-encoding")  # they do not describe what was read


TextReader = Callable[..., AsyncIterator[str]]


class HttpFailure(NamedTuple):
    """Why a request got no answer. Without a status, there was no connection."""

    status: int
    reason: str

    @property
    def was_refused(self) -> bool:
        """Whether the server has certainly not acted on the request."""
        return self.status < SERVER_ERROR


# The failures of the requests that the current task causes. The MCP library sends each in a copy of its caller's context.
FAILURES: ContextVar[list[HttpFailure]] = ContextVar("FAILURES")


class HttpClient(httpx2.AsyncClient):
    """Notes failed requests. If there is no connection, it answers for the server, so that other requests go on."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            note_failure(HttpFailure(0, f"there is no connection to {request.url.host}: {error}".rstrip(": ")))
            return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, request=request)
        if response.status_code >= CLIENT_ERROR:
            note_failure(
                HttpFailure(response.status_code, f"it answered HTTP {response.status_code} {response.reason_phrase}".strip())
            )
        if has_type(response, "application/json"):
            return await read_document(response)
        if has_type(response, "text/event-stream"):
            response.aiter_text = limit_events(response.aiter_text)  # type: ignore[method-assign]
        return response


def has_type(response: httpx2.Response, media_type: str) -> bool:
    return bool(response.headers.get("content-type", "").lower().startswith(media_type))


def limit_events(read: TextReader) -> TextReader:
    """Read a stream of events until one exceeds a limit, as text: the MCP library decodes it as the server says."""

    async def read_within_limits(*options: Any) -> AsyncIterator[str]:
        meter = EventMeter()
        async for text in read(*options):
            try:
                meter.take(text)
            except TooLarge as error:
                note_failure(HttpFailure(HTTPStatus.BAD_GATEWAY, f"it sent {error}"))
                raise httpx2.SSEError(str(error)) from None
            yield text

    return read_within_limits


async def read_document(response: httpx2.Response) -> httpx2.Response:
    """Read a response that is one document, within limits. If it exceeds one, we answer for the server."""
    content = bytearray()
    try:
        async for part in response.aiter_bytes():
            content += part
            check_size(len(content))
        await check_values(bytes(content))
    except TooLarge as error:
        note_failure(HttpFailure(HTTPStatus.BAD_GATEWAY, f"it sent {error}"))
        return httpx2.Response(HTTPStatus.BAD_GATEWAY, request=response.request)
    finally:
        await response.aclose()
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in TRANSFER_HEADERS]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(content), request=response.request)


def note_failure(failure: HttpFailure) -> None:
    FAILURES.get([]).append(failure)


def build_http_client(headers: dict[str, str]) -> HttpClient:
    """Build the client of one server. Reading has no limit here: calls and starts have their own, and streams stay open."""
    return HttpClient(headers=headers, timeout=httpx2.Timeout(TIMEOUT_S, read=None))

"""The HTTP client for MCP servers. It keeps the reason why a request failed: the MCP library says only that it did."""

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx2

from headway.agents.mcp.messages import EventMeter, TooLarge, check_size, check_values

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

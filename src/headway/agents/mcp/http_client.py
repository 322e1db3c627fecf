"""The HTTP client for MCP servers. It keeps the reason why a request failed: the MCP library says only that it did."""

from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx2

TIMEOUT_S: Final = 30.0
CLIENT_ERROR: Final = 400
SERVER_ERROR: Final = 500


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
        return response


def note_failure(failure: HttpFailure) -> None:
    FAILURES.get([]).append(failure)


def build_http_client(headers: dict[str, str]) -> HttpClient:
    """Build the client of one server. Reading has no limit here: calls and starts have their own, and streams stay open."""
    return HttpClient(headers=headers, timeout=httpx2.Timeout(TIMEOUT_S, read=None))

"""The HTTP server that accepts deliveries from Restate."""

import asyncio
import hmac
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from headway.ledger.parsing.restate_address import Place

MAX_CONNECTIONS = 4_000  # each delivery has one
MAX_BODY = 64 * 1024  # a delivery has a few hundred bytes
KEEP_ALIVE_S = 10  # until the first request of a connection; there is one per connection
BACKLOG = 2_048
HEALTH_PATH = "/health"  # answered without a secret or a signature
MAX_PATH_PARTS = 32


class DeliveryServer(uvicorn.Server):
    """A server that leaves the signals to the program around it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def run_server(app: Any, place: Place, secret: str = "") -> AsyncIterator["asyncio.Task[None]"]:
    """Serve an ASGI application to callers that know the secret, and yield the task that does it. At the end, connections are
    closed even if requests are under way: Restate delivers those to another process."""
    with open_listener(place) as listener:
        await asyncio.to_thread(use_up_signal_handler, app)
        server = DeliveryServer(build_config(app, secret))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield serving
        finally:
            server.should_exit = server.force_exit = True
            requests = list(server.server_state.tasks)
            for listening in server.servers if server.started else ():
                listening.close()
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            for request in requests:
                request.cancel()
            await asyncio.gather(serving, *requests, return_exceptions=True)


def build_config(app: Any, secret: str) -> uvicorn.Config:
    return uvicorn.Config(
        wrap_app(app, secret),
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
    )


def open_listener(place: Place) -> socket.socket:
    """Listen on an address. Several processes of one user on one machine may share it, and the kernel spreads the connections."""
    listener = socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((place.host, place.port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def use_up_signal_handler(app: Any) -> None:
    """Make the first request to the application, in a thread with a separate event loop.

    At its first request the SDK sets a handler for SIGTERM in the running loop, and `headway worker` would not stop any more. It
    cannot do so outside of the main thread, and does not try again.
    """
    assert threading.current_thread() is not threading.main_thread()

    async def ask() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            return

        await app({"type": "http", "http_version": "1.1", "method": "GET", "path": HEALTH_PATH, "headers": []}, receive, send)

    asyncio.run(ask())


def knows_secret(path: str, secret: str) -> bool:
    """Whether a path has the secret as one of its parts. Without a secret every path passes, and health checks always do."""
    parts = path.encode().split(b"/", MAX_PATH_PARTS)
    return not secret or path == HEALTH_PATH or any(hmac.compare_digest(part, secret.encode()) for part in parts)


async def refuse(send: Any) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": []})
    await send({"type": "http.response.body"})


def wrap_app(app: Any, secret: str) -> Any:
    """Refuse requests without the secret, end those whose body is longer than any delivery, and close the connection after each
    answer.

    Restate prefers connections that it has used last. If they were kept, a worker would get jobs again that it has just refused,
    and a few workers would get them all.
    """

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        received = 0

        async def receive_limited() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message if received <= MAX_BODY else {"type": "http.disconnect"}

        async def send_closing(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        if knows_secret(scope["path"], secret):
            await app(scope, receive_limited, send_closing)
        else:
            await refuse(send_closing)

    return wrapped

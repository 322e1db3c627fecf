"""The server: its sockets, and connections with limits on what strangers send."""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from headway.actions.access import local_tenant, tokens
from headway.cells import redirects
from headway.ledger.errors import HeadwayError, SettingsError
from headway.process.assembly import Headway
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.surfaces.http.app import WebApp
from headway.surfaces.http.request_context import LOOPBACK_NAMES
from headway.surfaces.log_lines import configure_json_logging, replace_port, save_port

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


# Runs the web application until it is stopped.


MAX_FILES = 1_000_000
RESERVED_FILES = 128  # for the database, models and tools
SHUTDOWN_GRACE_S = 5
FLUSH_GRACE_S = 0.4
FORCED_EXIT_S = 9.0  # after the signal to stop
KEEP_ALIVE_S = 75  # longer than clients keep idle connections, so that they do not reuse one while we close it


class PortTaken(HeadwayError):
    """The address cannot be listened on."""


class HttpServer(uvicorn.Server):
    """Announces when it is ready, and closes event streams at shutdown, because they never end by themselves."""

    def __init__(self, config: uvicorn.Config, headway: Headway, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.headway = headway
        self.announce = announce

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. The kernel ends a process that does not stop in time: what keeps it busy may keep all of it busy."""
        if hasattr(signal, "setitimer"):  # not on Windows
            signal.setitimer(signal.ITIMER_REAL, FORCED_EXIT_S)
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.headway.feed.close()
        asyncio.get_running_loop().call_later(FLUSH_GRACE_S, self.abort_stalled)
        await super().shutdown(sockets)

    def abort_stalled(self) -> None:
        """Abort connections whose client does not read, so that they cannot delay the shutdown."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()


def serve(settings: Settings, log_level: str, announce: Callable[[str, str | None], None]) -> None:
    """Serve until SIGTERM or SIGINT. Once ready, call `announce` with the address and the one-time login link."""
    local = settings.host in LOOPBACK_NAMES
    if settings.bootstrap_token:
        create_bootstrap_token(settings)
    if not local:
        check_has_tokens(settings)
    configure_json_logging(log_level, settings)
    logging.getLogger("uvicorn.error").setLevel(
        "ERROR"
    )  # its warnings are about requests, and anybody could fill the log with them
    file_limit = raise_file_limit()
    listener = open_listener(settings)
    port = listener.getsockname()[1]
    address = f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}"
    secret = urlsafe_b64encode(os.urandom(24)).decode() if local else None
    headway = Headway(replace_port(settings, port))
    save_port(settings, port)
    config = uvicorn.Config(
        WebApp(headway, secret),
        loop="auto",
        http=build_protocol(min(settings.max_connections, file_limit - RESERVED_FILES)),
        access_log=False,
        ws="none",  # WebSockets are not supported: an upgrade request is answered like any other
        proxy_headers=False,  # any caller could send them
        log_config=None,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )
    # For a signal before uvicorn installs its handlers, and for the one that uvicorn raises again after its shutdown.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: sys.exit(0))
    login = f"{address}/login?token={secret}" if secret else None
    HttpServer(config, headway, partial(announce, address, login)).run(sockets=[listener])


def create_bootstrap_token(settings: Settings) -> None:
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        database.write(lambda tx: tokens.bootstrap(tx, local_tenant.ensure_local(tx).id, settings.bootstrap_token))


def check_has_tokens(settings: Settings) -> None:
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        # A cell may have no tokens: it redirects holders of other cells' tokens, and waits for tenants.
        if not database.read(tokens.has_active) and not database.read(redirects.get_own_name):
            raise SettingsError(
                f"Listening on {settings.host} would admit other machines, but no tokens exist yet. "
                "Create one with `headway token add --tenant NAME`, or listen on 127.0.0.1."
            )


def open_listener(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.set_inheritable(True)
    except OSError as error:
        is_foreign_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        advice = "Try another --host." if is_foreign_host else "Try another --port."
        raise PortTaken(f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}. {advice}") from None
    return listener


def raise_file_limit() -> int:
    """Raise the limit on open files, and return it. Every connection uses one, and the usual soft limit of 1,024 is too low."""
    if sys.platform == "win32":
        return MAX_FILES
    import resource  # noqa: PLC0415  not available on Windows

    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    return MAX_FILES if hard_limit == resource.RLIM_INFINITY else hard_limit

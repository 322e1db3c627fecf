"""Runs the web application until it is stopped."""

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

import uvicorn

from headway.actions.access import cells, tenants, tokens
from headway.assembly import Headway
from headway.ledger.errors import HeadwayError, SettingsError
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.surfaces.http.app import WebApp
from headway.surfaces.http.bounded_protocol import build_protocol
from headway.surfaces.http.request_context import LOOPBACK_NAMES
from headway.surfaces.log_lines import configure_json_logging
from headway.surfaces.served_port import replace_port, save_port

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
        database.write(lambda tx: tokens.bootstrap(tx, tenants.ensure_local(tx).id, settings.bootstrap_token))


def check_has_tokens(settings: Settings) -> None:
    with DirectDatabase(settings.database_url, direct_url=settings.database_direct_url) as database:
        # A cell may have no tokens: it answers holders of those of other cells, and waits for tenants.
        if not database.read(tokens.has_active) and not database.read(cells.find_own):
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

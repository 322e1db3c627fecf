"""Dispatch by Restate: announcements to its ingress, and the server to which it delivers."""

import asyncio
import hmac
import json
import logging
import random
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from threading import Lock
from typing import Any
from urllib.parse import quote

import restate
import uvicorn
from restate.exceptions import RetryableError, TerminalError

from headway.dispatch.restate_address import HostPort, RestateAddress
from headway.dispatch.restate_admin import NotRegistered, build_deployment_url, register
from headway.engine.external import Deliver, DueJob, NotNow

log = logging.getLogger("headway.dispatch")

ANSWER_S = 3.0  # how long one node may take to answer
LOG_AGAIN_S = 60.0
RETRYING_S = 75.0  # how long a delivery that no process can take is repeated; the engine has announced the job again by then
HANDLER = "deliver"


class Ingress:
    """The addresses of Restate's ingress. One that does not answer is left for the next one."""

    def __init__(self, addresses: tuple[HostPort, ...], service: str) -> None:
        self.addresses = addresses
        self.path = f"/{service}/{HANDLER}/send"
        self.current = random.randrange(len(addresses))  # noqa: S311  index of the address that is used; processes begin with different ones
        self.idle: list[HTTPConnection] = []
        self.lock = Lock()
        self.is_closed = False
        self.misses_service = False  # whether Restate has answered that it does not know the service
        self.log_again_at = 0.0

    def send(self, jobs: Sequence[DueJob]) -> list[str]:
        """Announce jobs one after the other, and return the ids of jobs that were not accepted. If no address answers, the rest is
        not tried."""
        refused: list[str] = []
        connection = self._take()
        for position, job in enumerate(jobs):
            answer, connection = self._send_one(job, connection)
            if answer is None:
                return refused + [left.job_id for left in jobs[position:]]
            if not answer:
                refused.append(job.job_id)
        self._put_back(connection)
        return refused

    def open(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Close all connections, and accept no jobs until `open`. Connections in use are closed after their use."""
        with self.lock:
            idle, self.idle, self.is_closed = self.idle, [], True
        for connection in idle:
            connection.close()

    def _send_one(self, job: DueJob, connection: HTTPConnection) -> tuple[bool | None, HTTPConnection]:
        """Return whether Restate accepted the job, or None if no address answered."""
        delay = f"?delay={job.delay_ms}ms" if job.delay_ms else ""
        expires_at = int((time.time() + RETRYING_S) * 1000) + job.delay_ms
        body = json.dumps({"job_id": job.job_id, "expires_at": expires_at})
        headers = {"content-type": "application/json", "idempotency-key": quote(job.key, safe=":-_.")}
        problem = ""
        for _ in range(1 + len(self.addresses)):  # one more, because a kept connection may have been closed meanwhile
            if self.is_closed:
                break
            try:
                connection.request("POST", self.path + delay, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, HTTPException) as error:
                problem = f"does not answer: {error or type(error).__name__}"
            else:
                if answer.status in (200, 202):
                    return True, connection
                if answer.status == 404:
                    self.misses_service = True
                    return False, connection
                problem = f"answered {answer.status}: {content[:200].decode(errors='replace')!r}"
                if answer.status < 500:
                    self._log(connection, problem)
                    return False, connection
            connection = self._replace(connection)
        if problem:
            self._log(connection, problem)
        connection.close()
        return None, connection

    def _take(self) -> HTTPConnection:
        with self.lock:
            return self.idle.pop() if self.idle else self._open()

    def _open(self) -> HTTPConnection:
        host, port = self.addresses[self.current]
        return HTTPConnection(host, port, timeout=ANSWER_S)

    def _replace(self, connection: HTTPConnection) -> HTTPConnection:
        """Close a connection, and return one to the next address, unless another thread has gone on to it already."""
        connection.close()
        failed = HostPort(connection.host, connection.port)
        with self.lock:
            if failed == self.addresses[self.current]:
                self.current = (self.current + 1) % len(self.addresses)
            return self._open()

    def _put_back(self, connection: HTTPConnection) -> None:
        with self.lock:
            if not self.is_closed:
                self.idle.append(connection)
                return
        connection.close()

    def _log(self, connection: HTTPConnection, problem: str) -> None:
        if time.monotonic() >= self.log_again_at:
            self.log_again_at = time.monotonic() + LOG_AGAIN_S
            host_port = HostPort(connection.host, connection.port)
            log.warning("Restate's ingress at %s %s. Jobs are announced again until it accepts them.", host_port, problem)


# The HTTP server that accepts deliveries from Restate.


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
async def run_server(app: Any, host_port: HostPort, secret: str = "") -> AsyncIterator["asyncio.Task[None]"]:
    """Serve an ASGI application to callers that know the secret, and yield the task that does it. At the end, connections are
    closed even if requests are under way: Restate delivers them to another process."""
    with open_listener(host_port) as listener:
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


def open_listener(host_port: HostPort) -> socket.socket:
    """Listen on an address. Several processes of one user on one machine may share it, and the kernel spreads the connections."""
    listener = socket.socket(socket.AF_INET6 if ":" in host_port.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host_port.host, host_port.port))
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
    """Refuse requests without the secret, end requests whose body is longer than any delivery, and close the connection after each
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


# Jobs dispatched by Restate. An announcement is a one-way call with a delay, and its delivery is an HTTP request to a
# worker.


SENDERS = 16  # threads, each with a connection
LONGEST_SILENCE = timedelta(days=1)  # of a job that runs; Restate would end one that is silent for longer and deliver it again
IDEMPOTENCY_RETENTION = timedelta(minutes=2)  # within which a job that is announced twice with one key is delivered once
RETRIES = restate.InvocationRetryPolicy(
    initial_interval=timedelta(milliseconds=50),
    exponentiation_factor=2.0,
    max_interval=timedelta(seconds=5),
    max_attempts=200,  # about 16 minutes without any worker; the engine announces the job again when one is back
    on_max_attempts="kill",
)
RETRY_S, MAX_RETRY_S = 0.1, 30.0  # after how long a job that has to wait is delivered again
RETRIES_PER_S = 100  # of all jobs that have to wait, in one process: a long queue must not take its processor time
REGISTRATION_S = 2.0  # how long announcements wait for the registration of the workers
REGISTER_AGAIN_S, MAX_REGISTER_AGAIN_S = 0.5, 10.0
LISTEN_AGAIN_S = 5.0
JOB_ID_PATTERN = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


class RestateDispatcher:
    def __init__(self, address: RestateAddress, secret: str) -> None:
        self.address = address
        self.secret = secret if address.needs_secret else ""  # a part of the URL of each delivery
        self.ingress = Ingress(address.ingress, address.service)
        self.senders = ThreadPoolExecutor(SENDERS, "restate")
        self.is_unknown = asyncio.Event()  # set when Restate does not know the service
        self.is_registered = asyncio.Event()  # set while it knows the service, as far as this process can tell
        self.log_again_at = 0.0

    async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
        if self.address.admin and not self.is_registered.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.is_registered.wait(), REGISTRATION_S)
        parts = [jobs[first::SENDERS] for first in range(min(SENDERS, len(jobs)))]
        loop = asyncio.get_running_loop()
        refused = await asyncio.gather(*(loop.run_in_executor(self.senders, self.ingress.send, part) for part in parts))
        if self.ingress.misses_service:
            self.ingress.misses_service = False
            self._report_unknown_service()
        return [job_id for part in refused for job_id in part]

    async def serve(self, deliver: Deliver) -> None:
        self.ingress.open()
        try:
            while True:
                await self._serve(deliver)
        finally:
            self.ingress.close()

    async def _serve(self, deliver: Deliver) -> None:
        try:
            async with run_server(build_app(self.address, deliver, RetryPace()), self.address.listen, self.secret) as serving:
                await first_to_end(serving, asyncio.create_task(self._keep_registered()))
        except OSError as error:
            log.error(
                "cannot accept deliveries on %s: %s. Change listen= in HEADWAY_DISPATCH.", self.address.listen, error.strerror
            )
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _keep_registered(self) -> None:
        """Register the endpoint at the start, and again when Restate has lost it, for example with all of its data."""
        while True:
            self.is_registered.clear()
            if self.address.admin:
                await self._register()
            self.is_registered.set()
            self.is_unknown.clear()
            await self.is_unknown.wait()

    async def _register(self) -> None:
        delay_s = REGISTER_AGAIN_S
        while True:
            try:
                return await asyncio.to_thread(register, self.address, self.secret)
            except NotRegistered as error:
                log.warning("could not register %s with Restate, trying again: %s", build_deployment_url(self.address), error)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, MAX_REGISTER_AGAIN_S)

    def _report_unknown_service(self) -> None:
        self.is_unknown.set()
        if not self.address.admin and time.monotonic() >= self.log_again_at:
            self.log_again_at = time.monotonic() + LOG_AGAIN_S
            url = build_deployment_url(self.address)
            log.warning(
                "Restate has no service %s. Register it: restate deployments register --use-http1.1 %s", self.address.service, url
            )


async def first_to_end(*tasks: "asyncio.Task[None]") -> None:
    """Wait until one of the tasks has ended, and cancel the last of them. Raises what the ended one raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        tasks[-1].cancel()


class RetryPace:
    """Spreads the deliveries of jobs that have to wait, so that there are at most RETRIES_PER_S."""

    def __init__(self) -> None:
        self.next_at = 0.0

    def choose_delay(self) -> timedelta:
        now = time.monotonic()
        self.next_at = min(max(self.next_at + 1 / RETRIES_PER_S, now + RETRY_S), now + MAX_RETRY_S)
        return timedelta(seconds=self.next_at - now)


def build_app(address: RestateAddress, deliver: Deliver, pace: RetryPace) -> Any:
    """Build the ASGI application that Restate calls."""
    service = restate.Service(
        address.service,
        inactivity_timeout=LONGEST_SILENCE,
        abort_timeout=LONGEST_SILENCE,
        journal_retention=timedelta(0),
        idempotency_retention=IDEMPOTENCY_RETENTION,
        invocation_retry_policy=RETRIES,
    )

    @service.handler(HANDLER)
    async def deliver_job(_context: restate.Context, announcement: dict[str, Any]) -> None:
        job_id, expires_at = parse_announcement(announcement)
        try:
            await deliver(job_id)
        except NotNow as error:
            if time.time() * 1000 < expires_at:
                raise RetryableError(str(error) or "not now", retry_after=pace.choose_delay()) from None
            # Otherwise the engine has announced the job again.

    keys = [address.identity_key] if address.identity_key else None
    return restate.app([service], protocol="request_response", identity_keys=keys)


def parse_announcement(announcement: object) -> tuple[str, float]:
    """Return the job's id and the time at which its delivery is given up. Callers of Restate's ingress can send anything."""
    match announcement:
        case {"job_id": str(job_id), "expires_at": int(expires_at)} if JOB_ID_PATTERN.fullmatch(job_id):
            return job_id, expires_at
    raise TerminalError("This is not an announcement of a job.", status_code=400)

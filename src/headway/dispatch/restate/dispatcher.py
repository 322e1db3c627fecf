"""Jobs dispatched by Restate. An announcement is a one-way call with a delay, and its delivery is an HTTP request to a worker.

The handler keeps nothing in Restate's journal: it runs the job and returns. It belongs to a service and not to a virtual object,
because a delivery that hangs at a frozen worker must not block the next one of the same job. Each delivery has its own HTTP/1.1
connection, so that whatever balances connections balances jobs.
"""

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import restate
from restate.exceptions import RetryableError, TerminalError

from headway.dispatch.restate.admin import NotRegistered, build_deployment_url, register
from headway.dispatch.restate.ingress import HANDLER, LOG_AGAIN_S, Ingress
from headway.dispatch.restate.server import run_server
from headway.engine.port import Deliver, DueJob, NotNow
from headway.ledger.parsing.restate_address import RestateAddress

log = logging.getLogger("headway.dispatch")

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

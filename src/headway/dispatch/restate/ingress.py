"""Sends announcements to Restate, over connections that are kept. Runs in threads: http.client takes a fraction of the processor
time of asynchronous clients.
"""

import json
import logging
import random
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from threading import Lock
from urllib.parse import quote

from headway.engine.port import DueJob
from headway.ledger.parsing.restate_address import Place

log = logging.getLogger("headway.dispatch")

ANSWER_S = 3.0  # how long one node may take to answer
LOG_AGAIN_S = 60.0
RETRYING_S = 75.0  # how long a delivery that no process can take is repeated; the engine has announced the job again by then
HANDLER = "deliver"


class Ingress:
    """The addresses of Restate's ingress. One that does not answer is left for the next one."""

    def __init__(self, places: tuple[Place, ...], service: str) -> None:
        self.places = places
        self.path = f"/{service}/{HANDLER}/send"
        self.current = random.randrange(len(places))  # noqa: S311  index of the address that is used; processes begin with different ones
        self.idle: list[HTTPConnection] = []
        self.lock = Lock()
        self.is_closed = False
        self.misses_service = False  # whether Restate has answered that it does not know the service
        self.log_again_at = 0.0

    def send(self, jobs: Sequence[DueJob]) -> list[str]:
        """Announce jobs one after the other, and return the ids of those that were not accepted. If no address answers, the rest is
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
        for _ in range(1 + len(self.places)):  # one more, because a kept connection may have been closed meanwhile
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
        host, port = self.places[self.current]
        return HTTPConnection(host, port, timeout=ANSWER_S)

    def _replace(self, connection: HTTPConnection) -> HTTPConnection:
        """Close a connection, and return one to the next address, unless another thread has gone on to it already."""
        connection.close()
        failed = Place(connection.host, connection.port)
        with self.lock:
            if failed == self.places[self.current]:
                self.current = (self.current + 1) % len(self.places)
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
            place = Place(connection.host, connection.port)
            log.warning("Restate's ingress at %s %s. Jobs are announced again until it accepts them.", place, problem)

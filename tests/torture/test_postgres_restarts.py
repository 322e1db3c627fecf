"""Postgres is stopped with `immediate` and restarted while eight writers write: no acknowledged write is lost, and no retried write
runs twice."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from headway.actions.access import idempotency
from headway.actions.access.idempotency import Answer, IdempotentRequest
from headway.actions.todos import todos
from headway.ledger.errors import CommitUncertain, DatabaseUnreachable
from headway.ledger.todo import Draft
from headway.storage.database import Database
from headway.storage.transaction import Transaction
from tests.proofs import Proof
from tests.random_walk import list_contradictions
from tests.surfaces.server_harness import Client, check_problem, run_server, wait_until

PER_SURFACE = 4
BETWEEN = 60  # writes between two restarts
PAUSE_S = 0.02


def restart(server: Any, may_start: Callable[[], bool]) -> None:
    """Stop as `pg_ctl stop -m immediate` does: connections are cut, and the next start recovers committed data from the WAL."""
    postmaster = psutil.Process(server.get_pid())
    os.kill(postmaster.pid, signal.SIGQUIT)
    postmaster.wait(120)
    wait_until(may_start, "a writer is refused")
    server.start()


class Writers:
    """Each writer sends one request after the other, and repeats each until it succeeds."""

    def __init__(self, client: Client, url: str) -> None:
        self.client = client
        self.database = Database(url)
        self.stopped = Event()
        self.acknowledged: list[str] = []
        self.refused: Counter[str] = Counter()

    def write_over_http(self, name: str) -> None:
        number = 0
        while not self.stopped.is_set():
            number += 1
            subject = f"{name}.{number}"
            while (answer := self.post(subject)).status_code != 201:
                check_problem(answer, 503)
                assert int(answer.headers["retry-after"]) > 0
                self.refused[answer.json()["code"]] += 1
                self.stopped.wait(PAUSE_S)
            self.acknowledged.append(subject)

    def have_acknowledged(self, number: int) -> bool:
        return len(self.acknowledged) >= number

    def post(self, subject: str) -> Any:
        return self.client.post("/v1/todos", json={"subject": subject}, headers={"Idempotency-Key": subject})

    async def write_embedded(self, name: str) -> None:
        number = 0
        while not self.stopped.is_set():
            number += 1
            subject = f"{name}.{number}"
            while not await self.try_add(subject):
                await asyncio.sleep(PAUSE_S)
            self.acknowledged.append(subject)

    async def try_add(self, subject: str) -> bool:
        tenant_id = self.client.desk.tenant.id

        def add(tx: Transaction) -> Answer:
            return Answer(201, str(todos.add_todo(tx, tenant_id, Draft(subject)).id))

        try:
            await self.database.of(tenant_id).write(
                lambda tx: idempotency.run_once(tx, tenant_id, IdempotentRequest("library", subject, ""), add)
            )
        except (DatabaseUnreachable, CommitUncertain) as error:
            self.refused[error.code] += 1
            return False
        return True

    async def write_all_embedded(self) -> None:
        await asyncio.gather(*(self.write_embedded(f"library {number}") for number in range(PER_SURFACE)))


@contextmanager
def run_writers(client: Client, url: str) -> Iterator[Writers]:
    writers = Writers(client, url)
    with ThreadPoolExecutor(PER_SURFACE + 1) as pool:
        work = [pool.submit(writers.write_over_http, f"http {number}") for number in range(PER_SURFACE)]
        work.append(pool.submit(lambda: asyncio.run(writers.write_all_embedded())))
        try:
            yield writers
        finally:
            writers.stopped.set()
            for future in work:
                future.result()
            writers.database.close()


@pytest.mark.proof
def test_nothing_acknowledged_is_lost_or_done_twice_when_postgres_is_stopped_on_the_spot(
    own_postgres: Any, tmp_path: Path, proof: Proof
) -> None:
    restarts = proof.trials("Postgres stopped at once and restarted, 8 writers", share=2, whole=50)
    url = own_postgres.get_uri()
    with run_server(url, tmp_path) as service, service.tenant() as client:
        with run_writers(client, url) as writers:
            for number in range(restarts):
                target = len(writers.acknowledged) + BETWEEN
                wait_until(partial(writers.have_acknowledged, target), f"writing goes on, restart {number}")
                # Writers notice the first outage. The next one is as short as possible, so that retries can hide it.
                restart(own_postgres, lambda: bool(writers.refused))
            wait_until(partial(writers.have_acknowledged, target + BETWEEN), "writing goes on")
        created = [todo["subject"] for change, todo in client.desk.changes() if change == "created"]

        assert sorted(created) == sorted(writers.acknowledged)
        assert len(set(created)) == len(created)
        assert client.desk.count("todos") == len(created)
        assert client.desk.read(list_contradictions) == []

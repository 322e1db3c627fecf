"""Writers and servers are killed with SIGKILL at random moments, repeatedly: every acknowledged write is stored, and counters match
the rows."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest

from headway.actions.access import tokens
from headway.actions.installation import tenants
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.todo_writers import WriterServer, Writing, run_writer_server
from tests.proofs import Proof
from tests.random_walk import list_contradictions
from tests.surfaces.server_harness import client_options, run_server

CALLERS = 4


@pytest.fixture(scope="session")
def writers() -> Iterator[WriterServer]:
    with run_writer_server() as server:
        yield server


@pytest.mark.proof
def test_writes_acknowledged_to_a_killed_writer_are_stored(
    writers: WriterServer, database_url: str, tmp_path: Path, proof: Proof
) -> None:
    kind = database_url.partition(":")[0]
    trials = proof.seeds(f"kill -9 of a writer at random, {kind}", share=8, whole=1_500)
    with DirectDatabase(database_url) as database:
        for seed in trials:
            desk = TenantHarness(database, f"tenant {seed}")
            acknowledged = tmp_path / f"acknowledged {seed}"
            writer = psutil.Process(writers.send_out(Writing(database_url, desk.tenant.id, str(acknowledged), f"{seed}")))
            wait_for_more(acknowledged, than=random.Random(seed).randrange(60))
            writer.kill()
            psutil.wait_procs([writer])
            stored = dict(desk.read(lambda tx, tenant_id: tx.all("SELECT id, status FROM todos WHERE tenant_id = ?", tenant_id)))
            lines = [line.split() for line in acknowledged.read_text().splitlines()]
            expected = {int(number): status for number, status in lines}  # the last line of a todo counts
            ahead = {number for number, status in expected.items() if stored.get(number) != status}
            # The stored status may be ahead of the acknowledged one, never behind.
            assert {(expected[number], stored.get(number)) for number in ahead} <= {("pending", "completed")}, seed
            assert desk.read(list_contradictions) == [], seed
            database.write(partial(tenants.remove_tenant, name=desk.tenant.name))


def wait_for_more(acknowledged: Path, than: int) -> None:
    """Wait until the file has this many lines, so that the kill comes at a random moment after."""
    while not acknowledged.exists() or acknowledged.stat().st_size < than * 10:
        time.sleep(0.0005)


@pytest.mark.proof
def test_writes_acknowledged_by_a_killed_server_are_stored_and_retries_run_once(
    sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    chance = random.Random(1)
    with DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        secret = desk.write(tokens.create_token, "a test").secret
        callers = [Caller(secret, f"caller{number}") for number in range(CALLERS)]
        for _ in proof.seeds("kill -9 of a server at random, sqlite", share=2, whole=300):
            with run_server(sqlite_url, tmp_path) as service:
                threads = [threading.Thread(target=caller.call, args=(service.url,)) for caller in callers]
                for thread in threads:
                    thread.start()
                time.sleep(chance.uniform(0, 0.3))
                os.kill(service.process.pid, signal.SIGKILL)
                service.process.wait()
                for thread in threads:
                    thread.join()
        subjects = desk.read(lambda tx, tenant_id: tx.all("SELECT subject FROM todos WHERE tenant_id = ?", tenant_id))
        stored = [subject for (subject,) in subjects]
        assert len(stored) == len(set(stored))
        assert {name for caller in callers for name in caller.answered} <= set(stored)
        assert desk.read(list_contradictions) == []


class Caller:
    """Adds todos as fast as it gets responses. It repeats unanswered requests with the same key."""

    def __init__(self, secret: str, name: str) -> None:
        self.secret, self.name = secret, name
        self.answered: list[str] = []

    def call(self, url: str) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self.secret}"}, **client_options(url)) as client:
            while True:
                subject = f"{self.name}.{len(self.answered)}"
                try:
                    answer = client.post("/v1/todos", json={"subject": subject}, headers={"Idempotency-Key": subject})
                except httpx.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                self.answered.append(subject)

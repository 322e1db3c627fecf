"""Another process keeps a SQLite ledger locked: writes wait, up to a limit, then say so; reads go on; and no update is lost."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from time import monotonic

import pytest
from serving import Client, problem, serving

from proofs import Proof

LIMIT_S = 10  # that writes wait, before they say 503
WRITERS = 4

# Changes the ledger by the same actions as everybody, and takes its time before it commits.
KEEP_LOCKED = """
import sys, time
from headway.actions import todos
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase

def slowly(tx):
    todos.add(tx, int(sys.argv[2]), Draft("of the one who locked it"))
    print("locked", flush=True)
    time.sleep(float(sys.argv[3]))

with DirectDatabase(sys.argv[1]) as database:
    database.write(slowly)
"""


@contextmanager
def locked(url: str, tenant_id: int, seconds: float) -> Iterator[None]:
    with Popen([sys.executable, "-c", KEEP_LOCKED, url, str(tenant_id), str(seconds)], stdout=PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "locked\n"
            yield
            assert holder.wait(60) == 0
        finally:
            holder.kill()


def write_until_it_is_done(client: Client, subject: str) -> int:
    """As a good client does: the same request again, with its key, when it is told to come back. How often it was refused."""
    refused = 0
    while True:
        answer = client.post("/v1/todos", json={"subject": subject}, headers={"Idempotency-Key": subject})
        if answer.status_code == 201:
            return refused
        assert "locked by another process for 10 s; nothing was changed" in problem(answer, 503, "database_busy")
        assert int(answer.headers["retry-after"]) > 0
        refused += 1


def survives(folder: Path, seconds: float) -> None:
    folder.mkdir()
    url = f"sqlite:///{folder / 'headway.db'}"
    with serving(url, folder) as service, service.tenant() as client, ThreadPoolExecutor(WRITERS) as pool:
        client.add("before")
        with locked(url, client.desk.tenant.id, seconds):
            began = monotonic()
            waiting = [pool.submit(write_until_it_is_done, client, f"writer {number}") for number in range(WRITERS)]
            assert client.subjects() == ["before"], "reads go on, and see nothing that is not committed"
            assert client.get("/healthz").status_code == 200
            refused = [one.result() for one in waiting]
            waited = monotonic() - began
        stored = client.subjects()

    assert sorted(stored) == sorted(["before", "of the one who locked it", *(f"writer {number}" for number in range(WRITERS))])
    assert waited > seconds / 2, f"{seconds} s: nobody had to wait, this showed nothing"
    assert all(refused) == (seconds > 2 * LIMIT_S), f"{seconds} s: {refused}"
    assert any(refused) == (seconds > LIMIT_S), f"{seconds} s: {refused}"


@pytest.mark.proof
def test_a_ledger_that_is_locked_for_a_while_is_waited_for_then_refused_and_loses_no_update(tmp_path: Path, proof: Proof) -> None:
    proof.trials("SQLite locked by another process for 1, 5 and 30 s", share=3, whole=3)
    with ThreadPoolExecutor(3) as pool:  # at once: it is nothing but waiting
        for trial in [pool.submit(survives, tmp_path / str(seconds), seconds) for seconds in (1, 5, 30)]:
            trial.result()

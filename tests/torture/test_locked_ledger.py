"""Another process keeps a SQLite ledger locked: writes wait, then fail with 503; reads continue; and no update is lost."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from time import monotonic, sleep

import pytest

from tests.proofs import Proof
from tests.surfaces.server_harness import Client, check_problem, run_server, wait_until

LIMIT_S = 10  # writes wait this long before they fail with 503
WRITERS = 4

# Changes the ledger through the same actions as every client, and holds the lock until it gets a line.
KEEP_LOCKED = """
import sys
from headway.actions.todos import todos
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase

def slowly(tx):
    todos.add_todo(tx, int(sys.argv[2]), Draft("of the one who locked it"))
    print("locked", flush=True)
    input()

with DirectDatabase(sys.argv[1]) as database:
    database.write(slowly)
"""


@contextmanager
def hold_lock(url: str, tenant_id: int) -> Iterator[None]:
    with Popen([sys.executable, "-c", KEEP_LOCKED, url, str(tenant_id)], stdin=PIPE, stdout=PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "locked\n"
            yield
            holder.communicate("\n", timeout=60)
            assert holder.returncode == 0
        finally:
            holder.kill()


def write_until_it_is_done(client: Client, subject: str, refused: set[str]) -> None:
    """Retry a request with its key until it succeeds, as a well-behaved client does. Add it to `refused` if it was."""
    while True:
        answer = client.post("/v1/todos", json={"subject": subject}, headers={"Idempotency-Key": subject})
        if answer.status_code == 201:
            return
        assert "locked by another process for 10 s; nothing was changed" in check_problem(answer, 503, "database_busy")
        assert int(answer.headers["retry-after"]) > 0
        refused.add(subject)


def check_locked(folder: Path, seconds: float) -> None:
    folder.mkdir()
    writers, refused = [f"writer {number}" for number in range(WRITERS)], set[str]()
    url = f"sqlite:///{folder / 'headway.db'}"
    with run_server(url, folder) as service, service.tenant() as client, ThreadPoolExecutor(WRITERS) as pool:
        client.add("before")
        began = monotonic()
        with hold_lock(url, client.desk.tenant.id):
            end = monotonic() + seconds
            waiting = [pool.submit(write_until_it_is_done, client, writer, refused) for writer in writers]
            assert client.subjects() == ["before"], "reads go on, and see nothing that is not committed"
            assert client.get("/healthz").status_code == 200
            sleep(max(0, end - monotonic()))
            if seconds >= LIMIT_S:
                wait_until(lambda: refused == set(writers), "every writer is refused")
            assert not any(future.done() for future in waiting), "nothing is acknowledged before it can be stored"
        held = monotonic() - began
        for future in waiting:
            future.result()
        stored = client.subjects()

    assert sorted(stored) == sorted(["before", "of the one who locked it", *writers])
    if held < LIMIT_S:
        assert not any(refused), refused


@pytest.mark.proof
def test_a_ledger_that_is_locked_for_a_while_is_waited_for_then_refused_and_loses_no_update(tmp_path: Path, proof: Proof) -> None:
    longest = 30 if proof.whole else LIMIT_S
    proof.tried(f"SQLite locked by another process for 1, 5 and at least {longest} s", 3)
    with ThreadPoolExecutor(3) as pool:  # in parallel, because the trials only wait
        for trial in [pool.submit(check_locked, tmp_path / str(seconds), seconds) for seconds in (1, 5, longest)]:
            trial.result()

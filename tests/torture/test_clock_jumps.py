"""The system clock jumps an hour or a year ahead or back: leases of running processes stay valid, leases of killed ones expire, and
short delays stay short. On SQLite the clock is the machine's; on Postgres it is that of one worker among several."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headway.storage.direct import DirectDatabase
from headway.storage.stores import events as event_store
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    build_environment,
    build_rules,
    check_each_ended_once,
    count_owners,
    count_unfinished,
    enqueue,
    list_events,
    make_home,
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.jumping_server import run_jumping_server
from tests.model_server import ModelProcess, run_model_process
from tests.proofs import Proof
from tests.surfaces.server_harness import PATIENCE_S, wait_until

HOUR, YEAR = 3600, 365 * 24 * 3600
JUMPS = {"an hour ahead": HOUR, "an hour back": -HOUR, "a year ahead": YEAR, "a year back": -YEAR}
LONG_S = 3  # longer than two polls for expired leases


class JumpingClock:
    """The wall clock of the processes started with this environment."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clock"
        self.ahead_s = 0
        self.path.write_bytes(struct.pack("<q", 0))

    @property
    def environment(self) -> dict[str, str]:
        return {"JUMPING_CLOCK": str(self.path), "PYTHONPATH": str(Path(__file__).parent / "jumping")}

    def jump(self, by_s: int) -> None:
        self.ahead_s += by_s
        with self.path.open("r+b") as file:
            file.write(struct.pack("<q", self.ahead_s))


def build_model_rules(jumps: Mapping[str, int]) -> list[dict[str, object]]:
    """At each jump one turn waits for a slow model, and one for its retry. Another turn is left behind by a killed worker."""
    rules: list[dict[str, object]] = []
    for n, _ in enumerate(jumps):
        slow, again = f"slow{n}", f"again{n}"
        rules.append(
            {"when": {"contains": f"Note {again}."}, "reply": {"error": {"status": 503, "retry_after": LONG_S}}, "times": 1}
        )
        when = {"contains": f"Note {slow}.", "tool_results": 1}
        rules.append({"when": when, "reply": {"text": f"Noted {slow}.", "seconds": LONG_S}})
        rules += build_rules([slow, again])
    return [*rules, *build_rules(["warm0", "warm1", "left"], stuck_after=["left"])]


@contextmanager
def run_workers(database_url: str, folder: Path) -> Iterator[tuple[TenantHarness, ModelProcess, JumpingClock]]:
    """Two workers. On Postgres, which has its own clock, only one of them gets the clock that jumps."""
    make_home(folder)
    clock = JumpingClock(folder)
    with (
        run_model_process(build_model_rules(JUMPS), folder) as model,
        DirectDatabase(database_url) as database,
    ):
        env = {**build_environment(folder, model, restart_stagger_s="0"), "HEADWAY_MODEL_RETRIES": "0"}
        jumpy = {**env, **clock.environment}
        desk = TenantHarness(database)
        with run_worker(database_url, folder, jumpy) as first:
            warm_up(desk, "warm0")
            with run_worker(database_url, folder, jumpy if database_url.startswith("sqlite") else env):
                first.send(signal.SIGSTOP)  # so that the other worker gets the next turn
                warm_up(desk, "warm1")
                first.send(signal.SIGCONT)
                yield desk, model, clock


def warm_up(desk: TenantHarness, name: str) -> None:
    """Run one turn, because a worker's first turn loads modules, which may take long on a busy machine."""
    enqueue(desk, [name])
    wait_until(lambda: count_unfinished(desk) == 0, "a worker has begun to work", 4 * PATIENCE_S)


def has_delayed(desk: TenantHarness, turns: int) -> bool:
    """Whether this many turns have been delayed, including those that have been continued."""
    return len(list_events(desk, "turn_delayed")) >= turns


@pytest.mark.proof
def test_work_is_neither_taken_from_the_living_nor_left_with_the_dead_when_the_clock_jumps(
    database_url: str, tmp_path: Path, proof: Proof
) -> None:
    jumps = list(JUMPS.values()) if proof.whole else [-HOUR, YEAR]
    proof.tried("clock jumps of an hour and a year: leases, delays, takeover, order", len(jumps))
    names = ["warm0", "warm1"]
    with run_workers(database_url, tmp_path) as (desk, model, clock):
        before = list_events(desk, "recovered")
        for n, by_s in enumerate(jumps):
            names += [f"slow{n}", f"again{n}"]
            model.forget()
            enqueue(desk, names[-2:-1])
            model.wait_for_requests(2)  # the slow turn has made its note and waits for the next answer
            enqueue(desk, names[-1:])
            wait_until(partial(has_delayed, desk, n + 1), "one waits for its next attempt")
            clock.jump(by_s)
            wait_until_all_end(desk)
            assert len(model.requests) == 5, by_s  # no request in progress was repeated
        assert list_events(desk, "recovered") == before
        assert list_events(desk, "job_dead") == []

        model.forget()
        enqueue(desk, ["left"])
        model.wait_for_requests(2)
        ((owner, _),) = count_owners(desk).items()
        clock.jump(-HOUR)
        os.kill(int(owner.split(":")[1]), signal.SIGKILL)
        wait_until_all_end(desk)
        assert [event["runs"] for event in list_events(desk, "recovered")[len(before) :]] == [1]
        check_each_ended_once(desk, [*names, "left"])
        check_order(desk)
        times = [at for (at,) in read_rows(desk, "SELECT at FROM events")]
        has_jumped = max(times) - min(times) > HOUR * 1000
        assert has_jumped == database_url.startswith("sqlite"), "Postgres has a clock of its own"
        assert model.violations == []


@pytest.mark.torture
def test_work_goes_on_in_time_when_the_clock_of_the_server_is_set_back(postgres_url: str, tmp_path: Path) -> None:
    names = ["warm0", "warm1"]
    with run_jumping_server(postgres_url) as server, run_workers(server.url, tmp_path) as (desk, model, _):
        before = list_events(desk, "recovered")
        for n, by_s in enumerate((-60, -HOUR)):
            names += [f"slow{n}", f"again{n}"]
            model.forget()
            enqueue(desk, names[-2:-1])
            model.wait_for_requests(2)
            enqueue(desk, names[-1:])
            wait_until(partial(has_delayed, desk, n + 1), "one waits for its next attempt")
            server.set_ahead(by_s)
            wait_until_all_end(desk)
            assert len(model.requests) == 5, by_s  # no request in progress was repeated
        assert list_events(desk, "recovered") == before
        assert list_events(desk, "job_dead") == []
        check_each_ended_once(desk, names)
        assert model.violations == []


def check_order(desk: TenantHarness) -> None:
    """Check that the log is in the order of events, whatever their timestamps."""
    log = desk.read(event_store.list_after, 0, 100_000)
    assert [event.seq for event in log] == sorted({event.seq for event in log})
    for turn_id in {event.turn_id for event in log if event.turn_id}:
        kinds = [event.kind for event in log if event.turn_id == turn_id and event.kind.startswith(("turn_", "tool_"))]
        kinds = [kind for kind in kinds if kind != "turn_delayed"]  # turns that wait for a retry
        assert kinds == ["turn_started", "tool_call", "tool_result", "turn_finished"]


CLAIMS = """
import struct, sys, time
from headway.actions.todos import claims, todos
from headway.ledger.todo import Draft
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness

url, clock = sys.argv[1:]

def jump(to_s):
    with open(clock, "r+b") as file:
        file.write(struct.pack("<q", to_s))

with DirectDatabase(url) as database:
    desk = TenantHarness(database)
    for to_s in (3600, 0, 31536000, 0):
        desk.add()
        held = desk.write(claims.claim, "ada", None, 60)
        jump(to_s)
        assert desk.write(claims.claim, "bob") is None, "a lease was taken away"
        held = desk.write(claims.heartbeat, held.todo.id, held.lease.token, 1)
        jump(0 if to_s else -3600)
        deadline = time.monotonic() + 30
        while (taken := desk.write(claims.claim, "bob")) is None:
            assert time.monotonic() < deadline, "a lease was kept for longer than it lasts"
            time.sleep(0.05)
        desk.write(todos.end_todo, taken.todo.id, "completed", None, taken.lease.token)
print("held")
"""


@pytest.mark.proof
def test_a_claim_lasts_as_long_as_it_was_to_last_when_the_clock_jumps(database_url: str, tmp_path: Path, proof: Proof) -> None:
    proof.trials("clock jumps of an hour and a year: claims", len(JUMPS), len(JUMPS))
    clock = JumpingClock(tmp_path)
    command = [sys.executable, "-c", CLAIMS, database_url, str(clock.path)]
    ran = subprocess.run(command, env={**os.environ, **clock.environment}, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert (ran.stdout, ran.stderr) == ("held\n", "")

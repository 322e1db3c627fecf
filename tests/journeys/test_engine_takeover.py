"""Two workers on one Postgres. One is killed or frozen: the other takes over its work, and late writes change nothing."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headway.ledger.job import LEASE_MS, SESSION_LEASE_MS
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    Worker,
    build_environment,
    build_rules,
    check_each_ended_once,
    count_notes,
    count_owners,
    enqueue,
    expire_leases,
    list_events,
    make_home,
    make_names,
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.model_server import ModelProcess, run_model_process

NAMES = make_names(range(4))


class Pair:
    """The worker that has all the work, and the one that has none."""

    def __init__(self, desk: TenantHarness, model: ModelProcess, busy: Worker, idle: Worker) -> None:
        self.desk, self.model, self.busy, self.idle = desk, model, busy, idle

    @property
    def last_heartbeat(self) -> int:
        ((beat_at,),) = read_rows(self.desk, "SELECT beat_at FROM worker_leases WHERE executor_id = ?", self.busy.owner)
        return int(beat_at)


@contextmanager
def run_pair(database_url: str, folder: Path, rules: list[dict[str, object]], requests: int) -> Iterator[Pair]:
    """Two running workers. The second starts once the model has received this many requests of the first."""
    make_home(folder)
    with ExitStack() as stack:
        model = stack.enter_context(run_model_process(rules, folder))
        desk = TenantHarness(stack.enter_context(DirectDatabase(database_url)))
        env = build_environment(folder, model, restart_stagger_s="0")
        busy = stack.enter_context(run_worker(database_url, folder, env))
        enqueue(desk, NAMES)
        model.wait_for_requests(requests)
        assert count_owners(desk) == {busy.owner: len(NAMES)}
        idle = stack.enter_context(run_worker(database_url, folder, env))
        yield Pair(desk, model, busy, idle)
        assert model.violations == []


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.torture), signal.SIGSTOP])
def test_the_work_of_a_worker_that_is_gone_is_taken_over_once_its_lease_has_ended(
    how: signal.Signals, postgres_url: str, tmp_path: Path
) -> None:
    rules = build_rules(NAMES, stuck_before=NAMES[:2], stuck_after=NAMES[2:])
    with run_pair(postgres_url, tmp_path, rules, 6) as workers:
        workers.busy.send(how)
        # The server releases the lock of a process that is killed, but not of one that is frozen.
        lease_ends = workers.last_heartbeat + (LEASE_MS if how == signal.SIGSTOP else SESSION_LEASE_MS)
        wait_until_all_end(workers.desk)
        ends = [int(ended) for (ended,) in read_rows(workers.desk, "SELECT ended_at FROM turns")]
        assert lease_ends < min(ends) + 1  # no takeover before the lease has ended
        assert [event["runs"] for event in list_events(workers.desk, "recovered")] == [len(NAMES)]
        check_each_ended_once(workers.desk, NAMES)
        assert count_notes(tmp_path) == dict.fromkeys(NAMES, 1)


def test_a_worker_that_wakes_up_late_with_answers_changes_nothing(postgres_url: str, tmp_path: Path) -> None:
    late = "late"
    rules = build_rules([*NAMES, late])
    make_home(tmp_path)
    with (
        run_model_process(rules, tmp_path) as model,
        DirectDatabase(postgres_url) as database,
    ):
        desk, env = TenantHarness(database), build_environment(tmp_path, model, restart_stagger_s="0")
        with run_worker(postgres_url, tmp_path, env) as frozen, run_worker(postgres_url, tmp_path, env) as other:
            model.hold()
            enqueue(desk, NAMES)
            model.wait_for_requests(len(NAMES))
            victim, successor = (frozen, other) if frozen.owner in count_owners(desk) else (other, frozen)
            victim.send(signal.SIGSTOP)
            expire_leases(desk, victim.owner)
            model.release()  # its answers wait in its sockets
            wait_until_all_end(desk)
            before = [
                read_rows(desk, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in ("messages", "effects", "jobs", "runs")
            ]
            victim.send(signal.SIGCONT)
            assert successor.end() == 0
            (turn_id,) = enqueue(desk, [late])  # by the time this turn ends, the worker has noticed the takeover
            wait_until_all_end(desk)
            assert victim.end() == 0
        assert read_rows(desk, "SELECT status FROM turns WHERE id = ?", turn_id) == [("finished",)]
        check_each_ended_once(desk, [*NAMES, late])
        assert count_notes(tmp_path) == dict.fromkeys([*NAMES, late], 1)
        assert len(list_events(desk, "recovered")) == 1
        after = [read_rows(desk, f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in ("messages", "effects", "jobs", "runs")]
        assert all(set(map(tuple, old)) <= set(map(tuple, new)) for old, new in zip(before, after, strict=True))
        assert model.violations == []

"""A worker is frozen while it holds locks in a transaction, or in the middle of a tool call. Another worker takes over, and the
first one changes nothing when it wakes up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

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
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.model_server import ModelProcess, run_model_process
from tests.surfaces.server_harness import wait_until

SLOW = '''
from pathlib import Path
from threading import Event
from headway.agents.tools.custom import tool

HOME = Path(__file__).parent.parent

@tool
def slowly(name: str) -> str:
    """Notes a name, and takes its time."""
    with (HOME / "notes.txt").open("a") as file:
        print(name, file=file)
    while not (HOME / "go").exists():
        Event().wait(0.01)
    (HOME / "gone").touch()
    return "noted"
'''


@contextmanager
def two_workers(url: str, folder: Path, rules: list[dict[str, Any]]) -> Iterator[tuple[TenantHarness, ModelProcess, list[Worker]]]:
    with run_model_process(rules, folder) as model, DirectDatabase(url) as database:
        env = build_environment(folder, model, restart_stagger_s="0")
        with run_worker(url, folder, env) as first, run_worker(url, folder, env) as second:
            yield TenantHarness(database), model, [first, second]
        assert model.violations == []


def find_busy_worker(desk: TenantHarness, workers: list[Worker]) -> Worker:
    (owner,) = count_owners(desk)
    return next(worker for worker in workers if worker.owner == owner)


def read_state(desk: TenantHarness) -> list[Any]:
    return [
        read_rows(desk, f"SELECT * FROM {table} ORDER BY 1, 2, 3")
        for table in ("messages", "effects", "jobs", "runs", "transcript")
    ]


def wake_and_run_a_turn(desk: TenantHarness, worker: Worker, others: list[Worker]) -> None:
    """Wake the worker and have it answer one more turn, by which time it has noticed the takeover."""
    worker.send(signal.SIGCONT)
    assert [other.end() for other in others if other is not worker] == [0]
    enqueue(desk, ["late"])
    wait_until_all_end(desk)
    assert worker.end() == 0


def test_the_locks_of_a_worker_frozen_in_a_transaction_are_given_up(postgres_url: str, tmp_path: Path) -> None:
    make_home(tmp_path)
    with (
        two_workers(postgres_url, tmp_path, build_rules(["early", "late"])) as (desk, model, workers),
        psycopg.connect(postgres_url, options="-c headway.tenant=all") as other,
    ):
        model.hold()
        enqueue(desk, ["early"])
        model.wait_for_requests(1)
        victim = find_busy_worker(desk, workers)
        # A worker that takes a step first waits for the lock of its job, which this test holds. Its writes and COMMIT travel later.
        other.execute("SELECT 1 FROM jobs WHERE tenant_id = %s AND state = 'running' FOR UPDATE", (desk.tenant.id,))
        model.release()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
        wait_until(lambda: bool(read_rows(desk, waiting)), "it has begun a step")
        victim.send(signal.SIGSTOP)
        expire_leases(desk, victim.owner)
        other.rollback()  # now the frozen worker holds its job's lock

        wait_until_all_end(desk)
        before = read_state(desk)
        wake_and_run_a_turn(desk, victim, workers)
        assert all(set(old) <= set(new) for old, new in zip(before, read_state(desk), strict=True))
        check_each_ended_once(desk, ["early", "late"])
        assert count_notes(tmp_path) == {"early": 1, "late": 1}
        assert [event["runs"] for event in list_events(desk, "recovered")] == [1]


def test_the_result_of_a_worker_frozen_in_a_tool_call_is_refused(postgres_url: str, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    (home / "tools" / "slow.py").write_text(SLOW)
    early = {"contains": "Note early."}
    rules: list[dict[str, Any]] = [
        {"when": {**early, "tool_results": 0}, "reply": {"calls": [{"name": "slowly", "arguments": {"name": "early"}}]}},
        {"when": {**early, "contains": "The effect of this call is unknown"}, "reply": {"text": "Somebody should look."}},
        {"when": early, "reply": {"text": "It was noted."}},
        *build_rules(["late"]),
    ]
    with two_workers(postgres_url, tmp_path, rules) as (desk, _, workers):
        enqueue(desk, ["early"])
        wait_until(lambda: count_notes(tmp_path) == {"early": 1}, "it is in the middle of the call")
        victim = find_busy_worker(desk, workers)
        victim.send(signal.SIGSTOP)
        expire_leases(desk, victim.owner)
        wait_until_all_end(desk)
        (home / "go").touch()
        before = read_state(desk)
        wake_and_run_a_turn(desk, victim, workers)

        assert (home / "gone").exists()  # the tool returned, but its result was refused
        assert all(set(old) <= set(new) for old, new in zip(before, read_state(desk), strict=True))
        assert count_notes(tmp_path) == {"early": 1, "late": 1}
        assert read_rows(desk, "SELECT state FROM effects WHERE tool = 'slowly'") == [("unknown",)]
        answers = [content for (content,) in read_rows(desk, "SELECT content FROM messages WHERE role = 'assistant' ORDER BY id")]
        assert answers == ["Somebody should look.", "Noted late."]
        assert [event["runs"] for event in list_events(desk, "recovered")] == [1]

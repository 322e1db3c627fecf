"""`headway worker`: another process on the same database that runs jobs and ticks, and never runs a job twice."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.surfaces.server_harness import LOCAL_OPTIONS, Service, wait_until
from tests.surfaces.shell import PATIENCE_S, Shell, get_error_line
from tests.warm_start import Program

NOTE = ("--tool", "todo_add", "--args", '{"subject": "look"}')


class Worker:
    """A worker process that has printed its greeting."""

    def __init__(self, process: Program) -> None:
        assert process.stdout is not None
        self.process = process
        self.greeting = process.stdout.readline()

    def end(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Stop the worker, and return its exit code and the rest of its output."""
        self.process.send_signal(by)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.wait(), out, err


@contextmanager
def run_worker(headway: Shell, *flags: str) -> Iterator[Worker]:
    with Program(["worker", *flags], headway.folder) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def list_jobs(headway: Shell, *flags: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = headway.json("jobs", "list", *flags)["jobs"]
    return listed


def test_a_worker_serves_metrics_of_its_jobs(headway: Shell) -> None:
    headway.ok("schedule", "put", "note", "--every", "1h", *NOTE)
    with run_worker(headway, "--json", "--metrics-port", "0") as worker:
        address = json.loads(worker.greeting)["metrics_url"]
        headway.ok("schedule", "run", "note")
        ended = 'headway_jobs_ended_total{kind="tool",state="completed"} 1.0'
        wait_until(lambda: ended in httpx.get(address, **LOCAL_OPTIONS).text, "the job is counted")
        assert "headway_jobs_running 0.0" in httpx.get(address, **LOCAL_OPTIONS).text


def test_a_worker_announces_itself_works_and_stops(headway: Shell, postgres_url: str) -> None:
    flags = ("--database-url", postgres_url)
    headway.ok("schedule", "put", "it", "--every", "1h", *NOTE, *flags)
    headway.ok("schedule", "run", "it", *flags)
    assert list_jobs(headway, *flags)[0]["state"] == "queued"  # no worker is running yet
    with run_worker(headway, *flags) as worker:
        assert worker.greeting.startswith("Worker ")
        assert "model rehearsal" in worker.greeting
        headway.ok("schedule", "put", "beat", "--every", "1s", *NOTE, *flags)
        wait_until(lambda: len(headway.json("todo", "list", *flags)["todos"]) >= 3, "it ticks")
        headway.ok("schedule", "pause", "beat", *flags)
        wait_until(lambda: all(job["state"] == "completed" for job in list_jobs(headway, *flags)), "all is done")
        assert worker.end()[:2] == (0, "")
    assert len(headway.json("todo", "list", *flags)["todos"]) == len(list_jobs(headway, *flags))


def test_a_turn_is_answered_by_a_worker(headway: Shell) -> None:
    headway.ok("conversation", "new", "--key", "talk")
    headway.ok("schedule", "put", "it", "--every", "1h", "--message", "What time is it?", "--conversation", "talk")
    headway.ok("schedule", "run", "it")
    with run_worker(headway, "--json") as worker:
        document = json.loads(worker.greeting)
        assert set(document) == {"worker", "database", "model"}
        assert document["database"] == f"sqlite:///{headway.ledger}"
        wait_until(lambda: list_jobs(headway)[0]["state"] == "completed", "the turn ends")
        assert headway.json("agents", "list")["agents"][0]["status"] == "completed"
        assert worker.end(signal.SIGINT) == (0, "", "")


def test_a_worker_ticks_beside_a_server(headway: Shell, postgres_service: Service) -> None:
    with run_worker(headway, "--database-url", postgres_service.database_url) as worker, postgres_service.tenant() as client:
        path = "/v1/schedules/it"
        client.ok("PUT", path, json={"every_s": 1, "tool": {"name": "todo_add", "arguments": {"subject": "look"}}})
        wait_until(lambda: len(client.subjects()) >= 2, "it has ticked twice")
        client.ok("POST", f"{path}/pause")
        wait_until(lambda: all(job["state"] == "completed" for job in client.ok("GET", "/v1/jobs")["jobs"]), "all is done")
        assert worker.end()[0] == 0
        jobs_run = client.ok("GET", "/v1/jobs")["jobs"]
        assert len(client.subjects()) == len(jobs_run)
        assert len(jobs_run) <= jobs_run[0]["created_at"] - jobs_run[-1]["created_at"] + 2  # whole seconds, and a tick at each end


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--log-level", "loud"), 2),
        (("--database-url", "oracle://localhost/x"), 2),
        (("--database-url", "postgresql://127.0.0.1:1/x?connect_timeout=1"), 1),
        (("--home", "/dev/null/nowhere"), 1),
        (("now",), 2),
    ],
)
def test_an_unusable_configuration_is_one_line(headway: Shell, flags: tuple[str, ...], code: int) -> None:
    get_error_line(headway("worker", *flags), code)


def test_settings_that_are_wrong_are_one_line(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_RESTART_STAGGER_S", "soon")
    assert "HEADWAY_RESTART_STAGGER_S" in get_error_line(headway("worker"), 2)

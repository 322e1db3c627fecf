"""Half an hour of mixed load on Postgres: turns, goals, schedules, readers of the log, and two workers, one of which is killed
every minute. At the end nothing is stuck, nothing was done twice, every reader has every event, and the server's memory has not
grown.

HEADWAY_TEST_SOAK_S sets a shorter duration; the minutes shrink with it.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.journeys import goal_scenario
from tests.journeys.goal_scenario import Errand
from tests.journeys.worker_processes import Worker, build_environment, count_notes, read_rows, run_worker
from tests.model_server import ModelServer, Reply, Request, text
from tests.proofs import Proof
from tests.surfaces.event_stream import list_logged_ids
from tests.surfaces.server_harness import Client, Service, client_options, run_server, wait_until

MINUTES = 30
READERS = 20
EVENTS_A_MINUTE_MB = 1  # allowed growth of the server's memory per minute, less than a tenth of the events it sends in one
ERRANDS_OF = re.compile(r"Run the errands of (\w+)\.")


def reply(request: Request) -> Reply:
    """Plan each goal as four errands with names of their own; answer a schedule's tick without any work."""
    if request.tools == ["submit_plan"]:
        (goal,) = set(ERRANDS_OF.findall(request.last))
        return goal_scenario.plan_reply(plan(goal))
    if "Tick." in request.last:
        return text("Tock.")
    return goal_scenario.reply(request)


def plan(goal: str) -> list[Errand]:
    first, second, third, fourth = (f"{goal}_{letter}" for letter in "abcd")
    return [
        Errand(first, "agent"),
        Errand(second, "inline"),
        Errand(third, "agent", (first,)),
        Errand(fourth, "inline", (second, third)),
    ]


class Load:
    """The load from people and programs. Each thread runs until it is stopped, and records its failure."""

    def __init__(self, service: Service, client: Client) -> None:
        self.service, self.client = service, client
        self.stopped = threading.Event()
        self.noted: list[str] = []  # the names that were requested
        self.received: list[list[int]] = [[] for _ in range(READERS)]
        self.failures: list[BaseException] = []

    @contextmanager
    def run(self) -> Iterator[None]:
        tasks = [self.send_messages, self.set_goals, *(lambda to=to: self.read_log(to) for to in self.received)]
        threads = [threading.Thread(target=self.record_failure, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()

    def record_failure(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as failure:
            self.failures.append(failure)
            raise

    def open_client(self) -> httpx.Client:
        return httpx.Client(headers={"Authorization": f"Bearer {self.client.secret}"}, **client_options(self.service.url))

    def send_messages(self) -> None:
        with self.open_client() as http:
            for number in count(1):
                name = f"turn{number}"
                conversation = http.post("/v1/conversations", json={"key": name}).raise_for_status().json()["conversation"]
                http.post(f"/v1/conversations/{conversation['id']}/messages", json={"content": f"Note {name}."}).raise_for_status()
                self.noted.append(name)
                if self.stopped.wait(0.5):
                    return

    def set_goals(self) -> None:
        with self.open_client() as http:
            for number in count(1):
                name = f"goal{number}"
                body = {"description": f"Run the errands of {name}.", "success_criteria": "Everything is noted."}
                http.post("/v1/goals", json=body).raise_for_status()
                self.noted += [errand.name for errand in plan(name)]
                if self.stopped.wait(6):
                    return

    def read_log(self, received: list[int]) -> None:
        """Read as a browser does: for a while, then reconnect after the last event."""
        with self.open_client() as http:
            while not self.stopped.is_set():
                place = {"Last-Event-ID": str(received[-1] if received else 0)}
                with http.stream("GET", "/v1/events", headers=place) as stream:
                    self.read_stream(stream, received, until=time.monotonic() + 20)

    def read_stream(self, stream: httpx.Response, received: list[int], until: float) -> None:
        number = None
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            match name, value:
                case "id", _:
                    number = int(value)
                case "event", "ping":
                    number = None  # a ping carries the log's position, but is not an event of the log
                case "", _ if number is not None:
                    received.append(number)
                    number = None
            if name == "" and (self.stopped.is_set() or time.monotonic() > until):
                return


@pytest.mark.torture
def test_half_an_hour_of_everything_leaves_nothing_behind(new_postgres_url: str, tmp_path: Path, proof: Proof) -> None:
    minute_s = float(os.environ.get("HEADWAY_TEST_SOAK_S", 60 * MINUTES)) / MINUTES
    proof.trials("soak: kills of one of two workers in half an hour of everything", share=MINUTES, whole=MINUTES)
    goal_scenario.make_home(tmp_path / "home")
    (tmp_path / "home" / "agents" / "index.toml").write_text('tools = ["own", "delegate", "ledger"]\n')
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer(reply))
        env = build_environment(tmp_path, model, restart_stagger_s="0", check_in_s="30")
        service = stack.enter_context(run_server(new_postgres_url, tmp_path, environment=env))
        client = stack.enter_context(service.tenant())
        add_schedules(client)
        load = Load(service, client)
        server = psutil.Process(service.process.pid)
        sizes: list[float] = []
        with load.run(), Shift(stack, new_postgres_url, tmp_path, env) as pair:
            for minute in range(MINUTES):
                load.stopped.wait(minute_s)
                pair.kill_one(minute)
                model.forget()
                sizes.append(server.memory_info().rss / 1e6)
                print(f"minute {minute + 1}: {sizes[-1]:.0f} MB, {len(load.noted)} errands", file=sys.stderr, flush=True)
                assert load.failures == []
            assert load.failures == []
            for name in ("tick", "tock"):
                client.ok("DELETE", f"/v1/schedules/{name}")
            load.stopped.set()
            wait_until_done(client)
        check_final_state(client)
        assert model.violations == []
        done = count_notes(tmp_path)
        uncertain = list_noted_names(client, "unknown")
        assert set(done.values()) == {1}
        assert set(load.noted) - uncertain <= set(done) <= set(load.noted)
        check_received_events(load, list_logged_ids(client))
        assert sizes[-1] - sizes[MINUTES // 5] < (MINUTES - MINUTES // 5) * EVENTS_A_MINUTE_MB, sizes


def add_schedules(client: Client) -> None:
    message = {"conversation_id": client.conversation(key="ticks"), "content": "Tick."}
    client.ok("PUT", "/v1/schedules/tick", json={"every_s": 3, "message": message})
    client.ok("PUT", "/v1/schedules/tock", json={"every_s": 2, "tool": {"name": "todo_add", "arguments": {"subject": "tock"}}})


class Shift:
    """Two workers. A killed one is replaced at once."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, env: dict[str, str]) -> None:
        self.stack, self.url, self.folder, self.env = stack, url, folder, env

    def __enter__(self) -> "Shift":
        self.workers = [self.start_worker(), self.start_worker()]
        return self

    def __exit__(self, *_: object) -> None:
        return

    def start_worker(self) -> Worker:
        return self.stack.enter_context(run_worker(self.url, self.folder, self.env))

    def kill_one(self, minute: int) -> None:
        place = minute % len(self.workers)
        assert self.workers[place].end(signal.SIGKILL) == -signal.SIGKILL
        self.workers[place] = self.start_worker()


def wait_until_done(client: Client) -> None:
    def open_work() -> list[Any]:
        return read_rows(client.desk, "SELECT kind, state FROM jobs WHERE state NOT IN ('completed', 'canceled', 'failed')")

    deadline = time.monotonic() + 120
    while open_work() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert open_work() == []
    wait_until(lambda: read_rows(client.desk, "SELECT id FROM turns WHERE ended_at = 0") == [], "every turn ends")


def list_noted_names(client: Client, state: str) -> set[str]:
    rows = read_rows(client.desk, "SELECT arguments FROM effects WHERE state = ? AND tool = 'note'", state)
    return {name for (arguments,) in rows for name in re.findall(r'"name": ?"(\w+)"', str(arguments))}


def check_final_state(client: Client) -> None:
    """Check that everything completed, and that stored counters match the rows."""
    desk = client.desk
    assert read_rows(desk, "SELECT DISTINCT status FROM goals") == [("completed",)]
    assert read_rows(desk, "SELECT DISTINCT status FROM sub_goals") == [("completed",)]
    assert read_rows(desk, "SELECT DISTINCT state FROM jobs") == [("completed",)]
    assert read_rows(desk, "SELECT id FROM jobs WHERE owner <> ''") == []
    assert read_rows(desk, "SELECT id FROM turns WHERE (ended_at = 0) <> (status = 'running')") == []
    assert read_rows(desk, "SELECT id FROM todos WHERE (completed_at = 0) <> (status IN ('pending', 'in_progress'))") == []
    assert read_rows(desk, "SELECT tenant_id FROM pools WHERE reserved <> 0") == []
    ended = [
        json.loads(data)["sub_goal_id"] for (data,) in read_rows(desk, "SELECT data FROM journal WHERE kind = 'sub_goal_ended'")
    ]
    assert sorted(ended) == [number for (number,) in read_rows(desk, "SELECT id FROM sub_goals ORDER BY id")]
    gaps = "SELECT goal_id FROM journal GROUP BY goal_id HAVING MIN(n) <> 1 OR MAX(n) <> COUNT(*)"
    assert read_rows(desk, gaps) == []


def check_received_events(load: Load, log: list[int]) -> None:
    """Check that each reader got the log from its beginning, without a gap."""
    for received in load.received:
        assert received == log[: len(received)]
        assert len(received) > len(log) // 2

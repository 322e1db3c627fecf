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
        self.heard: list[list[int]] = [[] for _ in range(READERS)]
        self.complaints: list[BaseException] = []

    @contextmanager
    def under_way(self) -> Iterator[None]:
        doings = [self.say_things, self.set_goals, *(lambda to=to: self.read_the_log(to) for to in self.heard)]
        threads = [threading.Thread(target=self.unless_it_fails, args=(doing,)) for doing in doings]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()

    def unless_it_fails(self, doing: Callable[[], None]) -> None:
        try:
            doing()
        except BaseException as failure:
            self.complaints.append(failure)
            raise

    def visitor(self) -> httpx.Client:
        return httpx.Client(headers={"Authorization": f"Bearer {self.client.secret}"}, **client_options(self.service.url))

    def say_things(self) -> None:
        with self.visitor() as visitor:
            for number in count(1):
                name = f"turn{number}"
                conversation = visitor.post("/v1/conversations", json={"key": name}).raise_for_status().json()["conversation"]
                visitor.post(
                    f"/v1/conversations/{conversation['id']}/messages", json={"content": f"Note {name}."}
                ).raise_for_status()
                self.noted.append(name)
                if self.stopped.wait(0.5):
                    return

    def set_goals(self) -> None:
        with self.visitor() as visitor:
            for number in count(1):
                name = f"goal{number}"
                wanted = {"description": f"Run the errands of {name}.", "success_criteria": "Everything is noted."}
                visitor.post("/v1/goals", json=wanted).raise_for_status()
                self.noted += [errand.name for errand in plan(name)]
                if self.stopped.wait(6):
                    return

    def read_the_log(self, heard: list[int]) -> None:
        """Read as a browser does: for a while, then reconnect after the last event."""
        with self.visitor() as visitor:
            while not self.stopped.is_set():
                place = {"Last-Event-ID": str(heard[-1] if heard else 0)}
                with visitor.stream("GET", "/v1/events", headers=place) as stream:
                    self.listen(stream, heard, until=time.monotonic() + 20)

    def listen(self, stream: httpx.Response, heard: list[int], until: float) -> None:
        number = None
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            match name, value:
                case "id", _:
                    number = int(value)
                case "event", "ping":
                    number = None  # a ping carries the log's position, but is not an event of the log
                case "", _ if number is not None:
                    heard.append(number)
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
        put_schedules(client)
        load = Load(service, client)
        server = psutil.Process(service.process.pid)
        sizes: list[float] = []
        with load.under_way(), Shift(stack, new_postgres_url, tmp_path, env) as shift:
            for minute in range(MINUTES):
                load.stopped.wait(minute_s)
                shift.kill_one(minute)
                model.forget()
                sizes.append(server.memory_info().rss / 1e6)
                print(f"minute {minute + 1}: {sizes[-1]:.0f} MB, {len(load.noted)} errands", file=sys.stderr, flush=True)
                assert load.complaints == []
            assert load.complaints == []
            for name in ("tick", "tock"):
                client.ok("DELETE", f"/v1/schedules/{name}")
            load.stopped.set()
            until_all_is_done(client)
        check_the_books(client)
        assert model.violations == []
        done = count_notes(tmp_path)
        uncertain = effects_in(client, "unknown")
        assert set(done.values()) == {1}
        assert set(load.noted) - uncertain <= set(done) <= set(load.noted)
        check_what_was_heard(load, list_logged_ids(client))
        assert sizes[-1] - sizes[MINUTES // 5] < (MINUTES - MINUTES // 5) * EVENTS_A_MINUTE_MB, sizes


def put_schedules(client: Client) -> None:
    message = {"conversation_id": client.conversation(key="ticks"), "content": "Tick."}
    client.ok("PUT", "/v1/schedules/tick", json={"every_s": 3, "message": message})
    client.ok("PUT", "/v1/schedules/tock", json={"every_s": 2, "tool": {"name": "todo_add", "arguments": {"subject": "tock"}}})


class Shift:
    """Two workers. A killed one is replaced at once."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, env: dict[str, str]) -> None:
        self.stack, self.url, self.folder, self.env = stack, url, folder, env

    def __enter__(self) -> "Shift":
        self.workers = [self.hire(), self.hire()]
        return self

    def __exit__(self, *_: object) -> None:
        return

    def hire(self) -> Worker:
        return self.stack.enter_context(run_worker(self.url, self.folder, self.env))

    def kill_one(self, minute: int) -> None:
        place = minute % len(self.workers)
        assert self.workers[place].end(signal.SIGKILL) == -signal.SIGKILL
        self.workers[place] = self.hire()


def until_all_is_done(client: Client) -> None:
    def open_work() -> list[Any]:
        return read_rows(client.desk, "SELECT kind, state FROM jobs WHERE state NOT IN ('completed', 'canceled', 'failed')")

    deadline = time.monotonic() + 120
    while open_work() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert open_work() == []
    wait_until(lambda: read_rows(client.desk, "SELECT id FROM turns WHERE ended_at = 0") == [], "every turn ends")


def effects_in(client: Client, state: str) -> set[str]:
    found = read_rows(client.desk, "SELECT arguments FROM effects WHERE state = ? AND tool = 'note'", state)
    return {name for (arguments,) in found for name in re.findall(r'"name": ?"(\w+)"', str(arguments))}


def check_the_books(client: Client) -> None:
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


def check_what_was_heard(load: Load, log: list[int]) -> None:
    """Check that each reader got the log from its beginning, without a gap."""
    for heard in load.heard:
        assert heard == log[: len(heard)]
        assert len(heard) > len(log) // 2

"""`headway halt` in one process stops the agents of all processes, and `headway unhalt` resumes them."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    build_environment,
    count_owners,
    count_unfinished,
    enqueue,
    list_events,
    make_home,
    make_names,
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.model_server import ModelServer, Reply, Request, calls, slow, text
from tests.surfaces.conversation_client import messages_path, say
from tests.surfaces.server_harness import Client, run_server, wait_until
from tests.warm_start import PATIENCE_S, Program

OURS, THEIRS = make_names(range(3)), make_names(range(3, 6))  # of a worker, and of a server
A_WHILE_S = 1.0


def run_command(url: str, folder: Path, env: Mapping[str, str], *words: str) -> Any:
    """Run a command as if in another terminal."""
    with Program([*words, "--json", "--database-url", url], folder, {**os.environ, **env}) as program:
        return json.loads(program.communicate(PATIENCE_S)[0])


def test_a_halt_stops_the_agents_of_all_processes(postgres_url: str, tmp_path: Path) -> None:
    asked: list[float] = []
    done: list[bool] = []

    def restless(_: Request) -> Reply:
        asked.append(time.time())
        return text("Done.") if done else slow(0.1, calls(("note", {"name": "again"}), ("now", {})))

    make_home(tmp_path)
    with ModelServer(restless) as model, DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)
        env = build_environment(tmp_path, model, max_iterations="1000")
        with run_worker(postgres_url, tmp_path, env) as worker:
            enqueue(desk, OURS, limit=1000)
            wait_until(lambda: count_owners(desk) == {worker.owner: 3}, "the worker takes them")
            with run_server(postgres_url, tmp_path, environment=env) as service, Client(service.url, desk) as client:
                for name in THEIRS:
                    say(client, client.conversation(), f"Note {name}.")
                wait_until(lambda: sorted(count_owners(desk).values()) == [3, 3], "both are at work")
                assert run_command(postgres_url, tmp_path, env, "halt", "--why", "enough")["halt"]["halted"]
                wait_until(lambda: not count_owners(desk), "everything is put back")
                called, begun = len(asked), len(read_rows(desk, "SELECT 1 FROM effects"))
                time.sleep(A_WHILE_S)  # time for an agent that did not stop to show up
                assert (len(asked), len(read_rows(desk, "SELECT 1 FROM effects"))) == (called, begun)
                assert count_unfinished(desk) == 6
                assert set(read_rows(desk, "SELECT DISTINCT state, owner, attempts FROM jobs")) == {("queued", "", 0)}
                assert client.ok("GET", "/v1/halt")["halt"]["halted"]
                client.refused("POST", messages_path(client.conversation()), 503, "halted", json={"content": "hello"})

                before = len(asked)
                run_command(postgres_url, tmp_path, env, "unhalt")
                wait_until(lambda: len(asked) > before + 20, "they go on")
                done.append(True)
                wait_until_all_end(desk)
                assert worker.end() == 0
        assert len(list_events(desk, "turn_finished")) == 6
        assert list_events(desk, "recovered") == list_events(desk, "turn_failed") == []
        assert read_rows(desk, "SELECT DISTINCT state FROM effects") == [("succeeded",)]
        calls_made = len(list_events(desk, "tool_call"))
        assert calls_made == len(list_events(desk, "tool_result")) == len(read_rows(desk, "SELECT 1 FROM effects"))
        assert model.violations == []

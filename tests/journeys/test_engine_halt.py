"""`headway halt` in one process stops the agents of all others, and `headway unhalt` lets them go on."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.crew import all_end, enqueue, furnish, named, owners, rows, surroundings, told, unfinished, working
from tests.model_server import ModelServer, Reply, Request, calls, slow, text
from tests.surfaces.chatting import messages_path, say
from tests.surfaces.serving import Client, serving, until
from tests.warm_start import PATIENCE_S, Program

OURS, THEIRS = named(range(3)), named(range(3, 6))  # of a worker, and of a server
A_WHILE_S = 1.0


def command(url: str, folder: Path, env: Mapping[str, str], *words: str) -> Any:
    """Typed at another terminal."""
    with Program([*words, "--json", "--database-url", url], folder, {**os.environ, **env}) as program:
        return json.loads(program.communicate(PATIENCE_S)[0])


def test_a_halt_stops_the_agents_of_all_processes(postgres_url: str, tmp_path: Path) -> None:
    asked: list[float] = []
    done: list[bool] = []

    def restless(_: Request) -> Reply:
        asked.append(time.time())
        return text("Done.") if done else slow(0.1, calls(("note", {"name": "again"}), ("now", {})))

    furnish(tmp_path)
    with ModelServer(restless) as model, DirectDatabase(postgres_url) as database:
        desk = TenantHarness(database)
        env = surroundings(tmp_path, model, max_iterations="1000")
        with working(postgres_url, tmp_path, env) as worker:
            enqueue(desk, OURS, limit=1000)
            until(lambda: owners(desk) == {worker.owner: 3}, "the worker takes them")
            with serving(postgres_url, tmp_path, environment=env) as service, Client(service.url, desk) as client:
                for name in THEIRS:
                    say(client, client.conversation(), f"Note {name}.")
                until(lambda: sorted(owners(desk).values()) == [3, 3], "both are at work")
                assert command(postgres_url, tmp_path, env, "halt", "--why", "enough")["halt"]["halted"]
                until(lambda: not owners(desk), "everything is put back")
                called, begun = len(asked), len(rows(desk, "SELECT 1 FROM effects"))
                time.sleep(A_WHILE_S)  # if somebody went on, it would show
                assert (len(asked), len(rows(desk, "SELECT 1 FROM effects"))) == (called, begun)
                assert unfinished(desk) == 6
                assert set(rows(desk, "SELECT DISTINCT state, owner, attempts FROM jobs")) == {("queued", "", 0)}
                assert client.ok("GET", "/v1/halt")["halt"]["halted"]
                client.refused("POST", messages_path(client.conversation()), 503, "halted", json={"content": "hello"})

                before = len(asked)
                command(postgres_url, tmp_path, env, "unhalt")
                until(lambda: len(asked) > before + 20, "they go on")
                done.append(True)
                all_end(desk)
                assert worker.end() == 0
        assert len(told(desk, "turn_finished")) == 6
        assert told(desk, "recovered") == told(desk, "turn_failed") == []
        assert rows(desk, "SELECT DISTINCT state FROM effects") == [("succeeded",)]
        calls_made = len(told(desk, "tool_call"))
        assert calls_made == len(told(desk, "tool_result")) == len(rows(desk, "SELECT 1 FROM effects"))
        assert model.violations == []

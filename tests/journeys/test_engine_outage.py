"""Postgres restarts while turns are running: all of them recover and end, and nothing is done twice."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headway.ledger.events import TURN_ENDS
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    build_environment,
    count_notes,
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
from tests.model_server import run_model_process
from tests.surfaces.conversation_client import say
from tests.surfaces.server_harness import Client, run_server, wait_until

STEPS = 3
OURS, THEIRS = make_names(range(4)), make_names(range(4, 8))  # of a worker, and of a server


def build_step_rules(names: list[str]) -> list[dict[str, Any]]:
    """Each turn notes its name repeatedly, and every answer takes a moment."""
    return [
        {
            "when": {"contains": f"Note {name}.", "tool_results": step},
            "reply": {
                **({"calls": [{"name": "note", "arguments": {"name": f"{name}.{step}"}}]} if step < STEPS else {"text": "Done."}),
                "seconds": 0.3,
            },
        }
        for name in names
        for step in range(STEPS + 1)
    ]


def test_turns_resume_after_a_postgres_restart(own_postgres: Any, tmp_path: Path) -> None:
    make_home(tmp_path)
    with ExitStack() as stack:
        url = own_postgres.get_uri()
        model = stack.enter_context(run_model_process(build_step_rules(OURS + THEIRS), tmp_path))
        model.hold()  # until the turns of both have started
        env = build_environment(tmp_path, model)
        database = stack.enter_context(DirectDatabase(url))
        desk = TenantHarness(database)
        worker = stack.enter_context(run_worker(url, tmp_path, env))
        service = stack.enter_context(run_server(url, tmp_path, environment=env))
        client = stack.enter_context(Client(service.url, desk))
        enqueue(desk, OURS)
        wait_until(lambda: sum(count_owners(desk).values()) == len(OURS), "somebody takes them")
        for name in THEIRS:
            say(client, client.conversation(), f"Note {name}.")
        turns = len(OURS + THEIRS)
        model.wait_for_requests(turns)
        model.release()
        model.hold()  # the next replies, so that no turn can end before Postgres has stopped
        model.wait_for_requests(2 * turns)
        own_postgres.stop()
        own_postgres.start()
        assert count_unfinished(desk) > 0
        model.release()
        wait_until_all_end(desk)
        assert worker.end() == 0
        ends = [kind for kind, _ in desk.events() if kind in TURN_ENDS]
        assert ends == ["turn_finished"] * len(OURS + THEIRS)
        assert count_notes(tmp_path) == {f"{name}.{step}": 1 for name in OURS + THEIRS for step in range(STEPS)}
        assert list_events(desk, "job_dead") == []
        assert read_rows(desk, "SELECT DISTINCT state FROM effects") == [("succeeded",)]
        assert read_rows(desk, "SELECT DISTINCT state FROM jobs") == [("completed",)]
        assert model.violations == []

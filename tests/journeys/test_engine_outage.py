"""Postgres is restarted while turns are under way: everything goes on by itself and ends, and nothing is done twice."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headway.ledger.events import TURN_ENDS
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.crew import all_end, enqueue, furnish, named, notes, owners, rows, surroundings, told, unfinished, working
from tests.model_server import model_process
from tests.surfaces.chatting import say
from tests.surfaces.serving import Client, serving, until

STEPS = 4
OURS, THEIRS = named(range(8)), named(range(8, 16))  # of a worker, and of a server


def in_steps(names: list[str]) -> list[dict[str, Any]]:
    """Each turn notes its name again and again, and every answer takes a moment."""
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


def test_turns_go_on_after_postgres_was_restarted(own_postgres: Any, tmp_path: Path) -> None:
    furnish(tmp_path)
    with ExitStack() as stack:
        url = own_postgres.get_uri()
        model = stack.enter_context(model_process(in_steps(OURS + THEIRS), tmp_path))
        env = surroundings(tmp_path, model)
        database = stack.enter_context(DirectDatabase(url))
        desk = TenantHarness(database)
        worker = stack.enter_context(working(url, tmp_path, env))
        service = stack.enter_context(serving(url, tmp_path, environment=env))
        client = stack.enter_context(Client(service.url, desk))
        enqueue(desk, OURS)
        until(lambda: sum(owners(desk).values()) == len(OURS), "somebody takes them")
        for name in THEIRS:
            say(client, client.conversation(), f"Note {name}.")
        model.wait_for_requests(30)
        own_postgres.stop()
        own_postgres.start()
        assert unfinished(desk) > 0
        all_end(desk)
        assert worker.end() == 0
        ends = [kind for kind, _ in desk.events() if kind in TURN_ENDS]
        assert ends == ["turn_finished"] * len(OURS + THEIRS)
        assert notes(tmp_path) == {f"{name}.{step}": 1 for name in OURS + THEIRS for step in range(STEPS)}
        assert told(desk, "job_dead") == []
        assert rows(desk, "SELECT DISTINCT state FROM effects") == [("succeeded",)]
        assert rows(desk, "SELECT DISTINCT state FROM jobs") == [("completed",)]
        assert model.violations == []

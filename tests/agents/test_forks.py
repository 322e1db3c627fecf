"""Forks of turns: rows up to a step are copied, recorded results are served, and nothing outside is called without `live`."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions import conversations, turns
from headway.actions.inspection.forks import ForkRequest
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.todo import Todo
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call
from tests.model_server import calls, text

COUNTER = '''
"""A tool that leaves a trace of every call."""
from pathlib import Path
from headway import tool

@tool
def ring(bell: str) -> dict:
    """Ring a bell."""
    with Path(__file__).with_name("rung.txt").open("a") as file:
        file.write(bell + "\\n")
    return {"rung": bell}
'''


@pytest.fixture
def bells(tmp_path: Path) -> Path:
    """Offer a tool that writes a line at every call, and return the file."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bells.py").write_text(COUNTER)
    return tmp_path / "tools" / "rung.txt"


def fork(talk: Talk, turn_id: str, request: ForkRequest) -> dict[str, Any]:
    """Fork a turn, run the fork to its end, and make it the turn that the harness shows."""

    async def run() -> None:
        headway, checked = talk.headway, talk.headway.forks.check(request)
        job = await headway.database.write(lambda tx: headway.forks.begin(tx, talk.tenant_id, turn_id, checked))
        talk.run = talk.database.read(lambda tx: run_store.find(tx, talk.tenant_id, job.id))
        headway.engine.take(job)
        await talk.wait_until_ended(headway.engine.tasks[job.id])

    talk.wait(run())
    return talk.turn()


def list_plan(talk: Talk, turn_id: str) -> list[Todo]:
    return talk.database.read(lambda tx: todo_store.list_by_turn(tx, talk.tenant_id, turn_id))


def summarize(plan: list[Todo]) -> list[tuple[str, str, str | None]]:
    return [(todo.subject, todo.status, todo.outcome) for todo in plan]


def test_a_fork_copies_the_turn_up_to_a_step_and_the_rest_starts_anew(database_url: str, tmp_path: Path) -> None:
    script = in_order(
        text("Hello."),
        plan_call("bake", "frost"),
        complete_next,
        complete_next,
        text("The cake is ready."),
        complete_next,
        text("Only half of it is done, but well."),
        complete_next,
        text("All done, differently."),
    )
    with open_talk(database_url, tmp_path, script) as talk:
        talk.say("Hi!")
        original = talk.say("A cake!")
        before = summarize(talk.plan())
        rows = talk.events("todo_changed")

        forked = fork(talk, original["id"], ForkRequest(2))

        assert (forked["status"], forked["outcome"]) == ("finished", "drained")
        assert forked["forked_from"] == {"turn_id": original["id"], "at": 2}
        assert forked["conversation_id"] != original["conversation_id"]
        assert summarize(talk.plan()) == [("bake", "completed", "done"), ("frost", "completed", "done")]
        shown = talk.requests[5].texts
        assert "Hello." in " ".join(shown) and "frost" in talk.requests[5].last  # the history, and the plan with its new numbers
        assert len(talk.requests[5].tool_results) == 2
        assert summarize(list_plan(talk, original["id"])) == before
        originals = {data["todo"]["id"] for _, data in rows}
        assert all(data["todo"]["id"] not in originals for _, data in talk.events("todo_changed")[len(rows) :])

"""Tools that are called as jobs of their own: by whoever holds the job, and never blindly again."""

import json
from pathlib import Path
from typing import Any

import pytest
from turning import Talk, talking

from headway.actions import jobs
from headway.agents.driving import TOOL, call_tool
from headway.ledger.job import Job
from model_server import text

OWN = '''
from pathlib import Path
import threading
from headway.agents.own_tools import tool

HERE = Path(__file__).parent

@tool
def pay(amount: int) -> str:
    """Pays."""
    with (HERE / "paid.txt").open("a") as file:
        print(amount, file=file)
    while not (HERE / "go").exists():
        threading.Event().wait(0.01)
    return "paid"
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    return tmp_path


def new(talk: Talk, name: str, arguments: dict[str, Any], owner: str = "") -> Job:
    payload = {"name": name, "arguments": arguments, "conversation_id": talk.conversation_id}
    return talk.database.write(lambda tx: jobs.new(tx, talk.tenant_id, TOOL, payload, owner=owner))


def job(talk: Talk, job_id: str) -> Job:
    return talk.database.read(lambda tx: jobs.get(tx, talk.tenant_id, job_id))


def test_a_tool_of_the_ledger_is_not_called_by_who_lost_the_job(database_url: str, tmp_path: Path) -> None:
    with talking(database_url, tmp_path, text("Hello.")) as talk:
        lost = new(talk, "remember", {"text": "twice"}, owner="somebody else")
        talk.wait(call_tool(talk.headway.means, lost))
        assert talk.database.read(lambda tx: tx.all("SELECT text FROM memory_entries")) == []
        assert job(talk, lost.id) == lost


def test_a_tool_outside_that_a_clean_stop_interrupted_is_not_called_again(database_url: str, home: Path) -> None:
    paid = home / "tools" / "paid.txt"
    with talking(database_url, home, text("Hello."), sweeping=True) as talk:
        payment = new(talk, "pay", {"amount": 5})
        talk.wait(talk.until(paid.exists))
        (home / "tools" / "go").touch()  # for the thread, which nobody can stop; its answer is lost
        talk.wait(talk.headway.stop_agents())
        if job(talk, payment.id).state == "completed":
            pytest.skip("it was faster than the stop")
        assert job(talk, payment.id).state == "queued"
        talk.revive()
        talk.wait(talk.until(lambda: job(talk, payment.id).state == "dead"))
        assert paid.read_text().split() == ["5"]
        assert "nobody knows" in str(job(talk, payment.id).as_json()["error"])
        assert talk.told("recovered") == []


def test_a_tool_that_was_not_called_yet_when_its_process_died_is_called(database_url: str, home: Path) -> None:
    (home / "tools" / "go").touch()
    with talking(database_url, home, text("Hello.")) as talk:
        payment = new(talk, "pay", {"amount": 5}, owner="a process that is no more")
        talk.revive()
        talk.wait(talk.until(lambda: job(talk, payment.id).state == "completed"))
        assert (home / "tools" / "paid.txt").read_text().split() == ["5"]
        assert json.loads(job(talk, payment.id).result) == "paid"

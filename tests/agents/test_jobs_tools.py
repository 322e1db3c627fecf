"""Tools that run as separate jobs: only the owner of the job calls the tool, and a call with an unknown result is not repeated."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions.engine import run_ends
from headway.actions.runs import jobs, runs
from headway.actions.turns import turns
from headway.agents.loop.job_handlers import call_tool
from headway.ledger.errors import Conflict
from headway.ledger.job import Job
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import text

pytestmark = pytest.mark.usefixtures("dispatch")

OWN = '''
from pathlib import Path
import threading
from headway.agents.tools.custom import tool

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


def create_tool_job(talk: Talk, name: str, arguments: dict[str, Any], owner: str = "") -> Job:
    payload = {"name": name, "arguments": arguments, "conversation_id": talk.conversation_id}
    return talk.database.write(lambda tx: jobs.create_job(tx, talk.tenant_id, jobs.TOOL, payload, owner=owner))


def get_job(talk: Talk, job_id: str) -> Job:
    return talk.database.read(lambda tx: jobs.get_job(tx, talk.tenant_id, job_id))


def test_a_process_that_lost_the_job_calls_no_ledger_tool(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Hello.")) as talk:
        lost = create_tool_job(talk, "remember", {"text": "twice"}, owner="somebody else")
        talk.wait(call_tool(talk.headway.runtime.of(talk.tenant_id), lost))
        assert talk.database.read(lambda tx: tx.all("SELECT text FROM memory_entries")) == []
        assert get_job(talk, lost.id) == lost


def test_a_tool_outside_that_a_clean_stop_interrupted_is_not_called_again(database_url: str, home: Path) -> None:
    paid = home / "tools" / "paid.txt"
    with open_talk(database_url, home, text("Hello."), sweeping=True) as talk:
        payment = create_tool_job(talk, "pay", {"amount": 5})
        talk.wait(talk.until(paid.exists))
        talk.wait(talk.headway.stop_agents())
        (home / "tools" / "go").touch()  # so that the thread ends: it cannot be stopped, and its result is discarded
        assert get_job(talk, payment.id).state == "queued"
        talk.revive()
        talk.wait(talk.until(lambda: get_job(talk, payment.id).state == "dead"))
        assert paid.read_text().split() == ["5"]
        assert "whether it took effect is unknown" in str(get_job(talk, payment.id).as_json()["error"])
        assert talk.list_event_data("recovered") == []


def test_a_tool_that_was_not_called_yet_when_its_process_died_is_called(database_url: str, home: Path) -> None:
    (home / "tools" / "go").touch()
    with open_talk(database_url, home, text("Hello.")) as talk:
        payment = create_tool_job(talk, "pay", {"amount": 5}, owner="a process that is no more")
        talk.revive()
        talk.wait(talk.until(lambda: get_job(talk, payment.id).state == "completed"))
        assert (home / "tools" / "paid.txt").read_text().split() == ["5"]
        assert json.loads(get_job(talk, payment.id).result) == "paid"


# Transient failures


UNLUCKY = '''
from pathlib import Path
import asyncio
from headway.agents.tools.custom import tool

HERE = Path(__file__).parent

def called(name: str) -> int:
    with (HERE / name).open("a") as file:
        print("called", file=file)
    return len((HERE / name).read_text().split())

@tool(idempotent=True)
def look(luck: int, how: str = "refused") -> str:
    """Looks, and has no luck the first times."""
    if called("look.txt") <= luck:
        raise ConnectionRefusedError("nobody there") if how == "refused" else ValueError("what a question")
    return "seen"

@tool
def pay_far() -> str:
    """Pays over a line that breaks."""
    called("pay_far.txt")
    raise ConnectionResetError("somewhere on the way")

@tool(idempotent=True, timeout_s=0.02)
async def look_long() -> str:
    """Takes too long, once."""
    if called("look_long.txt") == 1:
        await asyncio.sleep(60)
    return "seen"

@tool
async def pay_slowly() -> str:
    """Pays in a while."""
    called("pay_slowly.txt")
    await asyncio.sleep(60)
    return "paid"
'''


@pytest.fixture
def unlucky(home: Path) -> Path:
    (home / "tools" / "unlucky.py").write_text(UNLUCKY)
    return home


def count_calls(home: Path, name: str) -> int:
    path = home / "tools" / f"{name}.txt"
    return len(path.read_text().split()) if path.exists() else 0


def wait_until_over(talk: Talk, tool_job: Job) -> dict[str, Any]:
    talk.wait(talk.until(lambda: get_job(talk, tool_job.id).over))
    return get_job(talk, tool_job.id).as_json()


def test_a_tool_that_may_be_repeated_is_tried_again_later(database_url: str, unlucky: Path) -> None:
    with open_talk(database_url, unlucky, text("Hello."), sweeping=True, retry_delay_s="60") as talk:
        looking = create_tool_job(talk, "look", {"luck": 1})
        talk.wait(talk.until(lambda: get_job(talk, looking.id).state == "delayed"))
        tool_job = get_job(talk, looking.id)
        assert (tool_job.attempts, tool_job.owner, tool_job.result) == (1, "", "null")
        assert 44_000 < tool_job.due_at - tool_job.updated_at < 76_000
        talk.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0, announce_at = 0"))
        assert wait_until_over(talk, looking)["result"] == "seen"
        assert count_calls(unlucky, "look") == 2


def test_a_tool_that_fails_five_times_is_dead(sqlite_url: str, unlucky: Path) -> None:
    with open_talk(sqlite_url, unlucky, text("Hello."), sweeping=True) as talk:
        tool_job = wait_until_over(talk, create_tool_job(talk, "look", {"luck": 9}))
        assert (tool_job["state"], tool_job["attempts"], count_calls(unlucky, "look")) == ("dead", 5, 5)
        assert ["nobody there" in error for error in tool_job["errors"]] == [True] * 5
        assert len(talk.list_event_data("job_dead")) == 1


def test_a_tool_that_timed_out_is_retried_if_it_is_idempotent(sqlite_url: str, unlucky: Path) -> None:
    with open_talk(sqlite_url, unlucky, text("Hello."), sweeping=True) as talk:
        assert wait_until_over(talk, create_tool_job(talk, "look_long", {}))["result"] == "seen"
        assert count_calls(unlucky, "look_long") == 2


def test_a_permanent_tool_failure_is_dead_at_once(sqlite_url: str, unlucky: Path) -> None:
    with open_talk(sqlite_url, unlucky, text("Hello."), sweeping=True) as talk:
        tool_job = wait_until_over(talk, create_tool_job(talk, "look", {"luck": 9, "how": "wrong"}))
        assert (tool_job["state"], tool_job["attempts"], count_calls(unlucky, "look")) == ("dead", 1, 1)
        assert wait_until_over(talk, create_tool_job(talk, "look", {"luck": "much"}))["state"] == "dead"
        assert wait_until_over(talk, create_tool_job(talk, "no_such_tool", {}))["state"] == "dead"


def test_a_tool_that_may_have_had_its_effect_is_never_repeated(sqlite_url: str, unlucky: Path) -> None:
    with open_talk(sqlite_url, unlucky, text("Hello."), sweeping=True) as talk:
        tool_job = wait_until_over(talk, create_tool_job(talk, "pay_far", {}))
        assert (tool_job["state"], tool_job["attempts"], count_calls(unlucky, "pay_far")) == ("dead", 1, 1)


# Canceling


def cancel(talk: Talk, job_id: str) -> Job:
    return talk.database.write(lambda tx: jobs.cancel_job(tx, talk.tenant_id, job_id))


def test_a_tool_job_canceled_before_it_began_is_never_called(database_url: str, unlucky: Path) -> None:
    with open_talk(database_url, unlucky, text("Hello.")) as talk:
        canceled = create_tool_job(talk, "look", {"luck": 0})
        assert cancel(talk, canceled.id).state == "canceled"
        talk.revive()
        wait_until_over(talk, create_tool_job(talk, "now", {}))  # this job is queued after the canceled one
        assert count_calls(unlucky, "look") == 0
        assert get_job(talk, canceled.id).state == "canceled"
        with pytest.raises(Conflict, match="has already ended: canceled"):
            cancel(talk, canceled.id)


def test_a_canceled_tool_job_that_waits_for_a_retry_is_not_retried(sqlite_url: str, unlucky: Path) -> None:
    with open_talk(sqlite_url, unlucky, text("Hello."), sweeping=True, retry_delay_s="60") as talk:
        looking = create_tool_job(talk, "look", {"luck": 1})
        talk.wait(talk.until(lambda: get_job(talk, looking.id).state == "delayed"))
        cancel(talk, looking.id)
        talk.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0, announce_at = 0"))
        wait_until_over(talk, create_tool_job(talk, "now", {}))
        assert (get_job(talk, looking.id).state, count_calls(unlucky, "look")) == ("canceled", 1)


def test_a_running_tool_job_stops_when_another_process_cancels_it(database_url: str, unlucky: Path) -> None:
    with open_talk(database_url, unlucky, text("Hello."), sweeping=True) as talk:
        paying = create_tool_job(talk, "pay_slowly", {})
        talk.wait(talk.until(lambda: count_calls(unlucky, "pay_slowly") == 1))
        cancel(talk, paying.id)
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        tool_job = get_job(talk, paying.id)
        assert (tool_job.state, tool_job.owner) == ("canceled", "")


def test_canceling_the_job_of_an_agent_says_what_to_cancel_instead(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Hello.")) as talk:
        conversation_id = talk.conversation_id
        run = talk.database.write(lambda tx: turns.start_turn(tx, talk.tenant_id, conversation_id, turns.TurnRequest("Do it.")))
        child = talk.database.write(lambda tx: runs.begin_child(tx, run, "researcher", "look", 5))
        with pytest.raises(Conflict, match=f"turn {run.turn_id}: cancel the turn instead"):
            cancel(talk, run.id)
        with pytest.raises(Conflict, match=f"sub-agent {child.id}: cancel the agent instead"):
            cancel(talk, child.id)
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, run.turn_id or ""))

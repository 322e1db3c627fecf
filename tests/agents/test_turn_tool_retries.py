"""Calls of repeatable tools in a turn: transient failures are retried with backoff, then kept as dead letters."""

import json
from pathlib import Path

import pytest

from headway.actions.engine import dead_letters
from headway.actions.runs import jobs
from headway.ledger.job import Job
from tests.agents.job_harness import LONG_S, make_due, wait_for_end, wait_for_state
from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, get_states
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Call, call, calls, text

pytestmark = pytest.mark.usefixtures("dispatch")

DONE = text("Done.")

TOOLS = '''
from pathlib import Path
from headway.agents.tools.custom import tool

HERE = Path(__file__).parent

def count(name: str) -> int:
    with (HERE / name).open("a") as file:
        print("called", file=file)
    return len((HERE / name).read_text().split())

@tool(idempotent=True)
def look(failures: int) -> str:
    """Looks something up on a server that refuses the first connections."""
    if count("look.txt") <= failures:
        raise ConnectionRefusedError("connection refused")
    return "seen"

@tool
def pay() -> str:
    """Pays over a connection that breaks."""
    count("pay.txt")
    raise ConnectionResetError("connection reset")

@tool(idempotent=True)
def misread() -> str:
    """Fails in a way that will not pass."""
    count("misread.txt")
    raise ValueError("no such record")
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "unlucky.py").write_text(TOOLS)
    return tmp_path


def count_attempts(home: Path, name: str) -> int:
    return len((home / "tools" / f"{name}.txt").read_text().split())


def list_dead_calls(talk: Talk) -> list[Job]:
    return talk.database.read(lambda tx: jobs.list_jobs(tx, talk.tenant_id, "dead", 10).jobs)


def look_call(failures: int) -> Call:
    return call("look", {"failures": failures})


def test_a_repeatable_call_is_retried_and_the_model_sees_only_its_result(database_url: str, home: Path) -> None:
    """004: "External calls retry with exponential backoff on transient failures"."""
    with open_talk(database_url, home, in_order(calls(look_call(failures=3)), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert count_attempts(home, "look") == 4
        assert [(effect.state, effect.result) for effect in talk.effects()] == [("succeeded", "seen")]
        assert (len(talk.list_event_data("tool_call")), len(talk.list_event_data("tool_result"))) == (1, 1)
        assert list_dead_calls(talk) == []


def test_between_attempts_the_run_waits_without_a_slot_and_twice_as_long_each_time(sqlite_url: str, home: Path) -> None:
    """004: "exponential … delay: 1000, // 1s, 2s, 4s, 8s, 16s"."""

    async def scenario() -> list[float]:
        delays = []
        await talk.begin()
        for attempt in range(1, 4):
            await talk.until(lambda attempt=attempt: talk.job().attempts == attempt)  # type: ignore[misc]
            await talk.until(lambda: not talk.headway.engine.tasks)
            job = talk.job()
            delays.append((job.due_at - job.updated_at) / 1000)
            make_due(talk)
        await wait_for_end(talk)
        return delays

    with open_talk(sqlite_url, home, in_order(calls(look_call(failures=3)), DONE), retry_delay_s="20") as talk:
        for delay, expected in zip(talk.wait(scenario()), (20, 40, 80), strict=True):
            assert expected * 0.75 <= delay <= expected * 1.25


def test_a_waiting_retry_survives_the_process(database_url: str, home: Path) -> None:
    """004: "Task context is fully preserved across retries for deterministic replay"."""

    async def fail_once() -> None:
        await talk.begin()
        await wait_for_state(talk, "delayed")
        await talk.headway.stop_agents()

    with open_talk(database_url, home, in_order(calls(look_call(failures=1)), DONE), retry_delay_s=LONG_S) as talk:
        talk.wait(fail_once())
        make_due(talk)
        talk.revive()
        assert talk.wait(wait_for_end(talk))["outcome"] == "answered"
        assert count_attempts(home, "look") == 2
        assert [effect.state for effect in talk.effects()] == ["succeeded"]


def test_exhausted_retries_are_reported_to_the_model_and_kept_as_a_dead_letter(database_url: str, home: Path) -> None:
    """004: "Exhausted retries move tasks to dead-letter queue for operator review"."""
    with open_talk(database_url, home, in_order(calls(look_call(failures=99)), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert count_attempts(home, "look") == 5
        (effect,) = talk.effects()
        assert effect.state == "failed"
        assert "connection refused" in effect.result
        assert "Tried 5 times" in effect.result
        (dead,) = list_dead_calls(talk)
        letter = dead.as_json()
        assert (letter["kind"], letter["attempts"], len(letter["errors"])) == ("tool", 5, 5)
        assert letter["payload"]["name"] == "look"
        assert letter["payload"]["arguments"] == {"failures": 99}
        assert letter["payload"]["turn_id"] == talk.turn()["id"]
        assert talk.list_event_data("job_dead") == [{"job": letter}]
        assert talk.job().state == "completed"


def test_the_operator_can_retry_the_dead_letter(database_url: str, home: Path) -> None:
    """004: "Job data payload is immutable …; retry gets same data each attempt"."""
    with open_talk(database_url, home, in_order(calls(look_call(failures=5)), DONE), sweeping=True) as talk:
        talk.say()
        (dead,) = list_dead_calls(talk)
        talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, dead.id))
        talk.headway.nudge()
        talk.wait(talk.until(lambda: get_job(talk, dead.id).state == "completed"))
        assert (json.loads(get_job(talk, dead.id).result), count_attempts(home, "look")) == ("seen", 6)
        assert json.loads(get_job(talk, dead.id).payload) == json.loads(dead.payload)


def test_the_operator_can_drop_the_dead_letter(sqlite_url: str, home: Path) -> None:
    with open_talk(sqlite_url, home, in_order(calls(look_call(failures=99)), DONE)) as talk:
        talk.say()
        (dead,) = list_dead_calls(talk)
        talk.database.write(lambda tx: jobs.drop(tx, talk.tenant_id, dead.id))
        assert list_dead_calls(talk) == []


@pytest.mark.parametrize(("tool", "state"), [("pay", "failed"), ("misread", "failed")])
def test_a_call_that_may_not_be_repeated_or_cannot_succeed_is_made_once(sqlite_url: str, home: Path, tool: str, state: str) -> None:
    """004: "UnrecoverableError — skip retries immediately for non-transient failures"."""
    with open_talk(sqlite_url, home, in_order(calls((tool, {})), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert count_attempts(home, tool) == 1
        assert [effect.state for effect in talk.effects()] == [state]
        assert list_dead_calls(talk) == []


def test_each_call_of_one_answer_has_all_its_attempts(sqlite_url: str, home: Path) -> None:
    """The second call starts with no failures counted, although the first one failed four times."""
    with open_talk(sqlite_url, home, in_order(calls(look_call(failures=4), look_call(failures=8)), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.state for effect in talk.effects()] == ["succeeded", "succeeded"]
        assert count_attempts(home, "look") == 9


def test_a_sub_agents_call_is_retried_too(sqlite_url: str, home: Path) -> None:
    """The sub-agent waits between attempts, and its parent keeps waiting for it."""
    parts = by_role(
        index=by_transcript(delegate_call("dig"), DONE),
        researcher=by_transcript(calls(look_call(failures=99)), text("Nothing there.")),
    )
    with open_talk(sqlite_url, home, parts) as talk:
        assert talk.say()["outcome"] == "answered"
        assert count_attempts(home, "look") == 5
        assert [json.loads(dead.payload)["role"] for dead in list_dead_calls(talk)] == ["researcher"]
        assert get_states(talk) == {"dig": ("completed", "completed")}


def get_job(talk: Talk, job_id: str) -> Job:
    return talk.database.read(lambda tx: jobs.get_job(tx, talk.tenant_id, job_id))

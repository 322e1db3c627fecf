"""A turn whose process stopped at any point is taken over by another process and ends as if uninterrupted."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from headway.actions.todos import conversations
from headway.agents.loop.calls.tool_calls import INTERRUPTED_MESSAGE
from headway.agents.loop.context import Runtime
from headway.agents.loop.job_handlers import build_handlers
from headway.agents.tools.toolbox import OnThread
from headway.agents.transcripts.transcript import encode
from headway.engine.engine import Engine
from headway.storage.stores import jobs as job_store
from headway.testing import scripted_model
from tests.agents.turn_harness import CHEAP_TIER, Talk, complete_next, in_order, open_talk, plan_call, tiers
from tests.lost_commits import lose_commit_answer
from tests.model_server import Reply, Request, Script, by_turn, calls, pause_midway, text

pytestmark = pytest.mark.usefixtures("dispatch")

OWN = '''
import threading
from pathlib import Path
from headway import Execution, tool

HERE = Path(__file__).parent
GO = threading.Event()

def work(name):
    with (HERE / "done.txt").open("a") as file:
        print(name, file=file)
    GO.wait()
    return name

@tool
def pay(amount: int) -> str:
    """Pays."""
    return work("paid")

@tool(idempotent=True)
def look(where: str, execution: Execution) -> str:
    """Looks."""
    with (HERE / "keys.txt").open("a") as file:
        print(execution.effect_key, file=file)
    return work("looked")
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    return tmp_path


def list_done(home: Path) -> list[str]:
    path = home / "tools" / "done.txt"
    return path.read_text().split() if path.exists() else []


def release_tool(talk: Talk) -> None:
    """Release the calls that wait in the `pay` tool."""
    run = talk.headway.toolbox.tools["pay"].run
    assert isinstance(run, OnThread)
    run.function.args[1].__globals__["GO"].set()  # type: ignore[attr-defined]


async def crash_at_request(talk: Talk, number: int) -> None:
    task = await talk.begin("Bake a cake.")
    await talk.wait_for_requests(number)
    await talk.crash(task)


def cake_script(request: Request) -> Reply:
    """A plan with two items, tool calls, a refusal and an answer. The same request always gets the same reply."""
    replies: list[Reply | Script] = [plan_call("Bake", "Frost"), calls(("remember", {"text": "flour"}), ("now", {})), complete_next]
    replies += [text("Done?"), complete_next, text("Enjoy.")]
    reply = replies[-1] if "Plan: 0 open" in request.last else replies[request.assistant_turns]
    return reply if isinstance(reply, Reply) else reply(request)


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5, 6])
def test_a_turn_stopped_during_a_reply_continues_with_the_same_transcript(sqlite_url: str, tmp_path: Path, stop: int) -> None:
    def script(request: Request) -> Reply:
        if len(talk.server.requests) == stop:
            talk.server.hold()
        return pause_midway(cake_script(request))

    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.wait(crash_at_request(talk, stop))
        before = [encode(entry.message) for entry in talk.entries()]
        talk.server.release()
        talk.server.script = cake_script
        turn = talk.resume_turn()
        assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "drained", 6)
        assert [encode(entry.message) for entry in talk.entries()][: len(before)] == before
        assert len(talk.entries()) == 12
        assert [todo.subject for todo in talk.plan()] == ["Bake", "Frost"]
        assert talk.database.read(lambda tx: tx.all("SELECT text FROM memory_entries")) == [("flour",)]
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 5
        assert len(talk.list_event_data("refused")) == 1
        assert talk.answers() == ["Enjoy."]
        assert len(talk.model_calls()) == 6
        assert len(talk.list_event_data("turn_started")) == 1


def test_a_turn_is_taken_over_on_either_database(database_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if len(talk.server.requests) == 4:
            talk.server.hold()
        return cake_script(request)

    with open_talk(database_url, tmp_path, script) as talk:
        talk.wait(crash_at_request(talk, 4))
        talk.server.script = cake_script
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "drained"
        assert [todo.status for todo in talk.plan()] == ["completed", "completed"]
        assert talk.answers() == ["Enjoy."]


async def crash_in_tool(talk: Talk, home: Path) -> None:
    task = await talk.begin()
    await talk.until(lambda: bool(list_done(home)))
    await talk.crash(task)


def test_a_started_effect_that_cannot_be_repeated_is_reported_to_the_model_as_unknown(database_url: str, home: Path) -> None:
    script = by_turn(calls(("pay", {"amount": 5}), ("now", {})), text("Paid, perhaps."))
    with open_talk(database_url, home, script) as talk:
        talk.wait(crash_in_tool(talk, home))
        assert [(effect.tool, effect.state) for effect in talk.effects()] == [("pay", "started")]
        release_tool(talk)
        turn = talk.resume_turn()
        assert turn["outcome"] == "answered"
        assert list_done(home) == ["paid"]
        assert [(effect.tool, effect.state) for effect in talk.effects()] == [("pay", "unknown"), ("now", "succeeded")]
        assert INTERRUPTED_MESSAGE in talk.server.requests[-1].tool_results[0].content
        assert [event["state"] for event in talk.list_event_data("tool_result")] == ["unknown", "succeeded"]
        assert len(talk.list_event_data("tool_call")) == 2
        assert len(talk.server.requests) == 2


def test_a_started_effect_that_may_be_repeated_is(sqlite_url: str, home: Path) -> None:
    script = by_turn(calls(("now", {}), ("look", {"where": "oven"}), ("now", {})), text("I looked."))
    with open_talk(sqlite_url, home, script) as talk:
        talk.wait(crash_in_tool(talk, home))
        release_tool(talk)
        talk.revive()
        release_tool(talk)
        talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
        assert list_done(home) == ["looked", "looked"]
        first, again = (home / "tools" / "keys.txt").read_text().split()
        assert first == again != "None"
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 3
        assert [result.content for result in talk.server.requests[-1].tool_results][1] == "looked"
        assert len(talk.list_event_data("tool_call")) == 3


def test_a_turn_stopped_in_a_summary_or_an_assessment_asks_again(sqlite_url: str, tmp_path: Path) -> None:
    def cheap(request: Request) -> Reply:
        if len(talk.server.requests) == 2:
            talk.server.hold()
        return text("A summary.")

    script = tiers(by_turn(calls(("remember", {"text": "Half a"}), finish="length"), text("story.")), cheap)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        talk.wait(crash_at_request(talk, 2))
        talk.server.script = tiers(text("story."), text("A summary."))
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "answered"
        assert talk.answers() == ["story."]
        assert [call.tier for call in talk.model_calls()] == ["strong", "cheap", "strong"]


def test_a_clean_stop_hands_its_turns_back_at_once(sqlite_url: str, tmp_path: Path) -> None:
    async def begin() -> None:
        await talk.begin()
        await talk.wait_for_requests(1)

    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.server.hold()
        talk.wait(begin())
        talk.wait(talk.headway.stop_agents())
        assert talk.job().owner == ""
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "answered"
        assert len(talk.answers()) == 1


def take_over(talk: Talk) -> None:
    """Assign the job to another process."""
    assert hand_over(talk, "somebody else")


def hand_over(talk: Talk, owner: str) -> bool:
    """Assign the job to `owner` if it is still running. Return whether it was."""
    job = talk.job()
    if job.state != "running":
        return False
    talk.database.write(lambda tx: job_store.save_job(tx, job._replace(owner=owner)))
    return True


def test_the_late_answer_of_a_process_that_lost_its_turn_changes_nothing(database_url: str, tmp_path: Path) -> None:
    def answer_late(_: Request) -> Reply:
        take_over(talk)
        before.extend([talk.run_row(), talk.job(), talk.events(), talk.entries()])
        return calls(("remember", {"text": "late"}), text="Too late.")

    before: list[Any] = []
    with open_talk(database_url, tmp_path, in_order(calls(("now", {})), answer_late)) as talk:
        turn = talk.say()
        assert turn["status"] == "running"
        assert before == [talk.run_row(), talk.job(), talk.events(), talk.entries()]
        assert talk.job().owner == "somebody else"


def test_the_late_result_of_a_process_that_lost_its_turn_changes_nothing(sqlite_url: str, home: Path) -> None:
    async def lose_turn() -> None:
        task = await talk.begin()
        await talk.until(lambda: bool(list_done(home)))
        take_over(talk)
        release_tool(talk)
        await talk.wait_until_ended(task)

    with open_talk(sqlite_url, home, calls(("pay", {"amount": 5}))) as talk:
        talk.wait(lose_turn())
        assert [effect.state for effect in talk.effects()] == ["started"]
        assert talk.list_event_data("tool_result") == []


def test_a_fault_in_a_process_that_lost_its_turn_does_not_fail_the_turn(sqlite_url: str, tmp_path: Path) -> None:
    def fail(_: Any) -> Any:
        take_over(talk)
        raise KeyError("a fault of ours")

    with open_talk(sqlite_url, tmp_path, scripted_model(fail)) as talk:
        assert talk.say()["status"] == "running"
        assert talk.list_event_data("turn_failed") == []


def test_two_processes_that_sweep_drive_a_turn_once(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.server.hold()
        talk.wait(crash_at_request(talk, 1))
        talk.server.release()
        talk.server.forget()
        for _ in range(3):
            talk.revive()
        talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
        talk.wait(asyncio.sleep(0.1))
        assert len(talk.server.requests) == 1
        assert talk.answers() == ["Hello."]


def test_a_turn_that_changes_hands_at_each_request_ends_as_if_it_had_not(database_url: str, tmp_path: Path) -> None:
    """At each takeover, the previous process may not notice at once and may continue for a while."""
    chance = random.Random(7)
    tasks: list[asyncio.Task[None]] = []
    taken: set[tuple[int, int]] = set()

    def change_hands(request: Request) -> Reply:
        """Give the turn to another process, which sends the same request again."""
        step = (talk.conversation_id, request.assistant_turns)
        if step not in taken:
            taken.add(step)
            runtime = talk.headway.runtime._replace(owner=f"process {len(taken)}")
            assert hand_over(talk, runtime.owner)
            talk.loop.get_loop().call_soon_threadsafe(continue_turn, runtime)
        return cake_script(request)

    def continue_turn(runtime: Runtime) -> None:
        if chance.random() < 0.5:
            tasks[-1].cancel()
        engine = Engine(talk.headway.database, runtime.owner, build_handlers(runtime))
        engine.take(talk.job())
        tasks.append(engine.tasks[talk.job().id])

    async def run_turn() -> None:
        tasks[:] = [await talk.begin()]
        await talk.until(lambda: bool(talk.turn()["ended_at"]))
        await asyncio.wait(tasks)

    with open_talk(database_url, tmp_path, change_hands, model="openai-chat:gpt-4o") as talk:
        for _ in range(4):
            talk.conversation_id = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id
            talk.wait(run_turn())
            turn = talk.turn()
            assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "drained", 6)
            assert [todo.status for todo in talk.plan()] == ["completed", "completed"]
            assert len(talk.entries()) == 12
            assert talk.answers() == ["Enjoy."]
        assert len(taken) == 6 * 4
        assert len(talk.database.read(lambda tx: tx.all("SELECT * FROM memory_entries"))) == 4
        assert [effect.state for effect in talk.effects()] == ["succeeded"] * 5 * 4
        assert len(talk.model_calls()) >= 6 * 4  # an answer that arrives after a takeover is also paid for
        assert talk.pool().spent == sum(call.cost for call in talk.model_calls()) > 0


@pytest.mark.parametrize("after", [b"INSERT INTO transcript", b"INSERT INTO model_calls", b"INSERT INTO effects"])
def test_a_commit_whose_answer_was_lost_is_not_repeated(postgres_url: str, tmp_path: Path, after: bytes) -> None:
    with (
        lose_commit_answer(postgres_url, after) as proxy,
        open_talk(proxy.url, tmp_path, in_order(calls(("now", {})), text("Late."))) as talk,
    ):
        assert talk.say()["outcome"] == "answered"
        assert proxy.lost == 1
        assert len(talk.server.requests) == 2
        counted = "SELECT (SELECT COUNT(*) FROM model_calls), (SELECT COUNT(*) FROM effects), (SELECT COUNT(*) FROM messages)"
        assert talk.database.read(lambda tx: tx.one(counted)) == (2, 1, 2)


@pytest.mark.parametrize("after", [b"INSERT INTO effects", b"paid"], ids=["the first", "the one after it"])
def test_a_tool_whose_start_commit_was_uncertain_is_called_once(postgres_url: str, home: Path, after: bytes) -> None:
    """Only this process could have called the tool, and it had not."""
    script = in_order(calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), text("Paid."))
    with lose_commit_answer(postgres_url, after) as proxy, open_talk(proxy.url, home, script) as talk:
        release_tool(talk)
        assert talk.say()["outcome"] == "answered"
        assert proxy.lost == 1
        assert list_done(home) == ["paid", "paid"]
        assert [effect.state for effect in talk.effects()] == ["succeeded", "succeeded"]

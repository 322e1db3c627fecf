"""Stopping turns: by the user, and by the kill switch."""

import asyncio
from pathlib import Path

import pytest

from headway.actions.engine import run_ends
from headway.ledger.errors import Halted, NotFound, TurnEnded, TurnRunning
from tests.agents.turn_harness import CHEAP_TIER, Talk, complete_next, in_order, open_talk, plan_call, tiers
from tests.model_server import Reply, Request, calls, error, pause_midway, text
from tests.running_turns import run_turn

pytestmark = pytest.mark.usefixtures("dispatch")

NOW = calls(("now", {}))


def cancel(talk: Talk) -> None:
    """Cancel the turn as a surface does: store the cancellation, then interrupt the running job."""
    assert talk.run is not None
    turn_id = talk.run.turn_id or ""
    talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
    talk.headway.interrupt(turn_id)


async def cancel_at_request(talk: Talk, number: int) -> None:
    task = await talk.begin()
    await talk.wait_for_requests(number)
    cancel(talk)
    await asyncio.wait_for(asyncio.wait([task]), 20)


def test_a_turn_that_waits_for_its_model_stops_at_once(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, pause_midway(text("A long answer."))) as talk:
        talk.server.hold()
        talk.wait(cancel_at_request(talk, 1))
        turn = talk.turn()
        assert (turn["status"], turn["outcome"]) == ("canceled", None)
        (event,) = talk.list_event_data("turn_canceled")
        assert (event["turn_id"], event["incomplete"], event["models"]) == (turn["id"], [], [])
        talk.wait(talk.until(lambda: not talk.headway.storing))
        assert all(message.kind == "stopped" for message in talk.messages()[1:])
        with pytest.raises(TurnEnded):
            cancel(talk)
        assert len(talk.list_event_data("turn_canceled")) == 1


def test_a_canceled_plan_stays_open_and_the_next_turn_can_begin(sqlite_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if len(talk.server.requests) == 2:
            talk.server.hold()
        return plan_call("Bake") if len(talk.server.requests) == 1 else text("Hello.")

    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.wait(cancel_at_request(talk, 2))
        assert talk.turn()["incomplete"][0]["title"] == "Bake"
        talk.server.release()
        assert talk.say("Hello?")["outcome"] == "answered"


def test_a_turn_canceled_by_another_process_stops_before_its_next_step(sqlite_url: str, tmp_path: Path) -> None:
    def cancel_and_call(_: Request) -> Reply:
        assert talk.run is not None
        turn_id = talk.run.turn_id or ""
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
        return calls(("remember", {"text": "too late"}))

    with open_talk(sqlite_url, tmp_path, in_order(NOW, cancel_and_call)) as talk:
        assert talk.say()["status"] == "canceled"
        assert len(talk.effects()) == 1
        assert len(talk.server.requests) == 2


def test_a_waiting_caller_learns_that_the_turn_was_canceled(sqlite_url: str, tmp_path: Path) -> None:
    async def scenario() -> dict[str, object]:
        turn_task = asyncio.create_task(run_turn(talk.headway, talk.tenant_id, talk.conversation_id, "Hello!"))
        await talk.wait_for_requests(1)
        (row,) = talk.database.read(lambda tx: tx.all("SELECT id FROM turns"))
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, row[0]))
        talk.headway.interrupt(row[0])
        return await turn_task

    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.server.hold()
        assert talk.wait(scenario())["status"] == "canceled"


def test_a_turn_that_ended_cannot_be_canceled_and_an_unknown_one_is_not_found(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say()
        with pytest.raises(TurnEnded):
            cancel(talk)
        with pytest.raises(NotFound):
            talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, "nobody's"))


def test_a_conversation_has_one_running_turn_at_a_time(database_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        task = await talk.begin()
        with pytest.raises(TurnRunning):
            await talk.begin()
        talk.server.release()
        await asyncio.wait([task])

    with open_talk(database_url, tmp_path, text("Hello.")) as talk:
        talk.server.hold()
        talk.wait(scenario())
        assert len(talk.messages()) == 2
        assert len(talk.list_event_data("turn_started")) == 1


# The kill switch


def test_nothing_begins_while_halted(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.halt()
        with pytest.raises(Halted, match="a test"):
            talk.say()
        assert talk.messages() == []
        talk.unhalt()
        assert talk.say()["outcome"] == "answered"


def test_a_halted_turn_stops_before_its_next_step_and_continues_afterwards(database_url: str, tmp_path: Path) -> None:
    def halt_and_call(_: Request) -> Reply:
        talk.halt()
        return calls(("remember", {"text": "flour"}))

    with open_talk(database_url, tmp_path, in_order(plan_call("Bake"), halt_and_call, complete_next, text("Eat."))) as talk:
        turn = talk.say()
        assert turn["status"] == "running"
        assert turn["iterations"] == 2  # the model's answer was stored,
        assert talk.database.read(lambda tx: tx.all("SELECT * FROM memory_entries")) == []  # and none of its calls was made
        assert len(talk.effects()) == 1
        talk.revive()
        talk.wait(asyncio.sleep(0.05))
        assert len(talk.server.requests) == 2
        talk.unhalt()
        talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
        assert talk.turn()["outcome"] == "drained"
        assert len(talk.database.read(lambda tx: tx.all("SELECT * FROM memory_entries"))) == 1


@pytest.mark.parametrize("tier", ["strong", "cheap"])
def test_a_halt_between_two_attempts_ends_them(sqlite_url: str, tmp_path: Path, tier: str) -> None:
    def halt_and_fail(_: Request) -> Reply:
        talk.halt()
        return error(503)

    script = halt_and_fail if tier == "strong" else tiers(calls(("remember", {"text": "Half a"}), finish="length"), halt_and_fail)
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER if tier == "cheap" else "") as talk:
        assert talk.say()["status"] == "running"
        assert len(talk.server.requests) == (1 if tier == "strong" else 2)
        assert talk.job().owner == ""
        talk.unhalt()
        talk.server.script = tiers(text("story."), text("A summary."))
        assert talk.resume_turn()["outcome"] == "answered"


def test_a_cancel_between_two_attempts_ends_them(sqlite_url: str, tmp_path: Path) -> None:
    def cancel_and_fail(_: Request) -> Reply:
        assert talk.run is not None
        turn_id = talk.run.turn_id or ""
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
        return error(503)

    with open_talk(sqlite_url, tmp_path, cancel_and_fail) as talk:
        assert talk.say()["status"] == "canceled"
        assert len(talk.server.requests) == 1


def test_a_halted_turn_can_be_canceled(sqlite_url: str, tmp_path: Path) -> None:
    def script(_: Request) -> Reply:
        talk.halt()
        return NOW

    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        cancel(talk)
        assert talk.turn()["status"] == "canceled"

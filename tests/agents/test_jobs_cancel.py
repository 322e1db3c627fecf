"""A canceled job that is queued never starts. One that is running stops soon, whichever process runs it."""

import asyncio
from pathlib import Path

import pytest

from headway.actions.engine import dead_letters
from headway.ledger.errors import Conflict
from tests.agents.job_harness import LONG_S, begin_delayed_turn, cancel, enqueue, make_due, run_another_turn
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, error, pause_midway, text

pytestmark = pytest.mark.usefixtures("dispatch")

HELLO = text("Hello.")


def test_a_queued_turn_that_was_canceled_never_starts(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, HELLO) as talk:
        enqueue(talk, "Never mind.")
        cancel(talk)
        talk.revive()
        run_another_turn(talk)
        assert [request.last for request in talk.server.requests] == ["Something else."]
        assert (talk.job().state, talk.turn()["status"]) == ("canceled", "canceled")
        assert len(talk.list_event_data("turn_canceled")) == 1


def test_a_delayed_turn_that_was_canceled_is_not_tried_again(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(error(503), HELLO), sweeping=True, retry_delay_s=LONG_S) as talk:
        talk.wait(begin_delayed_turn(talk))
        cancel(talk)
        make_due(talk)
        run_another_turn(talk)
        assert [request.last for request in talk.server.requests] == ["Do it.", "Something else."]
        assert (talk.job().state, talk.turn()["status"]) == ("canceled", "canceled")
        job_id = talk.job().id
        with pytest.raises(Conflict):
            talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, job_id))


def test_a_running_turn_canceled_by_another_process_stops(database_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        task = await talk.begin()
        await talk.wait_for_requests(2)
        cancel(talk)
        await asyncio.wait([task])  # while the reply is held

    with open_talk(database_url, tmp_path, in_order(calls(("now", {})), pause_midway(text("A long answer.")))) as talk:
        original = talk.server.script

        def script(request):  # type: ignore[no-untyped-def]
            if request.assistant_turns:
                talk.server.hold()
            return original(request)

        talk.server.script = script
        talk.wait(scenario())
        assert (talk.job().state, talk.turn()["status"]) == ("canceled", "canceled")
        assert talk.headway.engine.tasks == {}
        talk.server.release()
        assert talk.answers() in ([], ["A"])  # what was said, if this process had received it
        assert len(talk.list_event_data("turn_canceled")) == 1


def test_a_turn_canceled_while_no_process_runs_is_not_recovered(sqlite_url: str, tmp_path: Path) -> None:
    async def begin() -> None:
        task = await talk.begin()
        await talk.wait_for_requests(1)
        await talk.crash(task)

    with open_talk(sqlite_url, tmp_path, HELLO) as talk:
        talk.server.hold()
        talk.wait(begin())
        cancel(talk)
        talk.server.release()
        talk.revive()
        run_another_turn(talk)
        assert talk.list_event_data("recovered") == []
        assert len(talk.server.requests) == 2

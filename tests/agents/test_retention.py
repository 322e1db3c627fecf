"""The rest that agents and people know of a turn whose transcript and events were deleted because of their age."""

from pathlib import Path

import pytest

from headway.actions.history import timeline
from headway.actions.history.timeline import TimelineView
from headway.actions.inspection.forks import ForkRequest
from headway.actions.installation import tenants
from headway.actions.turns.live_text import LiveText
from headway.ledger.errors import Conflict
from headway.ledger.limits import Limits
from headway.ledger.tenancy import DAY_MS
from headway.process.housekeeping import Housekeeping
from headway.storage.transaction import Transaction
from tests.agents.turn_harness import PATIENCE_S, Talk, in_order, open_talk
from tests.model_server import Reply, calls, text

AGED = (("runs", "ended_at"), ("events", "at"), ("messages", "created_at"), ("turns", "ended_at"))


def age_rows(tx: Transaction) -> None:
    """Let everything have happened two days ago."""
    for table, column in AGED:
        tx.run(f"UPDATE {table} SET {column} = {column} - ?", 2 * DAY_MS)


def test_an_old_turn_is_known_by_its_request_and_its_answer(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("now", {})), text("It is late."), text("Later."))
    with open_talk(sqlite_url, tmp_path, script, retention="transcripts:1d,events:1d") as talk:
        talk.say("What time is it?")
        turn_id = talk.turn()["id"]
        talk.database.write(age_rows)
        housekeeping = Housekeeping(talk.headway.database, talk.headway.settings)
        deleted = talk.wait(housekeeping.prune())
        assert deleted["transcripts"] >= 5
        assert deleted["events"] >= 5

        with pytest.raises(Conflict, match="HEADWAY_RETENTION"):
            talk.database.write(lambda tx: talk.headway.forks.begin(tx, talk.tenant_id, turn_id, ForkRequest(0)))
        talk.say("And now?")
        sent = talk.requests[-1]
        assert [message["role"] for message in sent.messages[1:]] == ["user", "assistant", "user"]
        assert "What time is it?" in sent.texts[1]
        assert sent.texts[2] == "It is late."
        assert list_shown(talk) == ["What time is it?", "It is late.", "And now?", "Later."]


def list_shown(talk: Talk) -> list[str]:
    """List the messages that the page shows."""
    view = TimelineView(Limits(), LiveText(), 50)
    shown = talk.database.read(lambda tx: timeline.show_timeline(tx, talk.tenant_id, talk.conversation_id, view))
    return [entry["data"]["content"] for entry in shown["entries"] if entry["kind"] == "message"]


def test_agents_of_a_deleted_tenant_stop(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_talk(sqlite_url, tmp_path, Reply(seconds=PATIENCE_S)) as talk:

        async def remove_during_turn() -> None:
            await talk.begin("Take your time.")
            await talk.wait_for_requests(1)
            tenant = talk.database.read(lambda tx: tenants.get_tenant(tx, talk.tenant_id))
            assert talk.database.write(lambda tx: tenants.shut_out(tx, tenant)) == 1
            await talk.until(lambda: not talk.headway.engine.tasks)
            while not talk.database.write(lambda tx: tenants.remove_part(tx, tenant)):
                pass

        talk.wait(remove_during_turn())
        assert talk.database.read(lambda tx: tx.all("SELECT 1 FROM turns UNION ALL SELECT 1 FROM jobs")) == []
        assert [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []

"""A tenant whose storage is full: its running agents pause, and resume when there is room again."""

from pathlib import Path

from tests.agents.job_harness import make_due
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, Request, text

FULL = 2 * 2**20


def add_bytes(talk: Talk, number: int) -> None:
    talk.database.write(lambda tx: tx.run("UPDATE id_ranges SET bytes = bytes + ? WHERE kind = 'events'", number))


def test_full_storage_pauses_the_turn_and_a_deletion_resumes_it(sqlite_url: str, tmp_path: Path) -> None:
    def fill(_: Request) -> Reply:
        add_bytes(talk, FULL)
        return plan_call("Bake")

    script = in_order(fill, complete_next, text("Eat."))
    with open_talk(sqlite_url, tmp_path, script, sweeping=True, quotas="storage:1M") as talk:
        turn = talk.say()
        assert turn["status"] == "paused"
        assert "quota storage" in talk.list_event_data("turn_paused")[0]["reason"]
        assert len(talk.server.requests) == 2, "the agent asks nothing more"
        add_bytes(talk, -FULL)
        make_due(talk)
        talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
        assert talk.turn()["outcome"] == "drained"

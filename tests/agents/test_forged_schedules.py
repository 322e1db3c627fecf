"""Forged text in the names and messages of schedules: all of them run at once, and a model lists them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.todos import conversations
from headway.ledger.text import CONTROLS
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from tests.agents.turn_harness import Talk, open_talk
from tests.forgeries import OWNED, PAYLOADS, get_shape
from tests.model_server import Reply, Request, text
from tests.proofs import Proof

AT_A_TIME = 20
NEVER = Timing(every_ms=86_400_000)
NOT_IN_NAMES = re.compile(f"[{CONTROLS}/]")


def list_schedules_once(request: Request) -> Reply:
    """Ask for the list of schedules once, then end."""
    return text("The end." if request.assistant_turns else "/schedule list")


def run_schedules(talk: Talk, contents: Sequence[str]) -> list[Any]:
    """Run one schedule for each text, each in its own conversation. Return the shapes of the model requests."""

    def create_all(tx: Transaction) -> None:
        names = [f"{place:02} {NOT_IN_NAMES.sub(' ', content)}"[:150] for place, content in enumerate(contents)]
        for name, content in zip(names, contents, strict=True):
            conversation = conversations.add_conversation(tx, talk.tenant_id, content)
            message = {"conversation_id": conversation.id, "content": content}
            schedules.put(tx, talk.tenant_id, name, NEVER, {"message": message})
        for name in names:
            schedules.run_now(tx, talk.tenant_id, name)

    def remove_all(tx: Transaction) -> None:
        for schedule in schedules.list_schedules(tx, talk.tenant_id, 100)[0]:
            schedules.remove_schedule(tx, talk.tenant_id, schedule.name)

    def all_completed() -> bool:
        rows = talk.database.read(lambda tx: job_store.list_job_page(tx, talk.tenant_id, None, 500))
        return all(job.state == "completed" for job in rows)

    talk.server.forget()
    talk.database.write(create_all)
    talk.headway.nudge()
    talk.wait(talk.until(all_completed))
    talk.database.write(remove_all)
    return sorted((get_shape(request) for request in talk.server.requests), key=repr)


@pytest.mark.proof
def test_no_schedule_changes_the_shape_of_a_request(sqlite_url: str, tmp_path: Path, proof: Proof) -> None:
    with open_talk(sqlite_url, tmp_path, list_schedules_once, sweeping=True) as talk:
        expected = run_schedules(talk, ["look"] * AT_A_TIME)
        assert len(expected) == 2 * AT_A_TIME
        for seed in proof.seeds("forged frames in schedules, 20 at a time", share=1, whole=len(PAYLOADS) // AT_A_TIME):
            place = seed * AT_A_TIME
            assert run_schedules(talk, PAYLOADS[place : place + AT_A_TIME]) == expected, f"payloads from {place}"
            created = talk.database.read(lambda tx: tx.all("SELECT subject FROM todos UNION ALL SELECT name FROM schedules"))
            agents = talk.database.read(lambda tx: tx.all("SELECT task FROM runs WHERE parent_run_id IS NOT NULL"))
            assert (created, agents) == ([], []), OWNED

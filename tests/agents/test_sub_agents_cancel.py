"""Canceling a turn cancels its sub-agents: running ones stop, queued ones never start, and the turn ends once."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headway.actions.access import spending
from headway.actions.engine import run_ends
from headway.actions.runs import runs
from headway.ledger.events import TURN_ENDS
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.run import Run
from headway.storage.direct import DirectDatabase
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction
from tests.agents.sub_agent_harness import (
    await_calls,
    begin_and_wait,
    by_role,
    by_task,
    by_transcript,
    cancel_turn,
    delegate_call,
    get_job,
    get_states,
    hold_replies,
    list_requests,
    list_sub_agents,
    spawn_calls,
)
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import slow, text

pytestmark = pytest.mark.usefixtures("dispatch")

CANCELED = ("canceled", "canceled")
HELD = slow(600, text("At last."))  # never sent: the model server ends before


def start_nested_sub_agents(talk: Talk) -> None:
    """Start three sub-agents: one waits for its own sub-agent, two are running."""
    talk.server.script = by_role(
        index=by_transcript(spawn_calls("dig", "drill", "later"), await_calls, text("Dug.")),
        researcher=by_task(dig=delegate_call("shovel", "coder"), drill=HELD, later=HELD),
        coder=HELD,
    )

    async def scenario() -> None:
        await begin_and_wait(talk, "coder")
        await talk.until(lambda: len(list_requests(talk, "researcher")) == 3)
        await talk.until(lambda: talk.job().state == "delayed")

    talk.wait(scenario())


def test_a_canceled_turn_stops_all_of_its_sub_agents_at_once(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        start_nested_sub_agents(talk)
        cancel_turn(talk)
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert get_states(talk) == dict.fromkeys(("dig", "drill", "later", "shovel"), CANCELED)
        assert (talk.turn()["status"], talk.run_row().status, talk.job().state) == ("canceled", "canceled", "canceled")
        assert [kind for kind, _ in talk.events(*TURN_ENDS)] == ["turn_canceled"]
        ends = [event["run"] for event in talk.list_event_data("agent_changed") if event["run"]["status"] == "canceled"]
        assert sorted(run["task"] for run in ends) == ["dig", "drill", "later", "shovel"]


def test_a_canceled_turn_also_stops_sub_agents_of_ended_agents(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("")) as talk:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig"), await_calls, spawn_calls("drill"), await_calls, text("Dug.")),
            researcher=by_task(dig=by_transcript(spawn_calls("shovel", role="coder"), text("A hole.")), drill=HELD),
            coder=HELD,
        )

        async def scenario() -> None:
            await begin_and_wait(talk, "coder")
            await talk.until(lambda: "drill" in list_sub_agents(talk) and get_states(talk)["dig"][0] == "completed")

        talk.wait(scenario())
        cancel_turn(talk)
        assert get_states(talk) == {"dig": ("completed", "completed"), "drill": CANCELED, "shovel": CANCELED}
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))


def test_those_that_wait_for_a_slot_never_start(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text(""), subagents_per_parent="1") as talk:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig", "drill"), await_calls), researcher=hold_replies(talk, text("A hole."))
        )
        talk.wait(begin_and_wait(talk, "researcher"))
        cancel_turn(talk)
        talk.server.release()
        talk.wait(asyncio.sleep(0.3))  # time in which no further request may arrive
        assert len(list_requests(talk, "researcher")) == 1
        assert set(get_states(talk).values()) == {CANCELED}


def test_a_sub_agent_canceled_by_another_process_stops_within_a_heartbeat(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        start_nested_sub_agents(talk)
        turn_id = talk.turn()["id"]
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert set(get_states(talk).values()) == {CANCELED}


def test_a_canceled_sub_agent_leaves_the_turn_and_its_siblings_alone(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        start_nested_sub_agents(talk)
        run_id = list_sub_agents(talk)["dig"].id
        talk.database.write(lambda tx: runs.cancel_run(tx, talk.tenant_id, run_id))
        states = get_states(talk)
        assert (states["dig"], states["shovel"], states["drill"]) == (CANCELED, CANCELED, ("running", "running"))
        assert talk.turn()["status"] == "running"


def test_a_cancel_waits_for_the_step_a_sub_agent_is_taking(postgres_url: str, tmp_path: Path) -> None:
    """The money that this step reserves for its next call is also released."""

    def step(tx: Transaction, child: Run, canceling: ThreadPoolExecutor) -> None:
        job_store.find_locked_job(tx, talk.tenant_id, child.id)
        funded = spending.reserve(tx, child, NANOS_PER_DOLLAR, 5 * NANOS_PER_DOLLAR)
        assert funded is not None
        run_store.save_run(tx, funded)
        canceling.submit(cancel_elsewhere)
        deadline = time.monotonic() + 10
        while not tx.one("SELECT 1 FROM pg_locks WHERE NOT granted"):  # until the cancellation waits for our lock
            assert time.monotonic() < deadline

    def cancel_elsewhere() -> list[str]:
        with DirectDatabase(postgres_url) as other:
            return other.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, talk_turn))

    with open_talk(postgres_url, tmp_path, text("")) as talk, ThreadPoolExecutor(1) as canceling:
        talk.server.script = by_role(
            index=by_transcript(spawn_calls("dig"), await_calls), researcher=hold_replies(talk, text("A hole."))
        )
        talk.wait(begin_and_wait(talk, "researcher"))
        talk.wait(talk.until(lambda: talk.job().state == "delayed"))
        talk_turn = talk.turn()["id"]
        child = list_sub_agents(talk)["dig"]
        talk.database.write(lambda tx: step(tx, child, canceling))
        canceling.shutdown(wait=True)
        assert get_states(talk) == {"dig": CANCELED}
        assert get_job(talk, child).state == "canceled"
        assert (list_sub_agents(talk)["dig"].reserved, talk.pool().reserved) == (0, 0)

"""On Postgres, agents of one turn take steps while other transactions cancel them and start more. There are no deadlocks, and
limits are checked by one transaction at a time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from headway.actions.engine import run_ends
from headway.actions.runs import runs
from headway.actions.turns import turns
from headway.agents.loop.context import RunContext, load_context
from headway.agents.loop.driver import apply_step
from headway.agents.loop.requests import ModelAnswered
from headway.agents.transcripts import transcript
from headway.ledger.limits import Limits
from headway.ledger.run import Run
from headway.storage.direct import connect
from headway.storage.stores import jobs as job_store
from headway.storage.stores import runs as run_store
from headway.storage.stores.spending import ModelCall
from headway.storage.transaction import Transaction, across_tenants
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import text

WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
CALL = ModelCall("strong", "somebody's", 1, 1, 1_000)
FREE = CALL._replace(cost=0)  # no cost, so no step waits for the pool
LOCK_LOG = "SELECT 1 FROM id_ranges WHERE tenant_id = %s AND kind = 'events' FOR UPDATE"


@contextmanager
def run_until_blocked(url: str, *works: Callable[[Transaction], Any]) -> Iterator[None]:
    """Run each function on its own thread and connection until it waits for a lock. When the block ends, wait for the threads."""

    def run(work: Callable[[Transaction], Any]) -> None:
        with closing(connect(url)) as connection:
            connection.write(across_tenants(work))

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    with psycopg.connect(url, autocommit=True) as admin:
        for number, thread in enumerate(threads, start=1):
            thread.start()
            while thread.is_alive() and admin.execute(WAITING).fetchone() != (number,):
                pass
    yield
    for thread in threads:
        thread.join()


def count_deadlocks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_stat_force_next_flush()")
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


def start_turn_with(talk: Talk, number: int) -> tuple[Run, list[Run]]:
    """Start a turn with `number` sub-agents. All their jobs are owned by this process."""

    def begin(tx: Transaction) -> tuple[Run, list[Run]]:
        root = turns.start_turn(tx, talk.tenant_id, talk.conversation_id, turns.TurnRequest("Do it."))
        children = [runs.begin_child(tx, root, "researcher", f"part {n}", 10) for n in range(number)]
        for run in (root, *children):
            job = job_store.find_locked_job(tx, talk.tenant_id, run.id)
            assert job is not None
            job_store.save_job(tx, job._replace(state="running", owner=talk.headway.executor_id))
        for child in children:
            run_store.append_messages(
                tx, child.tenant_id, child.id, 0, transcript.encode(transcript.build_user_message(child.task))
            )
        return root, children

    return talk.database.write(begin)


def build_step(
    talk: Talk, run: Run, response: ModelResponse, call: ModelCall, limits: Limits | None = None
) -> Callable[[Transaction], Any]:
    """Return a step of the run that stores this answer."""
    runtime = talk.headway.runtime._replace(limits=limits or Limits())
    work: RunContext = talk.database.read(partial(load_context, runtime=runtime, run=run))
    entries = talk.database.read(lambda tx: transcript.load(tx, run))
    return partial(apply_step, context=work, entries=entries, reply=ModelAnswered(response, call, transcript.encode(response)))


def test_a_sub_agent_that_ends_while_its_turn_is_canceled_causes_no_deadlock(quiet_postgres_url: str, tmp_path: Path) -> None:
    with (
        open_talk(quiet_postgres_url, tmp_path, text("Hello.")) as talk,
        psycopg.connect(quiet_postgres_url, options="-c headway.tenant=all") as other,
    ):
        root, (child,) = start_turn_with(talk, 1)
        before = count_deadlocks(quiet_postgres_url)
        ends = build_step(talk, child, ModelResponse([TextPart("Done.")]), CALL)
        other.execute("INSERT INTO pools (tenant_id) VALUES (%s)", (talk.tenant_id,))  # every step with a cost waits for this
        with run_until_blocked(quiet_postgres_url, ends, lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, root.turn_id or "")):
            other.rollback()
        assert count_deadlocks(quiet_postgres_url) == before
        rows = talk.database.read(lambda tx: runs.list_runs(tx, talk.tenant_id, root.turn_id, 5))
        assert {run.id: run.status for run in rows} == {root.id: "canceled", child.id: "completed"}


def test_two_sub_agents_that_begin_others_at_once_stay_within_the_limits(postgres_url: str, tmp_path: Path) -> None:
    with (
        open_talk(postgres_url, tmp_path, text("Hello.")) as talk,
        psycopg.connect(postgres_url, options="-c headway.tenant=all") as other,
    ):
        root, children = start_turn_with(talk, 2)
        spawn = ModelResponse([ToolCallPart("spawn_agent", {"task": "more"}, "call")])
        steps = [build_step(talk, child, spawn, FREE, Limits(breadth=3)) for child in children]
        other.execute(LOCK_LOG, (talk.tenant_id,))  # no step can commit
        with run_until_blocked(postgres_url, *steps):
            other.rollback()
        number, _ = talk.database.read(lambda tx: run_store.count_sub_agents(tx, root))
        assert number == 3
        results = [event["result"] for event in talk.list_event_data("tool_result")]
        assert ["run_id" in result for result in results] == [True, False]
        assert "which is the limit" in results[1]["error"]

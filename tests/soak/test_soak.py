"""Half an hour of everything at once on each database, and what its witness notices.

`python -m tests.soak` runs it for another time, with another seed.
"""

import os
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents.turn_harness import open_talk
from tests.journeys.worker_processes import OWN
from tests.proofs import Proof
from tests.soak import script, witness
from tests.soak.soak import run_soak
from tests.soak.witness import Ledger
from tests.soak.world import open_place

SEED = 29


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_half_an_hour_of_everything_leaves_nothing_behind(kind: str, tmp_path: Path, proof: Proof) -> None:
    seconds = float(os.environ.get("HEADWAY_TEST_SOAK_S", "1800"))
    with open_place(kind, tmp_path) as place:
        report = run_soak(tmp_path, place, seconds, SEED)
    proof.tried(f"everything at once: processes killed, frozen and restarted, {kind}", report.happened.total())
    assert report.violations == []


def work(url: str, home: Path) -> None:
    """Let an agent plan, call a tool twice and answer."""
    (home / "tools").mkdir()
    (home / "tools" / "own.py").write_text(OWN)
    with open_talk(url, home, script.reply, model="openai-chat:gpt-4o") as talk:
        talk.say(script.build_request("t1s1", ["plan:t1s1a", "note:t1s1b", "note:t1s1c"]))


TAMPERED = [
    ("UPDATE todos SET completed_at = 0", "a todo has an end time"),
    ("UPDATE todo_lists SET completed = completed + 1", "the counters of a list"),
    ("UPDATE pools SET spent = spent + 1", "a pool has spent"),
    ("UPDATE spending_days SET cost = cost - 1", "a day costs"),
    ("UPDATE runs SET cost = cost + 1", "a run costs"),
    ("UPDATE pools SET reserved = 7", "a pool has reserved"),
    ("UPDATE runs SET reserved = 7", "a pool has reserved"),
    ("UPDATE turns SET waiting = 1", "a turn waits for"),
    ("UPDATE turns SET ended_at = 0", "a turn has an end time"),
    ("UPDATE turns SET ended_at = 0, status = 'running'", "no turn is left"),
    ("UPDATE runs SET ended_at = 0", "no run is left"),
    ("UPDATE jobs SET state = 'running'", "no job is left"),
    ("UPDATE jobs SET owner = 'a process that is gone'", "no job is left"),
    ("UPDATE effects SET state = 'started'", "no call is left"),
    ("DELETE FROM transcript WHERE n = 2", "a transcript has no gap"),
    ("DELETE FROM turns", "is lost"),
    ("UPDATE messages SET content = 'Hm.' WHERE role = 'assistant'", "with 0 answers"),
    ("UPDATE effects SET state = 'failed'", "is failed, and it happened 1 times"),
    ("DELETE FROM effects WHERE tool = 'note'", "no call is stored"),
    ("DELETE FROM events WHERE kind = 'message'", "a reader got"),
    ("DELETE FROM events WHERE kind = 'turn_finished'", "1 beginnings and 0 ends"),
    ("UPDATE messages SET content = 'Finished t2s7.'", "is about another one"),
    ("UPDATE todos SET tenant_id = 99", "which was deleted"),
]


def test_the_witness_of_the_soak_notices_each_row_that_is_wrong(sqlite_url: str, tmp_path: Path) -> None:
    work(sqlite_url, tmp_path)
    with closing(Ledger(sqlite_url)) as ledger:
        ((tenant_id,),) = ledger.rows("SELECT DISTINCT tenant_id FROM turns")
        ((turn_id,),) = ledger.rows("SELECT id FROM turns")
        received = [(seq, kind) for seq, kind in ledger.rows("SELECT seq, kind FROM events ORDER BY seq")]
        notes = Counter((tmp_path / "notes.txt").read_text().split())

        def list_found() -> list[str]:
            return [
                *witness.list_violations(ledger, witness.ALWAYS | witness.AT_THE_END),
                *witness.check_tenants(ledger, {tenant_id: 1}),
                *witness.check_events(ledger, tenant_id, received),
                *witness.check_turn_ends(ledger, tenant_id),
                *witness.check_turns(ledger, tenant_id, {turn_id: "t1s1"}),
                *witness.check_effects(ledger, tenant_id, 1, notes),
            ]

        assert list_found() == []
        ledger.rows("PRAGMA ignore_check_constraints = on")  # the database itself would refuse some
        for sql, expected in TAMPERED:
            ledger.rows(sql)
            assert any(expected in found for found in list_found()), (sql, list_found())
            ledger.connection.rollback()
        assert list_found() == []
        notes["t1s1b"] += 1
        assert list_found() == ["the call of t1s1b is succeeded, and it happened 2 times"]

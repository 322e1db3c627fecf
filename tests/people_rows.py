"""Invariants of requests to people and of notices about them. They hold after every test."""

from typing import Any

from headway.ledger.goal import DECISION_KINDS

WAITING = """SELECT t.id, t.waiting, (SELECT COUNT(*) FROM requests r WHERE r.turn_id = t.id AND r.state = 'open') FROM turns t"""
OF_ENDED_RUNS = "SELECT q.kind, q.id FROM requests q JOIN runs r ON r.id = q.run_id WHERE q.state = 'open' AND r.ended_at <> 0"
UNAPPROVED = """SELECT e.run_id, e.n, e.call_index, e.state, a.state FROM effects e
    JOIN requests a ON a.kind = 'approval' AND a.run_id = e.run_id AND a.n = e.n AND a.call_index = e.call_index
    WHERE (e.state IN ('started', 'succeeded', 'unknown') AND a.state <> 'approved')
    OR (a.state = 'open' AND e.state <> 'proposed')"""
UNPROPOSED = """SELECT run_id, n, call_index FROM effects e WHERE state = 'proposed' AND NOT EXISTS (
    SELECT 1 FROM requests a WHERE a.kind = 'approval' AND a.run_id = e.run_id AND a.n = e.n AND a.call_index = e.call_index)"""

UNSETTLED = """SELECT n.url FROM notices n JOIN requests r ON n.url = '/inbox/' || CAST(r.id AS TEXT)
        WHERE n.tenant_id = r.tenant_id AND n.done_at = 0 AND r.state <> 'open' AND NOT EXISTS (
            SELECT 1 FROM requests o WHERE r.kind = 'approval' AND o.kind = 'approval' AND o.run_id = r.run_id AND o.n = r.n
                AND o.state = 'open')
    UNION ALL SELECT n.text FROM notices n JOIN goals g ON g.id = n.goal_id
        WHERE n.done_at = 0 AND n.kind IN ('proposal', 'decision', 'fault') AND g.status <> 'paused'"""


UNDECIDED = """SELECT g.id, g.pause_kind, (SELECT COUNT(*) FROM requests r WHERE r.tenant_id = g.tenant_id AND r.goal_id = g.id
        AND r.kind = 'decision' AND r.state = 'open') FROM goals g
    WHERE g.status = 'paused' OR EXISTS (SELECT 1 FROM requests r WHERE r.tenant_id = g.tenant_id AND r.goal_id = g.id)"""


def check_waiting(database: Any) -> None:
    """Check that turns count what they wait for, ended runs wait for nobody, no call was made without approval, and no notice asks
    for a decision that was made. A goal is in the inbox as long as it needs a decision."""
    for turn_id, counted, found in database.read(lambda tx: tx.all(WAITING)):
        assert counted == found, f"turn {turn_id} counts {counted} open requests, and has {found}"
    assert database.read(lambda tx: tx.all(OF_ENDED_RUNS)) == []
    assert database.read(lambda tx: tx.all(UNAPPROVED)) == []
    assert database.read(lambda tx: tx.all(UNPROPOSED)) == []
    assert database.read(lambda tx: tx.all(UNSETTLED)) == []
    for goal_id, pause_kind, found in database.read(lambda tx: tx.all(UNDECIDED)):
        assert found == (pause_kind in DECISION_KINDS), f"goal {goal_id}, paused with {pause_kind!r}, has {found} open decisions"

"""Invariants of approvals, questions and notices about them. They hold after every test."""

from typing import Any

WAITING = """SELECT t.id, t.waiting,
        (SELECT COUNT(*) FROM approvals a WHERE a.turn_id = t.id AND a.state = 'proposed')
        + (SELECT COUNT(*) FROM questions q WHERE q.turn_id = t.id AND q.state = 'open') FROM turns t"""
OF_ENDED_RUNS = """SELECT 'approval', a.id FROM approvals a JOIN runs r ON r.id = a.run_id
        WHERE a.state = 'proposed' AND r.ended_at <> 0
    UNION ALL SELECT 'question', q.id FROM questions q JOIN runs r ON r.id = q.run_id WHERE q.state = 'open' AND r.ended_at <> 0"""
UNAPPROVED = """SELECT e.run_id, e.n, e.place, e.state, a.state FROM effects e
    JOIN approvals a ON a.run_id = e.run_id AND a.n = e.n AND a.place = e.place
    WHERE (e.state IN ('started', 'succeeded', 'unknown') AND a.state <> 'approved')
    OR (a.state = 'proposed' AND e.state <> 'proposed')"""
UNPROPOSED = """SELECT run_id, n, place FROM effects e WHERE state = 'proposed' AND NOT EXISTS (
    SELECT 1 FROM approvals a WHERE a.run_id = e.run_id AND a.n = e.n AND a.place = e.place)"""

UNSETTLED = """SELECT n.url FROM notices n JOIN questions q ON n.url = '/questions/' || CAST(q.id AS TEXT)
        WHERE n.tenant_id = q.tenant_id AND n.done_at = 0 AND q.state <> 'open'
    UNION ALL SELECT n.url FROM notices n JOIN approvals a ON n.url = '/approvals/' || CAST(a.id AS TEXT)
        WHERE n.tenant_id = a.tenant_id AND n.done_at = 0 AND NOT EXISTS (
            SELECT 1 FROM approvals o WHERE o.run_id = a.run_id AND o.n = a.n AND o.state = 'proposed')
    UNION ALL SELECT n.text FROM notices n JOIN goals g ON g.id = n.goal_id
        WHERE n.done_at = 0 AND n.kind IN ('proposal', 'decision', 'fault') AND g.status <> 'paused'"""


def check_waiting(database: Any) -> None:
    """Check that turns count what they wait for, ended runs wait for nobody, no call was made without approval, and no notice asks
    for a decision that was made."""
    for turn_id, counted, found in database.read(lambda tx: tx.all(WAITING)):
        assert counted == found, f"turn {turn_id} counts {counted} open approvals and questions, and has {found}"
    assert database.read(lambda tx: tx.all(OF_ENDED_RUNS)) == []
    assert database.read(lambda tx: tx.all(UNAPPROVED)) == []
    assert database.read(lambda tx: tx.all(UNPROPOSED)) == []
    assert database.read(lambda tx: tx.all(UNSETTLED)) == []

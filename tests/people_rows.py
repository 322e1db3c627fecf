"""Invariants of approvals and questions. They hold after every test."""

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


def check_waiting(database: Any) -> None:
    """Check that turns count what they wait for, ended runs wait for nobody, and no call was made without approval."""
    for turn_id, counted, found in database.read(lambda tx: tx.all(WAITING)):
        assert counted == found, f"turn {turn_id} counts {counted} open approvals and questions, and has {found}"
    assert database.read(lambda tx: tx.all(OF_ENDED_RUNS)) == []
    assert database.read(lambda tx: tx.all(UNAPPROVED)) == []
    assert database.read(lambda tx: tx.all(UNPROPOSED)) == []

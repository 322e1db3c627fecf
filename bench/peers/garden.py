"""The goal that Headway and the peers store: many sub-goals, each with a description, an expected outcome and an outcome."""

from typing import Any

DESCRIPTION = "Dig over bed number {n} by the southern wall, and take out all roots that are thicker than a finger."
EXPECTED = "Bed number {n} is loose to the depth of a spade, and nothing but grass roots is left in it."
OUTCOME = (
    "Bed number {n} is dug over. "
    + "Three roots of the old walnut were in the way and were sawn off where they meet the wall. " * 4
)


def sub_goal(n: int, status: str) -> dict[str, Any]:
    """Return a sub-goal as it would be kept in the state of a graph."""
    ended = status == "completed"
    return {
        "id": n,
        "description": DESCRIPTION.format(n=n),
        "expected_outcome": EXPECTED.format(n=n),
        "depends_on": [n - 1] if n else [],
        "status": status,
        "outcome": OUTCOME.format(n=n) if ended else None,
        "cost_usd": 0.0012 if ended else 0.0,
        "started_at": 1_700_000_000 if status != "pending" else 0,
        "ended_at": 1_700_000_060 if ended else 0,
    }

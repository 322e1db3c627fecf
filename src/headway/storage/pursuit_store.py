"""What a step of a goal's pursuit looks at: a few of its sub-goals, through indexes, however many there are.

The rules are those of `ledger.goal`, which says them of all sub-goals at once."""

from headway.ledger.goal import Goal, HowItRuns, SubGoal
from headway.storage.goal_store import SUB_GOALS, made
from headway.storage.transaction import Transaction

OF_GOAL = f"{SUB_GOALS} WHERE tenant_id = ? AND goal_id = ?"
AT_HAND = f"""{OF_GOAL} AND (status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL))
    ORDER BY id"""
READY = f"""{OF_GOAL} AND mode = ? AND status = 'pending' AND waits_for = 0
    ORDER BY priority * expected_value DESC, id LIMIT ?"""
DONE = f"{OF_GOAL} AND status = 'completed' ORDER BY id DESC LIMIT ?"
BELOW = f"{SUB_GOALS} WHERE tenant_id = ? AND id IN (SELECT depends_on FROM sub_goal_edges WHERE sub_goal_id = ?) ORDER BY id"
DOUBTS = """SELECT divergence FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND judged_under = ?
        AND divergence IN ('minor', 'major')
    UNION ALL SELECT 'in vain' FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND status = 'pending' AND waits_in_vain > 0"""


def at_hand(tx: Transaction, goal: Goal) -> list[SubGoal]:
    """Those at work, and those that have ended and are not judged yet."""
    return [made(row) for row in tx.all(AT_HAND, goal.tenant_id, goal.id)]


def ready(tx: Transaction, goal: Goal, mode: HowItRuns, limit: int) -> list[SubGoal]:
    """Pending ones that wait for nothing, the worthiest first."""
    return [made(row) for row in tx.all(READY, goal.tenant_id, goal.id, mode, limit)]


def doubts(tx: Transaction, goal: Goal) -> list[str]:
    """What speaks against the plan in force: outcomes that diverged under it, and sub-goals that wait in vain."""
    return [str(row[0]) for row in tx.all(DOUBTS, goal.tenant_id, goal.id, goal.plan_no, goal.tenant_id, goal.id)]


def below(tx: Transaction, one: SubGoal) -> list[SubGoal]:
    """Those that it builds on."""
    return [made(row) for row in tx.all(BELOW, one.tenant_id, one.id)] if one.depends_on else []


def last_done(tx: Transaction, goal: Goal, limit: int) -> list[SubGoal]:
    """The newest completed ones, oldest first."""
    return [made(row) for row in reversed(tx.all(DONE, goal.tenant_id, goal.id, limit))]

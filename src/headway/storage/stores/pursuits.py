"""SQL for one step of a goal's pursuit. Each query reads a few sub-goals through an index, however many there are.

The rules are those of `ledger.goal`, which applies them to a complete list of sub-goals.
"""

from headway.ledger.goal import Goal, SubGoal, SubGoalMode
from headway.storage.stores.goals import SELECT_SUB_GOALS, SUB_GOALS
from headway.storage.transaction import Transaction

SELECT_OF_GOAL = f"{SELECT_SUB_GOALS} WHERE tenant_id = ? AND goal_id = ?"
SELECT_ACTIVE = f"""{SELECT_OF_GOAL} AND (status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL))
    ORDER BY id"""
SELECT_READY = f"""{SELECT_OF_GOAL} AND mode = ? AND status = 'pending' AND waits_for = 0
    ORDER BY priority * expected_value DESC, id LIMIT ?"""
SELECT_COMPLETED = f"{SELECT_OF_GOAL} AND status = 'completed' ORDER BY id DESC LIMIT ?"
SELECT_DEPENDENCIES = f"""{SELECT_SUB_GOALS} WHERE tenant_id = ? AND id IN (
    SELECT depends_on FROM sub_goal_edges WHERE tenant_id = ? AND sub_goal_id = ?) ORDER BY id"""
SELECT_DOUBTS = """SELECT divergence FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND judged_under = ?
        AND divergence IN ('minor', 'major')
    UNION ALL SELECT 'in vain' FROM sub_goals WHERE tenant_id = ? AND goal_id = ? AND status = 'pending' AND waits_in_vain > 0"""


def list_active(tx: Transaction, goal: Goal) -> list[SubGoal]:
    """List the sub-goals in progress and those that have ended but are not judged yet."""
    return SUB_GOALS.all(tx, SELECT_ACTIVE, goal.tenant_id, goal.id)


def list_ready(tx: Transaction, goal: Goal, mode: SubGoalMode, limit: int) -> list[SubGoal]:
    """List the pending sub-goals that wait for nothing, highest worth first."""
    return SUB_GOALS.all(tx, SELECT_READY, goal.tenant_id, goal.id, mode, limit)


def list_doubts(tx: Transaction, goal: Goal) -> list[str]:
    """List the reasons to doubt the current plan: outcomes that diverged under it and sub-goals that can never start."""
    return [str(row[0]) for row in tx.all(SELECT_DOUBTS, goal.tenant_id, goal.id, goal.plan_no, goal.tenant_id, goal.id)]


def list_dependencies(tx: Transaction, sub_goal: SubGoal) -> list[SubGoal]:
    """List the sub-goals that this one depends on."""
    if not sub_goal.depends_on:
        return []
    return SUB_GOALS.all(tx, SELECT_DEPENDENCIES, sub_goal.tenant_id, sub_goal.tenant_id, sub_goal.id)


def list_last_completed(tx: Transaction, goal: Goal, limit: int) -> list[SubGoal]:
    """List the sub-goals completed last, oldest first."""
    return SUB_GOALS.all(tx, SELECT_COMPLETED, goal.tenant_id, goal.id, limit)[::-1]

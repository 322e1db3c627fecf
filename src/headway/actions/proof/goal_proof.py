"""What checks say about a goal and its sub-goals."""

from headway.actions import goals, journal, sub_goals
from headway.actions.proof.receipts import store
from headway.ledger.check import ReceiptDraft, describe_failures
from headway.ledger.goal import Goal, SubGoal
from headway.storage.transaction import Transaction


def judge_sub_goal(tx: Transaction, goal: Goal, sub_goal: SubGoal, draft: ReceiptDraft) -> None:
    """Judge a sub-goal's outcome by its checks: it is as expected, or it diverges from the plan."""
    store(tx, goal.tenant_id, draft)
    proven = sub_goals.change(tx, sub_goal, proof="proven" if draft.ok else "broken")
    if draft.ok:
        sub_goals.judge(tx, goal, proven, "none", "All checks passed.", "checks")
    else:
        sub_goals.judge(tx, goal, proven, "major", describe_failures(draft.list_failures()), "checks")


def prove_goal(tx: Transaction, goal: Goal, draft: ReceiptDraft) -> Goal:
    """Record what the goal's checks found at its end. If one failed, a new plan is due."""
    store(tx, goal.tenant_id, draft)
    missing = describe_failures(draft.list_failures())
    journal.append(tx, goal.tenant_id, goal.id, "goal_evaluated", {"met": draft.ok, "reason": missing, "by": "checks"})
    return goals.save(tx, goal._replace(proof="proven" if draft.ok else "unproven", replan_why=missing))

"""What people change about a goal after it was set: its texts and limits. And running an ended goal again."""

from typing import Any, NamedTuple

from headway.actions import goals, jobs, journal
from headway.actions.access import audit, quotas
from headway.actions.goals import NewGoal
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.goal import Goal
from headway.ledger.run import Limits, to_dollars
from headway.ledger.todo import UNSET, Unset
from headway.storage.stores import runs as run_store
from headway.storage.transaction import Transaction

DEFAULT_LIMITS = Limits()
TEXTS = ("description", "success_criteria")
NEW_TEXT_REASON = "A person changed what the goal should achieve."
LABELS = {"success_criteria": "success criteria", "deadline_at": "deadline"}  # of fields whose names are not words


class GoalEdit(NamedTuple):
    """A partial update of a goal. Fields left UNSET stay as they are."""

    description: str | Unset = UNSET
    success_criteria: str | Unset = UNSET
    priority: int | Unset = UNSET
    budget: int | Unset = UNSET  # 0: only the pool limits it
    deadline_at: int | Unset = UNSET  # 0: none


def edit(tx: Transaction, tenant_id: int, goal_id: int, edit: GoalEdit, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Change a goal that has not ended. Its next step follows the new limits, and a new text leads to a new plan.

    A goal that was paused because it had spent its budget or passed its deadline continues, if the new limit allows it.
    """
    goal = goals.get_locked(tx, tenant_id, goal_id)
    if goal.ended:
        raise Conflict(f"Goal #{goal_id} is {goal.status}, so it can no longer be changed. Run it again instead.")
    edited = goal._replace(**{name: value for name, value in edit._asdict().items() if value is not UNSET})
    checked = goals.validate(NewGoal(edited.description, edited.success_criteria, edited.priority))
    edited = edited._replace(description=checked.description, success_criteria=checked.success_criteria)
    fields = [name for name in GoalEdit._fields if getattr(edited, name) != getattr(goal, name)]
    if not fields:
        return goal
    cost = run_store.sum_goal_cost(tx, tenant_id, goal_id)
    check_limits(tx, edited, fields, cost)
    if any(name in fields for name in TEXTS):
        quotas.check_storage(tx, tenant_id)
        edited = edited._replace(replan_why=NEW_TEXT_REASON if goal.plan_no else "")
    record(tx, goal, edited, fields)
    edited = goals.save(tx, edited)
    if has_room_again(tx, edited, cost):
        edited = goals.mark_active(tx, edited, limits)
    elif edited.status == "active" and edited.run_id:
        jobs.wake(tx, tenant_id, edited.run_id)  # it may rest until the old deadline
    journal.emit_goal_at_commit(tx, tenant_id, goal_id, complete=True)
    return edited


def check_limits(tx: Transaction, edited: Goal, fields: list[str], cost: int) -> None:
    if "deadline_at" in fields and 0 < edited.deadline_at <= tx.now:
        raise Invalid("deadline must be in the future.")
    if "budget" in fields and 0 < edited.budget <= cost:
        raise Invalid(f"The goal has spent ${to_dollars(cost):.4f} already. Set a higher budget, or pause the goal to stop it.")


def record(tx: Transaction, old: Goal, new: Goal, fields: list[str]) -> None:
    """Record the change in the journal and in the audit log."""
    before, after = ({name: encode_field(goal, name) for name in fields} for goal in (old, new))
    labels = [LABELS.get(name, name) for name in fields]
    journal.append(
        tx, new.tenant_id, new.id, "edited", {"fields": labels, "old": audit.shorten(before), "new": audit.shorten(after)}
    )
    audit.record(tx, new.tenant_id, "goal.edit", f"goal:{new.id}", before, after)


def encode_field(goal: Goal, name: str) -> Any:
    match name:
        case "budget":
            return to_dollars(goal.budget) if goal.budget else None
        case "deadline_at":
            return goal.deadline_at // 1000
        case _:
            return getattr(goal, name)


def has_room_again(tx: Transaction, goal: Goal, cost: int) -> bool:
    """Whether a goal that is paused at one of its limits is below both of them now."""
    is_at_limit = goal.status == "paused" and goal.pause_kind in ("goal_budget", "deadline")
    is_within = (not goal.budget or cost < goal.budget) and (not goal.deadline_at or tx.now < goal.deadline_at)
    return is_at_limit and is_within


def build_repeat(tx: Transaction, tenant_id: int, goal_id: int) -> NewGoal:
    """Return an ended goal as a new one: the same texts, checks, repository and limits. It gets as much time as the old one had."""
    goal = goals.get(tx, tenant_id, goal_id)
    if not goal.ended:
        raise Conflict(f"Goal #{goal_id} is {goal.status}. It can be run again when it has ended.")
    deadline_at = tx.now + goal.deadline_at - goal.created_at if goal.deadline_at else 0
    new_goal = NewGoal(goal.description, goal.success_criteria, goal.priority, goal.budget, deadline_at)
    return new_goal._replace(repository=goal.repository, checks=goal.checks, repeat_of=goal.id)


def run_again(tx: Transaction, tenant_id: int, new_goal: NewGoal, limits: Limits = DEFAULT_LIMITS) -> Goal:
    """Start a goal from `build_repeat`. The old goal's journal names the new one."""
    goal = goals.add(tx, tenant_id, new_goal, limits)
    journal.append(tx, tenant_id, new_goal.repeat_of, "repeated", {"goal_id": goal.id})
    return goal

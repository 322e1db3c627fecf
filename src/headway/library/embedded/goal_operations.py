"""Requests about goals."""

from collections.abc import Callable
from typing import Final

from headway.actions import goal_views, goals, runs
from headway.actions.goals import DEFAULT_PRIORITY, NewGoal
from headway.actions.people import goal_edits
from headway.actions.people.goal_edits import GoalEdit
from headway.actions.proof import receipts
from headway.actions.views import check_limit
from headway.ledger.errors import Invalid
from headway.ledger.goal import Goal, GoalFilter
from headway.ledger.run import NANOS_PER_DOLLAR
from headway.ledger.todo import UNSET, write_checks
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation
from headway.settings import Settings
from headway.storage.transaction import Transaction

MAX_GOAL_RUNS: Final = 500
MOST_DOLLARS: Final = 1_000_000


def add(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body, settings = request.body, request.headway.settings
    new_goal = NewGoal(
        body["description"],
        body["success_criteria"],
        body.get("priority", DEFAULT_PRIORITY),
        to_nanos(body.get("budget_usd")),
        body.get("deadline", 0) * 1000,
        body["repository"],
        write_checks(body["checks"], "operator"),
    )
    return show(tx, goals.add(tx, tenant_id, check_place(new_goal, tenant_id, settings), settings.limits), request)


def to_nanos(budget_usd: float | None) -> int:
    """Convert a budget; None is none."""
    if budget_usd is not None and not 0.000001 <= budget_usd <= MOST_DOLLARS:
        raise Invalid(f"budget_usd must be between 0.000001 and {MOST_DOLLARS:,}.")
    return int((budget_usd or 0) * NANOS_PER_DOLLAR)


def check_place(new_goal: NewGoal, tenant_id: int, settings: Settings) -> NewGoal:
    """Check the repository of a new goal, if it names one."""
    if not new_goal.repository:
        return new_goal
    from headway.agents.repositories.places import check_repository  # noqa: PLC0415  few goals name a repository

    return check_repository(new_goal, settings.get_workspace(tenant_id))


def change(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    body = request.body
    edit = GoalEdit(
        description=body.get("description", UNSET),
        success_criteria=body.get("success_criteria", UNSET),
        priority=body.get("priority", UNSET),
        budget=to_nanos(body["budget_usd"]) if "budget_usd" in body else UNSET,
        deadline_at=(body["deadline"] or 0) * 1000 if "deadline" in body else UNSET,
    )
    return show(tx, goal_edits.edit(tx, tenant_id, request.get_id(), edit, request.headway.settings.limits), request)


def run_again(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    settings = request.headway.settings
    new_goal = check_place(goal_edits.build_repeat(tx, tenant_id, request.get_id()), tenant_id, settings)
    return show(tx, goal_edits.run_again(tx, tenant_id, new_goal, settings.limits), request)


def show(tx: Transaction, goal: Goal, request: LocalRequest) -> Document:
    request.nudge()
    return {"goal": goal_views.show(tx, goal.tenant_id, goal.id, request.headway.settings.goals)}


def get(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"goal": goal_views.show(tx, tenant_id, request.get_id(), request.headway.settings.goals)}


def list_page(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    chosen = GoalFilter(request.query.get("status"))
    return goal_views.list_page(tx, tenant_id, chosen, check_limit(request.limit), request.cursor)._asdict()


def list_entries(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    entries = goal_views.list_entries(tx, tenant_id, request.get_id(), check_limit(request.limit), request.before)
    return {"entries": [entry.as_json() for entry in entries]}


def list_receipts(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    goals.get(tx, tenant_id, request.get_id())
    return {"receipts": [receipt.as_json() for receipt in receipts.list_newest(tx, tenant_id, "goal", request.get_id())]}


def explain(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"why": goal_views.explain(tx, tenant_id, request.get_id(), request.query.get("sub_goal_id"))}


def pause(tx: Transaction, tenant_id: int, request: LocalRequest) -> Goal:
    return goals.pause(tx, tenant_id, request.get_id())


def resume(tx: Transaction, tenant_id: int, request: LocalRequest) -> Goal:
    return goals.resume(tx, tenant_id, request.get_id(), request.headway.settings.limits)


def abandon(tx: Transaction, tenant_id: int, request: LocalRequest) -> Goal:
    return goals.abandon(tx, tenant_id, request.get_id())


def decide(tx: Transaction, tenant_id: int, request: LocalRequest) -> Goal:
    body = request.body
    return goals.decide(tx, tenant_id, request.get_id(), body["action"], body["note"], request.headway.settings.limits)


def control(act: Callable[[Transaction, int, LocalRequest], Goal]) -> Operation:
    """Return an operation that changes a goal and interrupts its ended runs, so that they do not wait for a model or a tool."""

    def work(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
        document = show(tx, act(tx, tenant_id, request), request)
        ended = [run.id for run in runs.list_page(tx, tenant_id, None, MAX_GOAL_RUNS, request.get_id()) if run.ended]
        request.after.append(lambda: request.headway.interrupt(ended))
        return document

    return work


OPERATIONS: Final[dict[str, Operation]] = {
    "POST /goals": add,
    "GET /goals": list_page,
    "GET /goals/{}": get,
    "PATCH /goals/{}": change,
    "POST /goals/{}/run-again": run_again,
    "GET /goals/{}/journal": list_entries,
    "GET /goals/{}/receipts": list_receipts,
    "GET /goals/{}/why": explain,
    "POST /goals/{}/pause": control(pause),
    "POST /goals/{}/resume": control(resume),
    "POST /goals/{}/abandon": control(abandon),
    "POST /goals/{}/decision": control(decide),
}

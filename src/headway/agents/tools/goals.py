"""Tools that set goals, which other agents then pursue, and tools that propose them."""

from typing import Annotated, Any

from pydantic import Field

from headway.actions import goals, spending
from headway.actions.goals import DEFAULT_PRIORITY, LOWEST_PRIORITY, NewGoal
from headway.agents.tools.agents import has_run
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import Arguments, NonEmptyText, Tool
from headway.ledger.goal import Goal
from headway.storage.transaction import Transaction

Priority = Annotated[int, Field(ge=0, le=LOWEST_PRIORITY, description="0 is the highest")]


class SetGoal(Arguments):
    description: Annotated[NonEmptyText, Field(description="What to achieve, self-contained")]
    success_criteria: Annotated[str, Field(description="How anyone can check that it was achieved")] = ""
    priority: Priority = DEFAULT_PRIORITY


class DiscoverGoal(Arguments):
    description: Annotated[NonEmptyText, Field(description="What to achieve, self-contained")]
    evidence: Annotated[NonEmptyText, Field(description="What makes it worth doing")]
    priority: Priority = DEFAULT_PRIORITY


def set_goal(tx: Transaction, execution: Execution, arguments: SetGoal) -> dict[str, Any]:
    """Set a goal. In a conversation the user asked for it; within another goal it counts as discovered by the agent."""
    new = NewGoal(arguments.description, arguments.success_criteria, arguments.priority)
    if execution.scope.turn_id is not None:
        return encode_goal(goals.add(tx, execution.scope.tenant_id, new, execution.limits))
    return encode_goal(create_discovered_goal(tx, execution, new, "Set by an agent that pursued another goal."))


def discover_goal(tx: Transaction, execution: Execution, arguments: DiscoverGoal) -> dict[str, Any]:
    return encode_goal(
        create_discovered_goal(tx, execution, NewGoal(arguments.description, "", arguments.priority), arguments.evidence)
    )


def create_discovered_goal(tx: Transaction, execution: Execution, new: NewGoal, evidence: str) -> Goal:
    """Propose a discovered goal for the operator's approval.

    The goal starts at once if the installation's `discovery` setting is "auto" and the budget allows it.
    """
    tenant_id = execution.scope.tenant_id
    if execution.goals.discovery == "auto" and spending.has_room(tx, tenant_id, execution.limits.budget):
        return goals.add(tx, tenant_id, new, execution.limits, "agent-discovered", evidence)
    return goals.propose(tx, tenant_id, new, evidence)


def encode_goal(goal: Goal) -> dict[str, Any]:
    return {"goal_id": goal.id, "status": goal.status, "waits_for": goal.pause_reason or None}


GOAL_TOOLS = (
    Tool(
        "set_goal",
        "Set a goal that the user asked for. Another agent pursues it in the background.",
        "goals",
        SetGoal,
        set_goal,
        needs=has_run,
        needs_approval=True,
    ),
    Tool(
        "discover_goal",
        "Propose a worthwhile goal that the user did not ask for. The operator decides.",
        "goals",
        DiscoverGoal,
        discover_goal,
        needs=has_run,
    ),
)

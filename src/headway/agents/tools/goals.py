"""Tools that set goals, which other agents then pursue, and tools that propose them."""

from typing import Annotated, Any

from pydantic import Field

from headway.actions.access import spending
from headway.actions.goals import goals
from headway.actions.goals.goals import DEFAULT_PRIORITY, LOWEST_PRIORITY, NewGoal
from headway.actions.runs import runs
from headway.agents.tools.agents import has_run
from headway.agents.tools.arguments import Arguments, Checks, NonEmptyText
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import InTransaction, Tool
from headway.ledger.goal import Goal
from headway.ledger.parsing.checks import write_checks
from headway.ledger.run import Run
from headway.ledger.text import to_one_line
from headway.storage.transaction import Transaction

REQUEST_LIMIT = 500  # characters of the user's request that a goal's evidence quotes

Priority = Annotated[int, Field(ge=0, le=LOWEST_PRIORITY, description="0 is the highest")]


class SetGoal(Arguments):
    description: Annotated[NonEmptyText, Field(description="What to achieve, self-contained")]
    success_criteria: Annotated[str, Field(description="How anyone can check that it was achieved")] = ""
    priority: Priority = DEFAULT_PRIORITY
    repository: Annotated[str, Field(description="A git repository in the user's workspace to work in")] = ""
    checks: Checks = None


class DiscoverGoal(Arguments):
    description: Annotated[NonEmptyText, Field(description="What to achieve, self-contained")]
    evidence: Annotated[NonEmptyText, Field(description="What makes it worth doing")]
    priority: Priority = DEFAULT_PRIORITY


def set_goal(tx: Transaction, execution: Execution, arguments: SetGoal) -> dict[str, Any]:
    """Set a goal, which starts at once if the agent answers a turn. Another agent's goal is treated like one that it discovered."""
    checks = write_checks(arguments.checks, "agent")
    new = NewGoal(
        arguments.description, arguments.success_criteria, arguments.priority, repository=arguments.repository, checks=checks
    )
    if new.repository:
        from headway.agents.repositories.places import check_repository  # noqa: PLC0415  few goals name a repository

        new = check_repository(new, execution.tenant_workspace or execution.workspace)
    run = runs.get_run(tx, execution.scope.tenant_id, execution.run_id or "")
    evidence = describe_origin(run)
    if run.answers_turn:
        return encode_goal(goals.add_goal(tx, run.tenant_id, new, execution.limits, "agent-discovered", evidence))
    return encode_goal(create_discovered_goal(tx, execution, new, evidence))


def describe_origin(run: Run) -> str:
    """Say which agent set a goal, in the course of what work."""
    if run.answers_turn:
        return f"Set by the agent {run.role} in turn {run.turn_id}. The user's request was: {to_one_line(run.task)[:REQUEST_LIMIT]}"
    work = f"worked for goal #{run.goal_id}" if run.goal_id is not None else f"worked for turn {run.turn_id}"
    return f"Set by the agent {run.role}, which {work}."


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
        return goals.add_goal(tx, tenant_id, new, execution.limits, "agent-discovered", evidence)
    return goals.propose(tx, tenant_id, new, evidence)


def encode_goal(goal: Goal) -> dict[str, Any]:
    return {"goal_id": goal.id, "status": goal.status, "waits_for": goal.pause_reason or None}


GOAL_TOOLS = (
    Tool(
        "set_goal",
        "Set a goal that the user asked for. Another agent pursues it in the background.",
        "goals",
        SetGoal,
        InTransaction(set_goal),
        needs=has_run,
        needs_approval=True,
    ),
    Tool(
        "discover_goal",
        "Propose a worthwhile goal that the user did not ask for. The operator decides.",
        "goals",
        DiscoverGoal,
        InTransaction(discover_goal),
        needs=has_run,
    ),
)

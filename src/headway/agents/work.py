"""What a run works with, and what stays the same from one of its steps to the next."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.actions import conversations
from headway.agents import prompts, transcript
from headway.agents.execution import Execution, Place, find_place
from headway.agents.models import Models
from headway.agents.roles import Role, Roles
from headway.agents.toolbox import Tool, Toolbox
from headway.agents.tracing import Silent, Tracer
from headway.ledger.goal import GoalLimits
from headway.ledger.run import Limits, Mode, Run
from headway.ledger.scope import Scope
from headway.storage.database import Database
from headway.storage.transaction import Transaction

PLANS = ("turn_plan", "queue")  # families that work on a turn's list


class Means(NamedTuple):
    """What all runs of a process share."""

    database: Database
    models: Models
    toolbox: Toolbox
    roles: Roles
    limits: Limits
    goals: GoalLimits
    owner: str  # the name of this process among those that drive runs
    execution: Callable[[Place, Role], Execution]
    stream: Callable[[Run, dict[str, Any]], None]  # tells live watchers what a model is saying; nobody else ever hears it
    nudge: Callable[[], None]  # there is a job for somebody
    tracer: Tracer = Silent()


class Work(NamedTuple):
    """One run, as it was when it was taken up."""

    means: Means
    run: Run
    mode: Mode
    role: Role
    execution: Execution
    before: list[ModelMessage]  # what was said in the conversation before this turn

    @property
    def scope(self) -> Scope:
        return self.execution.scope

    @property
    def parameters(self) -> ModelRequestParameters:
        may_delegate = self.run.depth < self.means.limits.depth
        has_plan = self.scope.turn_id is not None
        return parameters(self.means.toolbox, self.role, self.mode, may_delegate=may_delegate, has_plan=has_plan)


def take_up(tx: Transaction, means: Means, run: Run) -> Work:
    """A sub-agent knows nothing of the turn's plan nor of what was said before: only what it was handed."""
    role = means.roles.find(run.role)
    answers_turn = run.turn_id is not None and run.parent_run_id is None
    scope = Scope(run.tenant_id, run.conversation_id, run.turn_id if answers_turn else None, role.name)
    execution = means.execution(find_place(tx, scope), role)
    execution = execution._replace(run_id=run.id, roles=means.roles, limits=means.limits, goals=means.goals)
    if not answers_turn:
        return Work(means, run, "plan", role, execution, [])
    turn = conversations.get_turn(tx, run.tenant_id, run.turn_id or "")
    before = transcript.history(tx, run.tenant_id, run.conversation_id, turn.id)
    return Work(means, run, "queue" if turn.mode == "queue" else "plan", role, execution, before)


@lru_cache(maxsize=64)
def parameters(toolbox: Toolbox, role: Role, mode: Mode, *, may_delegate: bool, has_plan: bool) -> ModelRequestParameters:
    """Who the model is and what it may call. Made once: it is the same at every step of every run."""
    withheld = {*(() if may_delegate else ("agents",)), *(("outcome",) if has_plan else PLANS)}
    tools = [tool for tool in offered(toolbox, role, mode) if tool.family not in withheld]
    said = prompts.instructions(role, [tool.name for tool in tools], mode)
    return ModelRequestParameters(
        function_tools=[definition(tool) for tool in tools], instruction_parts=[InstructionPart(content=said)]
    )


def offered(toolbox: Toolbox, role: Role, mode: Mode) -> list[Tool]:
    """What the role grants, with one way to plan: the one that belongs to the turn's mode."""
    other = "queue" if mode == "plan" else "turn_plan"
    return [
        tool
        for tool in toolbox.tools.values()
        if role.grants(tool.family, tool.name) and tool.family != other and not tool.borrowed
    ]


def definition(tool: Tool) -> ToolDefinition:
    described = tool.as_json()
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=described["input_schema"])

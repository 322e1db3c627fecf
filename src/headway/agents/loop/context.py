"""The process-wide runtime and the per-run context that every step of a run shares."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.actions import conversations
from headway.agents import prompts, transcript
from headway.agents.attachments import CanRead, can_model_read
from headway.agents.models.client import Models
from headway.agents.roles import Role, Roles
from headway.agents.tools.execution import Execution, ResolvedScope, resolve_scope
from headway.agents.tools.toolbox import Tool, Toolbox
from headway.agents.tracing import NullTracer, Tracer
from headway.ledger.attachment import Attachment
from headway.ledger.errors import SettingsError
from headway.ledger.goal import GoalLimits
from headway.ledger.run import Limits, Run, TurnMode
from headway.ledger.scope import Scope
from headway.storage.database import Database
from headway.storage.stores import attachments as attachment_store
from headway.storage.transaction import Transaction

PLAN_FAMILIES = ("turn_plan", "queue")  # tool families that work on a turn's plan


class Runtime(NamedTuple):
    """Everything that all runs of a process share."""

    database: Database
    models: Models
    toolbox: Toolbox
    roles: Roles
    limits: Limits
    goals: GoalLimits
    owner: str  # this process's name among the job owners
    execution: Callable[[ResolvedScope, Role], Execution]
    stream: Callable[[Run, dict[str, Any]], None]  # sends partial model output to live subscribers; it is not stored
    nudge: Callable[[], None]  # wakes the engine, because a job is ready
    tracer: Tracer = NullTracer()


class RunContext(NamedTuple):
    """One run, as loaded when this process started to drive it."""

    runtime: Runtime
    run: Run
    mode: TurnMode
    role: Role
    execution: Execution
    history: list[ModelMessage]  # the conversation before this turn
    attachments: Sequence[Attachment] = ()  # of the turn's message

    @property
    def scope(self) -> Scope:
        return self.execution.scope

    @property
    def parameters(self) -> ModelRequestParameters:
        may_delegate = self.run.depth < self.runtime.limits.depth
        has_plan = self.scope.turn_id is not None
        return build_parameters(self.runtime.toolbox, self.role, self.mode, may_delegate=may_delegate, has_plan=has_plan)


def load_context(tx: Transaction, runtime: Runtime, run: Run) -> RunContext:
    """Load a run's role, tools and history. A sub-agent gets neither the turn's plan nor the conversation, only its assignment."""
    role = runtime.roles.find(run.role)
    scope = Scope(run.tenant_id, run.conversation_id, run.turn_id if run.answers_turn else None, role.name)
    execution = runtime.execution(resolve_scope(tx, scope), role)
    execution = execution._replace(run_id=run.id, roles=runtime.roles, limits=runtime.limits, goals=runtime.goals)
    if not run.answers_turn:
        return RunContext(runtime, run, "plan", role, execution, [])
    turn = conversations.get_turn(tx, run.tenant_id, run.turn_id or "")
    history = transcript.load_history(tx, run.tenant_id, run.conversation_id, turn.id, build_reader(runtime.models, role))
    attachments = attachment_store.list_by_turns(tx, run.tenant_id, [turn.id]).get(turn.id, ())
    return RunContext(runtime, run, "queue" if turn.mode == "queue" else "plan", role, execution, history, attachments)


def build_reader(models: Models, role: Role) -> CanRead:
    """Return a function that tells whether the role's model can read a file. Another model may have answered an earlier turn."""

    def can_read(attachment: Attachment) -> bool:
        with suppress(SettingsError):  # the model cannot be built; asking it raises the error
            return can_model_read(models.find(role.tier), attachment)
        return False

    return can_read


@lru_cache(maxsize=64)
def build_parameters(toolbox: Toolbox, role: Role, mode: TurnMode, *, may_delegate: bool, has_plan: bool) -> ModelRequestParameters:
    """Build the instructions and tool definitions for model calls.

    Cached, because they are the same for every step of every run.
    """
    withheld = {*(() if may_delegate else ("agents",)), *(("outcome",) if has_plan else PLAN_FAMILIES)}
    tools = [tool for tool in list_offered_tools(toolbox, role, mode) if tool.family not in withheld]
    instructions = prompts.render_instructions(role, [tool.name for tool in tools], mode)
    return ModelRequestParameters(
        function_tools=[to_tool_definition(tool) for tool in tools], instruction_parts=[InstructionPart(content=instructions)]
    )


def list_offered_tools(toolbox: Toolbox, role: Role, mode: TurnMode) -> list[Tool]:
    """List the tools that the role grants, with only the planning family that matches the turn's mode."""
    excluded_family = "queue" if mode == "plan" else "turn_plan"
    return [
        tool
        for tool in toolbox.tools.values()
        if role.grants(tool.family, tool.name) and tool.family != excluded_family and not tool.is_hidden
    ]


def to_tool_definition(tool: Tool) -> ToolDefinition:
    document = tool.as_json()
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=document["input_schema"])

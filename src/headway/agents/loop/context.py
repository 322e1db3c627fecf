"""The process-wide runtime and the per-run context that every step of a run shares."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic_ai.messages import InstructionPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions import prompts
from headway.agents.instructions.roles import INDEX, Role, Roles
from headway.agents.instructions.skills import Skill
from headway.agents.models.client import Models
from headway.agents.tools.builtin import READ_SKILL
from headway.agents.tools.execution import Execution, ResolvedScope, resolve_scope
from headway.agents.tools.people import build_client_tools
from headway.agents.tools.results import USE_TOOL, build_use_schema
from headway.agents.tools.toolbox import Tool, Toolbox
from headway.agents.tracing import NullTracer, Tracer
from headway.agents.transcripts.history import load_history
from headway.agents.transcripts.quotations import Quotations
from headway.agents.transcripts.transcript import (
    CHARACTERS_PER_TOKEN,
    CanRead,
    TranscriptEntry,
    can_model_read,
    estimate_parameters,
)
from headway.ledger.attachment import Attachment
from headway.ledger.errors import SettingsError
from headway.ledger.limits import GoalLimits, Limits
from headway.ledger.run import Run, TurnMode
from headway.ledger.scope import Scope
from headway.storage.database import DatabaseAccess
from headway.storage.retry import PatientView
from headway.storage.stores import files as attachment_store
from headway.storage.transaction import Transaction

PLAN_FAMILIES = ("turn_plan", "queue")  # tool families that work on a turn's plan
RESULT_LIMIT = 50_000  # characters of a tool's result in an event, and at most in a message to the model
MCP_OFFER_LIMIT = 10  # more tools of MCP servers than this are called with use_tool
# Where the runtime keeps the books, these tools are offered if a request has one of the words.
WANTED_BY = {
    "now": re.compile(
        r"\b(?:(?:what|which|the|current|today's) (?:time|date|day|weekday)|now|today|tomorrow|yesterday)\b", re.IGNORECASE
    ),
    "delegate": re.compile(r"\b(?:delegate|worker|sub-?agent|researcher|coder|writer|reviewer)s?\b", re.IGNORECASE),
    USE_TOOL: re.compile(
        r"\b(?:todos?|to-dos?|task list|remember|recall|remind|goals?|delegate|workers?|(?:sub-?)?agents?|background|parallel)\b",
        re.IGNORECASE,
    ),
}
RESULT_SHARE = 0.15  # of the model's context that one result may fill


class Runtime(NamedTuple):
    """Everything that all runs of a process share."""

    database: DatabaseAccess
    models: Models
    toolbox: Toolbox
    roles: Roles
    limits: Limits
    goals: GoalLimits
    owner: str  # this process's name among the job owners
    execution: Callable[[ResolvedScope, Role], Execution]
    stream: Callable[[Run, dict[str, Any]], None]  # sends partial model output to live subscribers; it is not stored
    prepare: Callable[[Role], Awaitable[None]]  # connects to the MCP servers whose tools the role may use
    nudge: Callable[[], None]  # wakes the engine, because a job is ready
    checks: CheckRunner
    tracer: Tracer = NullTracer()
    worktrees: str = ""  # the folder for the worktrees of runs that work in a repository

    def of(self, tenant_id: int) -> "Runtime":
        """Return a runtime whose transactions see only the rows of this tenant, and wait while the database is away."""
        return self._replace(database=PatientView(self.database.of(tenant_id)))


class Offer(NamedTuple):
    """The beginning of every request of a run: the instructions and the tools."""

    parameters: ModelRequestParameters
    tokens: int  # estimated
    has_tools: bool  # False: the model cannot call functions and works with writs


class RunContext(NamedTuple):
    """One run, as loaded when this process started to drive it."""

    runtime: Runtime
    run: Run
    mode: TurnMode
    role: Role
    execution: Execution
    history: list[TranscriptEntry]  # the conversation before this turn
    quotations: Quotations
    attachments: Sequence[Attachment] = ()  # of the turn's message
    guide: str = ""  # the workspace's AGENTS.md, if the run begins here
    own_models: Models | None = None  # if the run asks another model than its role does
    client_context: str = ""  # what the client tells the agent beside the message
    client_tools: Mapping[str, Tool] = MappingProxyType({})  # those that the client of the turn runs

    @property
    def scope(self) -> Scope:
        return self.execution.scope

    @property
    def models(self) -> Models:
        return self.own_models or self.runtime.models

    @property
    def can_read(self) -> CanRead:
        return build_reader(self.models, self.role)

    @property
    def drives_items(self) -> bool:
        """Whether the runtime keeps the books: it makes the plan, and completes items by what the calls show."""
        tier = self.role.tier
        return self.mode == "plan" and self.models.describe(tier).supports_tools and self.models.drives_items(tier)

    @property
    def offer(self) -> Offer:
        runtime = self.runtime
        has_plan = self.scope.turn_id is not None
        if not self.models.describe(self.role.tier).supports_tools:
            return self.add_client(build_writ_offer(self.role, has_plan=has_plan))
        may_delegate = self.run.depth < runtime.limits.depth
        toolbox, roles, skills = runtime.toolbox, runtime.roles, self.execution.skills
        wanted = list_wanted(self.run.task) if (has_plan or self.run.is_main) and self.drives_items else None
        offer = build_offer(
            toolbox, toolbox.version, roles, self.role, self.mode, skills, wanted, may_delegate=may_delegate, has_plan=has_plan
        )
        return self.add_client(offer)

    def add_client(self, offer: Offer) -> Offer:
        """Add what the turn's client tells the agent, and the tools that it has. It comes last, so that what is before it stays in
        the provider's cache."""
        if not (self.client_context or self.client_tools):
            return offer
        text = prompts.render_client_context(self.client_context) if self.client_context else ""
        parts = [*(offer.parameters.instruction_parts or ()), *([InstructionPart(content=text)] if text else ())]
        definitions = [to_tool_definition(tool, []) for tool in self.client_tools.values()] if offer.has_tools else []
        parameters = replace(
            offer.parameters,
            instruction_parts=parts,
            function_tools=[*offer.parameters.function_tools, *definitions],
        )
        return Offer(parameters, estimate_parameters(parameters), offer.has_tools)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools that the run may name, by name. A client's tool cannot replace one of the server's."""
        tools = self.runtime.toolbox.tools
        return {**self.client_tools, **tools} if self.client_tools else tools


def load_context(tx: Transaction, runtime: Runtime, run: Run) -> RunContext:
    """Load a run's role, tools and history. A sub-agent gets neither the turn's plan nor the conversation, only its assignment."""
    role = runtime.roles.find(run.role)
    scope = Scope(run.tenant_id, run.conversation_id, run.turn_id if run.answers_turn else None, role.name)
    resolved_scope = resolve_scope(tx, scope)
    execution = runtime.execution(resolved_scope, role)
    own_models = runtime.models.using(role.tier, run.model) if run.model else None
    models = own_models or runtime.models
    result_limit = int(models.describe(role.tier).context_tokens * RESULT_SHARE) * CHARACTERS_PER_TOKEN
    execution = execution._replace(
        run_id=run.id,
        roles=runtime.roles,
        limits=runtime.limits,
        goals=runtime.goals,
        result_limit=min(RESULT_LIMIT, result_limit),
    )
    if run.repository:
        from headway.agents.repositories import places  # noqa: PLC0415  most runs have none

        folder = places.get_worktree_folder(runtime.worktrees, run)
        sandbox = places.show_history(execution.sandbox, execution.workspace, run.repository)
        name = f"{run.repository}:{places.get_branch(run)}"
        execution = execution._replace(workspace=folder, tenant_workspace=execution.workspace, sandbox=sandbox, workspace_name=name)
    turn = resolved_scope.turn
    if turn is None:
        return RunContext(runtime, run, "plan", role, execution, [], Quotations(), own_models=own_models)
    history = load_history(tx, run, build_reader(models, role))
    attachments = attachment_store.list_by_turns(tx, run.tenant_id, [turn.id]).get(turn.id, ())
    mode: TurnMode = "queue" if turn.mode == "queue" else "plan"
    quotations = Quotations(history.messages)
    context = RunContext(runtime, run, mode, role, execution, history.window, quotations, attachments, own_models=own_models)
    return context._replace(client_context=turn.context, client_tools=build_client_tools(turn.client_tools))


def build_reader(models: Models, role: Role) -> CanRead:
    """Return a function that tells whether the role's model can read a file. Another model may have answered an earlier turn."""

    def can_read(attachment: Attachment) -> bool:
        with suppress(SettingsError):  # the model cannot be built; asking it raises the error
            return can_model_read(models.find(role.tier), attachment)
        return False

    return can_read


@lru_cache(maxsize=64)
def build_offer(
    toolbox: Toolbox,
    _version: int,
    roles: Roles,
    role: Role,
    mode: TurnMode,
    skills: tuple[Skill, ...],
    wanted: frozenset[str] | None = None,
    *,
    may_delegate: bool,
    has_plan: bool,
) -> Offer:
    """Build the instructions and the tool definitions of one version of the toolbox.

    Cached, because they must be the same for every request: providers cache a request's beginning up to the first difference.
    """
    withheld = {*(() if may_delegate else ("agents",)), *(("outcome",) if has_plan else PLAN_FAMILIES)}
    granted = [tool for tool in list_granted_tools(toolbox, role, mode, has_skills=bool(skills)) if tool.family not in withheld]
    has_many = sum(bool(tool.server) for tool in granted) > MCP_OFFER_LIMIT
    on_demand = sorted(
        tool.name
        for tool in granted
        if role.is_on_demand(tool.family, tool.name)
        or (has_many and tool.server and tool.name not in role.tools)
        or (wanted is not None and is_unwanted(tool, wanted))
    )
    has_further = bool(on_demand) and (wanted is None or USE_TOOL in wanted)
    offered = sorted(
        (tool for tool in granted if tool.name not in on_demand and (tool.name != USE_TOOL or has_further)),
        key=lambda tool: tool.name,
    )
    workers = [name for name in roles.by_name if name != role.name and name != INDEX]
    readable_skills = skills if any(tool.name == READ_SKILL for tool in granted) else ()
    names = [tool.name for tool in offered]
    instructions = prompts.render_instructions(role, names, mode, workers, readable_skills, is_short=wanted is not None)
    parameters = ModelRequestParameters(
        function_tools=[to_tool_definition(tool, on_demand) for tool in offered],
        instruction_parts=[InstructionPart(content=instructions)],
    )
    return Offer(parameters, estimate_parameters(parameters), has_tools=True)


def list_wanted(request: str) -> frozenset[str]:
    """List the tools beyond the simple ones that the words of a request ask for."""
    return frozenset(name for name, words in WANTED_BY.items() if words.search(request))


def is_unwanted(tool: Tool, wanted: frozenset[str]) -> bool:
    return tool.name not in wanted and (tool.family in (*PLAN_FAMILIES, "agents", "outcome") or tool.name in WANTED_BY)


@lru_cache(maxsize=64)
def build_writ_offer(role: Role, *, has_plan: bool) -> Offer:
    """Build the instructions for a model that cannot call functions."""
    instructions = prompts.render_writ_instructions(role, has_plan=has_plan)
    parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content=instructions)])
    return Offer(parameters, estimate_parameters(parameters), has_tools=False)


def list_granted_tools(toolbox: Toolbox, role: Role, mode: TurnMode, *, has_skills: bool) -> list[Tool]:
    """List the tools that the role grants, with only the planning family that matches the turn's mode.

    A role without tools gets none of the runtime's own either.
    """
    excluded_family = "queue" if mode == "plan" else "turn_plan"
    granted = [
        tool
        for tool in toolbox.tools.values()
        if role.grants(tool.family, tool.name)
        and tool.family != excluded_family
        and not tool.is_hidden
        and (has_skills or tool.name != READ_SKILL)
    ]
    return granted if any(tool.family != "runtime" for tool in granted) else []


def keep_tools(parameters: ModelRequestParameters, names: frozenset[str] | None) -> ModelRequestParameters:
    """Return the parameters with only some of their tools, or with all of them for None."""
    if names is None:
        return parameters
    return replace(parameters, function_tools=[tool for tool in parameters.function_tools if tool.name in names])


def to_tool_definition(tool: Tool, on_demand: list[str]) -> ToolDefinition:
    schema = build_use_schema(on_demand) if tool.name == USE_TOOL else tool.as_json()["input_schema"]
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema)

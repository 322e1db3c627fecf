"""All tools that agents and schedules can call."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from headway.agents.checks.completion import build_verification_tool
from headway.agents.checks.runner import CheckRunner
from headway.agents.instructions.roles import Roles
from headway.agents.tools import custom
from headway.agents.tools.agents import AGENT_TOOLS
from headway.agents.tools.builtin import BUILTIN_NAMES, ExternalAccess, build_builtin_tools
from headway.agents.tools.execution import Execution, resolve_scope
from headway.agents.tools.goals import GOAL_TOOLS
from headway.agents.tools.ledger import LEDGER_TOOLS
from headway.agents.tools.people import PEOPLE_TOOLS
from headway.agents.tools.plan import PLAN_TOOLS
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.tools.results import RUNTIME_TOOLS
from headway.agents.tools.tasks import TASK_TOOLS
from headway.agents.tools.toolbox import MISSING_CONTEXT, Toolbox, validate_call
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.scope import Scope
from headway.storage.database import DatabaseAccess
from headway.storage.transaction import Transaction


def build_toolbox(
    access: ExternalAccess | None = None, folder: Path | None = None, functions: Iterable[Callable[..., Any]] = ()
) -> Toolbox:
    """Build the toolbox from the built-in tools, the tools in a folder and the tools that a program passes in.

    A built-in tool's name is reserved even while the tool is disabled.
    """
    allowed = access or ExternalAccess()
    builtin_tools = (
        *PLAN_TOOLS,
        *TASK_TOOLS,
        *LEDGER_TOOLS,
        *AGENT_TOOLS,
        *GOAL_TOOLS,
        *PEOPLE_TOOLS,
        *RUNTIME_TOOLS,
        build_verification_tool(lambda: CheckRunner(allowed, toolbox)),
        *build_builtin_tools(allowed),
    )
    reserved_names = {*BUILTIN_NAMES, *(tool.name for tool in builtin_tools)}
    custom_tools = custom.load(folder, reserved_names) if folder else ()
    program_tools = custom.collect_tools(functions, reserved_names | {tool.name for tool in custom_tools})
    toolbox = Toolbox((*builtin_tools, *custom_tools, *program_tools))
    return toolbox


# Validation of scheduled tool calls. A call that could never run is rejected when it is scheduled, not on every run.


NEEDS_AGENT = "it needs a turn or a running agent, and a schedule has neither"
NO_PROGRAMS = "it runs programs on the server; schedule it there, with `headway schedule add`"


def check_remote_call(tx: Transaction, tenant_id: int, work: dict[str, Any], toolbox: Toolbox, roles: Roles) -> None:
    """Check a call that a tenant schedules through the API. Programs are excluded, as no model vets the arguments."""
    check_call(tx, tenant_id, work, toolbox, roles)
    name = toolbox.find(work["name"]).name
    if name in PROGRAM_TOOLS:
        raise build_refusal(name, NO_PROGRAMS)


def check_call(tx: Transaction, tenant_id: int, work: dict[str, Any], toolbox: Toolbox, roles: Roles) -> None:
    """Check that the call will be accepted when it is due: this tool, these arguments, this conversation, and no turn."""
    tool = toolbox.find(text.check_name(work["name"], "tool"))
    resolved_scope = resolve_scope(tx, Scope(tenant_id, work["conversation_id"]))
    # Validation needs no database. Every tenant has a workspace.
    no_database = cast("DatabaseAccess", None)
    execution = Execution(
        no_database, "", resolved_scope.scope, roles.find("index"), resolved_scope.conversation_uuid, workspace="."
    )
    if not tool.needs(execution):
        reason = NEEDS_AGENT if tool.missing == MISSING_CONTEXT else tool.missing.removeprefix("Error: ")
        raise build_refusal(tool.name, reason)
    validate_call(tool, work["arguments"], execution)


def build_refusal(tool: str, reason: str) -> Invalid:
    return Invalid(f"{tool} cannot be scheduled: {reason.rstrip('.')}.")

"""Validation of scheduled tool calls. A call that could never run is rejected when it is scheduled, not on every run."""

from typing import Any, cast

from headway.agents.instructions.roles import Roles
from headway.agents.tools.execution import Execution, resolve_scope
from headway.agents.tools.programs.tools import PROGRAM_TOOLS
from headway.agents.tools.toolbox import MISSING_CONTEXT, Toolbox, validate_call
from headway.ledger import text
from headway.ledger.errors import Invalid
from headway.ledger.scope import Scope
from headway.storage.database import DatabaseAccess
from headway.storage.transaction import Transaction

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

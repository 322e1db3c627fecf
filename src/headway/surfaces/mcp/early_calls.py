"""Calls of the tools of plans and of the ledger before the server is loaded. They are one transaction each, and need no model.

Loading is most of the cost of a process that makes one call, so this module imports neither the MCP library, nor the model layer,
nor the event loop.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from headway.agents.instructions.roles import INDEX, ROLE_FOLDER, Roles
from headway.agents.permission import find_refusal
from headway.agents.policy_file import PolicyFile
from headway.agents.tools.execution import Execution
from headway.agents.tools.ledger import LEDGER_TOOLS
from headway.agents.tools.plan import PLAN_TOOLS
from headway.agents.tools.toolbox import Result, Tool, call_in_transaction, to_result
from headway.ledger.errors import HeadwayError, StorageError
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, within_tenant
from headway.surfaces.mcp.resources import build_call_result
from headway.surfaces.mcp.scopes import McpCaller, find_or_create_scope

if TYPE_CHECKING:
    from headway.storage.database import DatabaseAccess

log = logging.getLogger("headway.tools")

TOOLS: Final = {tool.name: tool for tool in (*PLAN_TOOLS, *LEDGER_TOOLS)}


class EarlyCalls(NamedTuple):
    """The calls of one client."""

    open_database: Callable[[], AbstractContextManager[DirectDatabase]]
    caller: McpCaller
    settings: Settings
    policy: PolicyFile

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Call a tool and return the result in the form of MCP. Returns None, and has changed nothing, if the server has to do it,
        such as for an item whose checks must run first."""
        tool = TOOLS.get(name)
        if tool is None or self.has_role_files():
            return None
        try:
            with self.open_database() as database:
                work = within_tenant(self.caller.tenant_id, lambda tx: self.call_in(tx, database, tool, arguments))
                return build_call_result(database.write(work))
        except StorageError as error:
            log.warning("tool %s: %s", tool.name, error)
            return build_call_result(to_result(tool.refuse(str(error))))
        except HeadwayError:
            return None

    def has_role_files(self) -> bool:
        """Whether the operator has changed roles. Their files name tools, so reading one takes all of them."""
        return any(Path(self.settings.home, ROLE_FOLDER).glob("*.toml"))

    def call_in(self, tx: Transaction, database: DirectDatabase, tool: Tool, arguments: dict[str, Any]) -> Result:
        resolved = find_or_create_scope(tx, self.caller, tool)
        access = cast("DatabaseAccess", database)  # these tools work in the transaction, and do not use it
        workspace = resolved.folder or self.settings.get_workspace(self.caller.tenant_id)
        role, folder = Roles().find(INDEX), self.settings.task_folder
        execution = Execution(access, folder, resolved.scope, role, resolved.conversation_uuid, workspace, policy=self.policy)
        refusal = find_refusal(tx, tool, arguments, execution) if self.policy.current.rules else ""
        return to_result(tool.refuse(refusal)) if refusal else call_in_transaction(tool, arguments, execution, tx)

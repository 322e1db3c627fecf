"""Calls the tools that reach outside the ledger, as the runtime calls them."""

import asyncio
from collections.abc import Iterable
from typing import Any

from headway.agents.tools.builtin import ExternalAccess, build_builtin_tools
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.external_calls import call_in_context
from headway.agents.tools.toolbox import Result, Tool, Toolbox
from tests.agents.agent_harness import Agent


class ToolCaller:
    """Calls one set of tools in the execution context of an agent."""

    def __init__(self, execution: Execution, tools: Iterable[Tool]) -> None:
        self.execution = execution
        self.box = Toolbox(tools)

    def call(self, tool: str, arguments: dict[str, Any]) -> Result:
        async def call_tool() -> Result:
            with use_execution(self.execution):
                return await call_in_context(self.box, tool, arguments)

        return asyncio.run(call_tool())

    def __call__(self, tool: str, **arguments: Any) -> Any:
        """Return the result of a call that must succeed."""
        result = self.call(tool, arguments)
        assert not result.is_error, result
        return result.value

    def refused(self, tool: str, **arguments: Any) -> str:
        """Return the error of a call that must be refused."""
        result = self.call(tool, arguments)
        assert result.is_error, result
        return str(result.value["error"])


NOTHING_BEYOND = ExternalAccess()


def build_caller(agent: Agent, workspace: object = "", world: ExternalAccess = NOTHING_BEYOND) -> ToolCaller:
    execution = agent.execution._replace(workspace=str(workspace), sandbox=world.sandbox)
    return ToolCaller(execution, build_builtin_tools(world))

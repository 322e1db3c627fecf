"""Headway's tools for Pydantic AI: `Agent(…, toolsets=[headway_toolset(await headway.own_loop())])`."""

from typing import Any

from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.exceptions import ToolFailed

from headway.agents.tools import toolbox
from headway.agents.tools.external_loop import ExternalLoop


def headway_toolset(loop: ExternalLoop) -> FunctionToolset[Any]:
    return FunctionToolset([build_schema_tool(loop, tool) for tool in loop.tools], id="headway")


def build_schema_tool(loop: ExternalLoop, tool: toolbox.Tool) -> Tool[Any]:
    async def call(**arguments: Any) -> Any:
        result = await loop.call(tool.name, arguments)
        if result.is_error:
            raise ToolFailed(result.as_text)  # the model reads it; repeated ModelRetry errors would end the run
        return result.value

    return Tool.from_schema(call, tool.name, tool.description, tool.as_json()["input_schema"])

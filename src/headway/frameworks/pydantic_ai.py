"""Headway's tools for Pydantic AI: `Agent(…, toolsets=[headway_toolset(await headway.own_loop())])`."""

from typing import Any

from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.exceptions import ToolFailed

from headway.agents import toolbox
from headway.agents.own_loop import OwnLoop


def headway_toolset(loop: OwnLoop) -> FunctionToolset[Any]:
    return FunctionToolset([schema_tool(loop, tool) for tool in loop.tools], id="headway")


def schema_tool(loop: OwnLoop, tool: toolbox.Tool) -> Tool[Any]:
    async def call(**arguments: Any) -> Any:
        result = await loop.call(tool.name, arguments)
        if result.is_error:
            raise ToolFailed(result.as_text)  # the model reads it; a ModelRetry too many would end the run
        return result.value

    return Tool.from_schema(call, tool.name, tool.description, tool.as_json()["input_schema"])

"""Headway's tools for the OpenAI Agents SDK: `Agent(…, tools=[*openai_agents_tools(await headway.own_loop())])`."""

import json
from typing import Any

from headway.agents.tools.external_loop import ExternalLoop
from headway.agents.tools.toolbox import Tool
from headway.extras import describe_remedy

try:
    from agents import FunctionTool
    from agents.tool_context import ToolContext
except ModuleNotFoundError:
    raise ImportError(f"The OpenAI Agents SDK is not installed: {describe_remedy('openai-agents')}.") from None

NOT_AN_OBJECT = "Invalid arguments: send a JSON object."


def openai_agents_tools(loop: ExternalLoop) -> list[FunctionTool]:
    return [build_function_tool(loop, tool) for tool in loop.tools]


def build_function_tool(loop: ExternalLoop, tool: Tool) -> FunctionTool:
    async def call(_context: ToolContext[Any], arguments_json: str) -> str:
        """Call the tool. Errors are returned as text, because an exception here would end the whole run."""
        arguments = parse_arguments(arguments_json)
        if arguments is None:
            return json.dumps(tool.refuse(NOT_AN_OBJECT), ensure_ascii=False)
        return (await loop.call(tool.name, arguments)).as_text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.as_json()["input_schema"],
        on_invoke_tool=call,
        strict_json_schema=False,  # strict mode would make every optional argument required
    )


def parse_arguments(arguments_json: str) -> dict[str, Any] | None:
    try:
        arguments = json.loads(arguments_json or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None

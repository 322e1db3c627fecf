"""Headway's tools for LangChain and LangGraph: `create_agent(model, langchain_tools(await headway.own_loop()))`."""

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from headway.agents.tools.external_loop import ExternalLoop
from headway.agents.tools.toolbox import Tool
from headway.extras import describe_remedy

try:
    from langchain_core.tools import StructuredTool, ToolException
except ModuleNotFoundError:
    raise ImportError(f"LangChain is not installed: {describe_remedy('langchain')}.") from None

T = TypeVar("T")


def langchain_tools(loop: ExternalLoop) -> list[StructuredTool]:
    """Build LangChain tools for a loop, for `invoke` and `ainvoke`."""
    return [build_structured_tool(loop, tool) for tool in loop.tools]


def build_structured_tool(loop: ExternalLoop, tool: Tool) -> StructuredTool:
    async def call(**arguments: Any) -> Any:
        result = await loop.call(tool.name, arguments)
        if result.is_error:
            raise ToolException(result.as_text)  # becomes a tool message with status "error", which the model reads
        return result.value

    def call_blocking(**arguments: Any) -> Any:
        return run_blocking(call(**arguments))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.as_json()["input_schema"],
        func=call_blocking,
        coroutine=call,
        handle_tool_error=True,
    )


# LangChain calls the same tools with and without an event loop.


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop in another thread, and wait. The caller's own event loop may be the one that waits."""
    return asyncio.run_coroutine_threadsafe(coroutine, start_loop()).result()


@cache
def start_loop() -> asyncio.AbstractEventLoop:
    """One thread for all callers, because each thread has its own connection to SQLite."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="headway-blocking", daemon=True).start()
    return loop

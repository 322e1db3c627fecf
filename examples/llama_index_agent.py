"""LlamaIndex, over MCP: pip install llama-index-llms-openai-like llama-index-tools-mcp, and headway[mcp] on the PATH."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

TASK = "Plan a picnic for four with create_todo, end each step with complete_todo, then answer."


async def main() -> None:
    client = BasicMCPClient("headway", args=["mcp", "--tools", "plan"], env=dict(os.environ))
    name, url = os.environ.get("OPENAI_MODEL", "gpt-5-mini"), os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    model = OpenAILike(model=name, api_base=url, is_chat_model=True, is_function_calling_model=True)
    print(await FunctionAgent(tools=await McpToolSpec(client).to_tool_list_async(), llm=model).run(TASK))


asyncio.run(main())

"""agno, over MCP: pip install agno fastmcp openai, and headway[mcp] in any environment on the PATH."""

import asyncio
import os

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.tools.mcp import MCPTools

TASK = "Plan a picnic for four with create_todo, end each step with complete_todo, then answer."


async def main() -> None:
    async with MCPTools("headway mcp --tools plan", env=dict(os.environ), timeout_seconds=60) as tools:
        model = OpenAIChat(id=os.environ.get("OPENAI_MODEL", "gpt-5-mini"), base_url=os.environ.get("OPENAI_BASE_URL"))
        print((await Agent(model=model, tools=[tools]).arun(TASK)).content)


asyncio.run(main())

"""smolagents, over MCP: pip install 'smolagents[mcp,openai]' 'mcp[ws]<2', and headway[mcp] in any environment on the PATH."""

import os

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

TASK = "Plan a picnic for four with create_todo, end each step with complete_todo, then answer."
server = StdioServerParameters(command="headway", args=["mcp", "--tools", "plan"], env=dict(os.environ))
with MCPClient(server, structured_output=False) as tools:
    print(ToolCallingAgent(tools, OpenAIModel(os.environ.get("OPENAI_MODEL", "gpt-5-mini"))).run(TASK))

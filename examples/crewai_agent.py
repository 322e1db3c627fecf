"""CrewAI, over MCP: pip install crewai 'crewai-tools[mcp]', and headway[mcp] in any environment on the PATH."""

import os

from crewai import LLM, Agent
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

TASK = "Plan a picnic for four with create_todo, end each step with complete_todo, then answer."
server = StdioServerParameters(command="headway", args=["mcp", "--tools", "plan"], env=dict(os.environ))
with MCPServerAdapter(server, connect_timeout=60) as tools:
    model = LLM(model=f"openai/{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}", base_url=os.environ.get("OPENAI_BASE_URL"))
    planner = Agent(role="planner", goal="finish what you planned", backstory="You plan picnics.", llm=model, tools=tools)
    print(planner.kickoff(TASK).raw)

"""An OpenAI Agents SDK agent that plans in Headway. It is sent back to work while its plan has open steps.

pip install 'headway[openai-agents]'
OPENAI_API_KEY=… python examples/openai_agents_agent.py "Plan a picnic for four"
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI

from headway import Headway
from headway.frameworks.openai_agents import openai_agents_tools

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
SYSTEM = "Plan work with several steps with create_todo, end each step with complete_todo, and answer when no step is open."
ROUNDS = 10


async def main(request: str) -> None:
    async with Headway.open() as headway, AsyncOpenAI() as client:
        loop = await headway.own_loop(agent="openai-agents")
        # Every compatible server supports chat completions; Agent(model="gpt-5-mini") would use the Responses API.
        model = OpenAIChatCompletionsModel(MODEL, client)
        planner = Agent("planner", instructions=SYSTEM, model=model, tools=[*openai_agents_tools(loop.only("turn_plan"))])
        result = await Runner.run(planner, request)
        for _ in range(ROUNDS):
            if not (unfinished := await loop.unfinished()):
                break
            reminder = f"Not finished. These steps are still open: {', '.join(unfinished)}. Do them, or cancel them."
            result = await Runner.run(planner, [*result.to_input_list(), {"role": "user", "content": reminder}])
        print(result.final_output)
        for todo in await loop.plan():
            print(f"- {todo.subject}: {todo.status}, {todo.outcome}")


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY: this agent calls OpenAI, or the server at OPENAI_BASE_URL.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Plan a picnic for four, then write the shopping list"))

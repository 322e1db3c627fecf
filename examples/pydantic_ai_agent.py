"""A Pydantic AI agent that plans in Headway. It is sent back to work while its plan has open steps.

pip install 'headway[openai]'
OPENAI_API_KEY=… python examples/pydantic_ai_agent.py "Plan a picnic for four"
"""

import asyncio
import os
import sys

from pydantic_ai import Agent

from headway import Headway
from headway.frameworks.pydantic_ai import headway_toolset

MODEL = f"openai-chat:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
SYSTEM = "Plan work with several steps with create_todo, end each step with complete_todo, and answer when no step is open."
ROUNDS = 10


async def main(request: str) -> None:
    async with Headway.open() as headway:
        loop = await headway.own_loop(agent="pydantic-ai")
        agent = Agent(MODEL, instructions=SYSTEM, toolsets=[headway_toolset(loop.only("turn_plan"))])
        result = await agent.run(request)
        for _ in range(ROUNDS):
            if not (unfinished := await loop.unfinished()):
                break
            reminder = f"Not finished. These steps are still open: {', '.join(unfinished)}. Do them, or cancel them."
            result = await agent.run(reminder, message_history=result.all_messages())
        print(result.output)
        for todo in await loop.plan():
            print(f"- {todo.subject}: {todo.status}, {todo.outcome}")


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY: this agent calls OpenAI, or the server at OPENAI_BASE_URL.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Plan a picnic for four, then write the shopping list"))

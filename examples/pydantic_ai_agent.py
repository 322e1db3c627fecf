"""A Pydantic AI agent that may not end while its plan is open: pip install 'headway[openai]'"""

import asyncio
import os

from pydantic_ai import Agent

from headway import Headway
from headway.frameworks.pydantic_ai import headway_toolset


async def main() -> None:
    async with Headway.open() as headway:
        loop = (await headway.own_loop(agent="pydantic-ai")).only("turn_plan")
        model = f"openai-chat:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
        agent = Agent(model, instructions="Plan with create_todo.", toolsets=[headway_toolset(loop)])
        result = await agent.run("Plan a picnic for four.")
        async for reminder in loop.reminders():
            result = await agent.run(reminder, message_history=result.all_messages())
        print(result.output)


asyncio.run(main())

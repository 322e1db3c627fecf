"""An agent of the OpenAI Agents SDK that may not end while its plan is open: pip install 'headway[openai-agents]'"""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI

from headway import Headway
from headway.frameworks.openai_agents import openai_agents_tools


async def main() -> None:
    async with Headway.open() as headway:
        loop = (await headway.own_loop(agent="openai-agents")).only("turn_plan")
        # Every compatible server supports chat completions; Agent(model="gpt-5-mini") would use the Responses API.
        model = OpenAIChatCompletionsModel(os.environ.get("OPENAI_MODEL", "gpt-5-mini"), AsyncOpenAI())
        agent = Agent("planner", instructions="Plan with create_todo.", model=model, tools=[*openai_agents_tools(loop)])
        result = await Runner.run(agent, "Plan a picnic for four.")
        async for reminder in loop.reminders():
            result = await Runner.run(agent, [*result.to_input_list(), {"role": "user", "content": reminder}])
        print(result.final_output)


asyncio.run(main())

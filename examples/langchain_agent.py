"""A LangChain agent that may not end while its plan is open: pip install 'headway[langchain]' langchain-openai"""

import asyncio
import os

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from headway import Headway
from headway.frameworks.langchain import langchain_tools


async def main() -> None:
    async with Headway.open() as headway:
        loop = (await headway.own_loop(agent="langchain")).only("turn_plan")
        model = f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
        agent = create_agent(model, langchain_tools(loop), system_prompt="Plan with create_todo.")
        state = await agent.ainvoke({"messages": [HumanMessage("Plan a picnic for four.")]})
        async for reminder in loop.reminders():
            state = await agent.ainvoke({"messages": [*state["messages"], HumanMessage(reminder)]})
        print(state["messages"][-1].text)


asyncio.run(main())

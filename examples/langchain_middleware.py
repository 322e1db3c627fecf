"""LangChain with Headway in place of TodoListMiddleware: pip install 'headway[langchain]' langchain-openai"""

import asyncio
import os

from langchain.agents import create_agent

from headway import Headway
from headway.frameworks.langchain_middleware import HeadwayMiddleware


async def main() -> None:
    async with Headway.open() as headway:
        model = f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
        agent = create_agent(model, middleware=[HeadwayMiddleware(headway)])
        print((await agent.ainvoke({"messages": [{"role": "user", "content": "Plan a picnic for four."}]}))["messages"][-1].text)


asyncio.run(main())

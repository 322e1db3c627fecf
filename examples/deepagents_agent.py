"""deepagents with one planner, Headway's: pip install 'headway[langchain]' 'deepagents>=0.7' langchain-openai"""

import asyncio
import os

from deepagents import create_deep_agent
from langchain.chat_models import init_chat_model

from headway import Headway
from headway.frameworks.langchain_middleware import HeadwayMiddleware


async def main() -> None:
    async with Headway.open() as headway:
        # Every compatible server supports chat completions; deepagents would use the Responses API for "openai:…".
        model = init_chat_model(f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}", use_responses_api=False)
        agent = create_deep_agent(model, middleware=[HeadwayMiddleware(headway)])
        print((await agent.ainvoke({"messages": [("user", "Plan a picnic for four.")]}))["messages"][-1].text)


asyncio.run(main())

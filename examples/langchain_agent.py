"""A LangChain agent that plans in Headway. It is sent back to work while its plan has open steps.

pip install 'headway[langchain]' langchain langchain-openai
OPENAI_API_KEY=… python examples/langchain_agent.py "Plan a picnic for four"
"""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from headway import Headway
from headway.frameworks.langchain import langchain_tools

MODEL = f"openai:{os.environ.get('OPENAI_MODEL', 'gpt-5-mini')}"
SYSTEM = "Plan work with several steps with create_todo, end each step with complete_todo, and answer when no step is open."
ROUNDS = 10


async def main(request: str) -> None:
    async with Headway.open() as headway:
        loop = await headway.own_loop(agent="langchain")
        agent = create_agent(MODEL, langchain_tools(loop.only("turn_plan")), system_prompt=SYSTEM)
        state = await agent.ainvoke({"messages": [HumanMessage(request)]})
        for _ in range(ROUNDS):
            if not (unfinished := await loop.unfinished()):
                break
            reminder = f"Not finished. These steps are still open: {', '.join(unfinished)}. Do them, or cancel them."
            state = await agent.ainvoke({"messages": [*state["messages"], HumanMessage(reminder)]})
        print(state["messages"][-1].content)
        for todo in await loop.plan():
            print(f"- {todo.subject}: {todo.status}, {todo.outcome}")


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY: this agent calls OpenAI, or the server at OPENAI_BASE_URL.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Plan a picnic for four, then write the shopping list"))

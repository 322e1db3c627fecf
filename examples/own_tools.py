"""Headway inside a script that brings its own tools: HEADWAY_MODEL=openai:gpt-5-mini python examples/own_tools.py"""

import asyncio
import sys
from typing import Annotated

from pydantic import Field

from headway import Headway, tool

REQUEST = "What will the weather be in Oslo in two days? Write it to oslo.txt"


@tool(idempotent=True)
def weather(city: str, days: Annotated[int, Field(description="days ahead", ge=0, le=7)] = 0) -> dict[str, str | int]:
    """The weather in a city, today or in a few days."""
    return {"city": city, "in_days": days, "sky": "sunny", "celsius": 21}


async def main(request: str) -> None:
    async with Headway.open(tools=[weather]) as headway:
        turn = await headway.ask(request, "a script")  # the next run continues the same conversation
    print(turn.answer)
    for todo in turn.plan:
        print(f"- {todo.subject}: {todo.status}, {todo.outcome}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or REQUEST))

"""pydantic-ai's Agent reads files, over HTTP. It has no todo tool, so it gets a small one, or none as a lower bound."""

import asyncio
from pathlib import Path
from typing import Literal

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from typing_extensions import TypedDict

from bench.peers import stations
from bench.peers.answering import serve


class Todo(TypedDict):
    content: str
    status: Literal["pending", "in_progress", "completed"]


async def write_todos(todos: list[Todo]) -> str:
    """Write the whole todo list, with the current status of each item."""
    return f"Updated {len(todos)} todos."


def run(url: str, folder: str, steps: int, *, has_plan: bool = True) -> None:
    async def read_file(path: str) -> str:
        """Read a text file."""
        return Path(folder, path).read_text(encoding="utf-8")

    model = OpenAIChatModel(stations.MODEL, provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = Agent(model, instructions="Plan with write_todos." if has_plan else None)
    agent.tool_plain(read_file)
    if has_plan:
        agent.tool_plain(write_todos)
    asyncio.run(agent.run(stations.write_request(steps), usage_limits=UsageLimits(request_limit=None)))


serve(run=run)

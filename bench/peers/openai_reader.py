"""OpenAI's Agents SDK reads files, over HTTP. It has no todo tool, so it gets a small one."""

import asyncio
from pathlib import Path
from typing import Literal

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from typing_extensions import TypedDict

from bench.peers import stations
from bench.peers.answering import serve

set_tracing_disabled(True)


class Todo(TypedDict):
    content: str
    status: Literal["pending", "in_progress", "completed"]


@function_tool
async def write_todos(todos: list[Todo]) -> str:
    """Write the whole todo list, with the current status of each item."""
    return f"Updated {len(todos)} todos."


def run(url: str, folder: str, steps: int) -> None:
    @function_tool
    async def read_file(path: str) -> str:
        """Read a text file."""
        return Path(folder, path).read_text(encoding="utf-8")

    async def work() -> None:
        model = OpenAIChatCompletionsModel(stations.MODEL, AsyncOpenAI(base_url=url, api_key="none"))
        agent = Agent("Reader", instructions="Plan with write_todos.", model=model, tools=[read_file, write_todos])
        await Runner.run(agent, stations.write_request(steps), max_turns=10_000)

    asyncio.run(work())


serve(run=run)

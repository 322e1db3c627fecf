"""pydantic-ai's Agent, in memory."""

import asyncio
from functools import partial
from itertools import count
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits
from typing_extensions import TypedDict

from bench.peers.answering import serve
from bench.peers.errand import REQUEST, call, milliseconds, time_now


class Todo(TypedDict):
    content: str
    status: str


class Planner:
    def __init__(self) -> None:
        self.iterations = 0
        self.ids = count()
        self.todos: list[Todo] = []
        self.loop = asyncio.new_event_loop()
        self.agent = Agent(FunctionModel(self.answer), instructions="Plan with write_todos.")
        self.agent.tool_plain(self.write_todos)
        self.agent.tool_plain(self.now)

    async def answer(self, messages: Any, _info: Any) -> ModelResponse:
        done = sum(isinstance(message, ModelResponse) for message in messages)
        if done >= self.iterations:
            return ModelResponse([TextPart("All done.")])
        tool, arguments = call(done, self.iterations)
        return ModelResponse([ToolCallPart(tool, arguments, f"call_{next(self.ids)}")])

    async def write_todos(self, todos: list[Todo]) -> str:
        """Write the whole list."""
        self.todos = list(todos)
        return f"Updated todo list to {todos}"

    async def now(self) -> dict[str, str]:
        """Return the current time."""
        return time_now()

    def turn(self, iterations: int) -> float:
        self.iterations = iterations
        run = partial(self.agent.run, REQUEST, usage_limits=UsageLimits(request_limit=None))
        return milliseconds(iterations + 1, lambda: self.loop.run_until_complete(run()))


serve(turn=Planner().turn)

"""LangChain's agent with its todo middleware, in memory or with a checkpoint in SQLite before every next step."""

import asyncio
from functools import cache, partial
from itertools import count
from typing import Any

import aiosqlite
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.peers.answering import serve
from bench.peers.errand import REQUEST, call, milliseconds, time_now


class Model(BaseChatModel):
    """A model that answers at once."""

    iterations: int = 0

    @property
    def _llm_type(self) -> str:
        return "at once"

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        done = sum(isinstance(message, AIMessage) for message in messages)
        if done >= self.iterations:
            message = AIMessage("All done.")
        else:
            tool, arguments = call(done, self.iterations)
            message = AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call_{done}"}])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


async def now() -> dict[str, str]:
    """Return the current time."""
    return time_now()


MODEL = Model()
AGENT = create_agent(MODEL, [now], middleware=[TodoListMiddleware()])
LOOP = asyncio.new_event_loop()
THREADS = count()


@cache
def build_durable_agent(path: str) -> Any:
    async def open_saver() -> AsyncSqliteSaver:
        saver = AsyncSqliteSaver(await aiosqlite.connect(path))
        await saver.setup()
        return saver

    return create_agent(MODEL, [now], middleware=[TodoListMiddleware()], checkpointer=LOOP.run_until_complete(open_saver()))


def turn(iterations: int) -> float:
    return run(AGENT, iterations)


def durable_turn(iterations: int, path: str) -> float:
    return run(build_durable_agent(path), iterations, durability="sync")


def run(agent: Any, iterations: int, **options: Any) -> float:
    MODEL.iterations = iterations
    request = {"messages": [{"role": "user", "content": REQUEST}]}
    config = {"recursion_limit": 10_000, "configurable": {"thread_id": str(next(THREADS))}}
    invoke = partial(agent.ainvoke, request, config, **options)
    return milliseconds(iterations + 1, lambda: LOOP.run_until_complete(invoke()))


serve(turn=turn, durable_turn=durable_turn)

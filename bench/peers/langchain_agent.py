"""LangChain's agent with its todo middleware, in memory."""

import asyncio
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

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


def turn(iterations: int) -> float:
    MODEL.iterations = iterations
    request = {"messages": [{"role": "user", "content": REQUEST}]}
    run = partial(AGENT.ainvoke, request, {"recursion_limit": 10_000})
    return milliseconds(iterations + 1, lambda: LOOP.run_until_complete(run()))


serve(turn=turn)

"""What an iteration of the agent loop costs beside the model: plan, journal, gates and events, with models that answer at once.

Every side is told to do the same: write a list of five todos, call a tool that does next to nothing in every iteration, end all
todos, answer. The references keep everything in memory; ours journals every step durably.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from bench.harness import Measurements, Unavailable, Workshop, at_most, benchmark, in_turns

ITEMS = 5
FEW, MANY = 10, 50
ROUNDS = 9
WORKLOAD = "ms each: a trivial tool, a list of five todos, journal on"


def call(iteration: int, iterations: int) -> tuple[str, dict[str, Any]]:
    """The tool that is called in this iteration: the list is written at the beginning, and done at the end."""
    if 0 < iteration < iterations - 1:
        return "now", {}
    status = "pending" if iteration == 0 else "completed"
    return "write_todos", {"todos": [{"content": f"step {n} of the work", "status": status} for n in range(ITEMS)]}


def milliseconds(iterations: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000 / iterations


class Ours:
    """One Headway for all rounds; every round is a turn in a conversation of its own."""

    def __init__(self, shop: Workshop) -> None:
        from headway.actions import tenants
        from headway.testing import scripted_model, temporary_headway

        self.iterations = FEW
        self.calls = 0
        self.loop = asyncio.new_event_loop()
        shop.closing.callback(self.loop.close)
        self.opening = temporary_headway(
            shop.folder / "loop", scripted_model(self.answer), max_iterations=str(MANY + 5), max_iterations_with_plan=str(MANY + 5)
        )
        self.headway = self.loop.run_until_complete(self.opening.__aenter__())
        shop.closing.callback(lambda: self.loop.run_until_complete(self.opening.__aexit__(None, None, None)))
        self.tenant = self.loop.run_until_complete(self.headway.database.write(tenants.ensure_local))

    def answer(self, _messages: Any) -> Any:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        self.calls += 1
        if self.calls > self.iterations:
            return ModelResponse([TextPart("All done.")], finish_reason="stop")
        tool, arguments = call(self.calls - 1, self.iterations)
        return ModelResponse([ToolCallPart(tool, arguments, f"call_{self.calls}")], finish_reason="tool_call")

    def round(self, iterations: int) -> float:
        from headway.actions import conversations

        self.iterations, self.calls = iterations, 0
        opened = self.headway.database.write(partial(conversations.add, tenant_id=self.tenant.id))
        conversation = self.loop.run_until_complete(opened)
        return milliseconds(iterations + 1, lambda: self.loop.run_until_complete(self.turn(conversation.id)))

    async def turn(self, conversation_id: int) -> None:
        ended = await self.headway.run_turn(self.tenant.id, conversation_id, "Work through the list.")
        assert ended["outcome"] == "drained", ended


class PydanticAgent:
    """pydantic-ai's own Agent on the same model layer."""

    def __init__(self, shop: Workshop) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel
        from pydantic_ai.usage import UsageLimits
        from typing_extensions import TypedDict

        class Todo(TypedDict):
            content: str
            status: str

        ids = count()

        async def answer(messages: Any, _info: Any) -> ModelResponse:
            done = sum(isinstance(message, ModelResponse) for message in messages)
            if done >= self.iterations:
                return ModelResponse([TextPart("All done.")])
            tool, arguments = call(done, self.iterations)
            return ModelResponse([ToolCallPart(tool, arguments, f"call_{next(ids)}")])

        self.iterations = FEW
        self.agent = Agent(FunctionModel(answer), instructions="Plan with write_todos.")
        self.limits = UsageLimits(request_limit=None)
        self.todos: list[Any] = []
        self.loop = asyncio.new_event_loop()
        shop.closing.callback(self.loop.close)

        @self.agent.tool_plain
        async def write_todos(todos: list[Todo]) -> str:
            """Write the whole list."""
            self.todos = list(todos)
            return f"Updated todo list to {todos}"

        @self.agent.tool_plain
        async def now() -> dict[str, str]:
            """What time it is."""
            return {"now": time.strftime("%Y-%m-%dT%H:%M:%S"), "weekday": time.strftime("%A")}

    def round(self, iterations: int) -> float:
        self.iterations = iterations
        run = partial(self.agent.run, "Work through the list.", usage_limits=self.limits)
        return milliseconds(iterations + 1, lambda: self.loop.run_until_complete(run()))


class LangChainAgent:
    """LangChain's agent with its todo middleware."""

    def __init__(self, shop: Workshop) -> None:
        try:
            from langchain.agents import create_agent
            from langchain.agents.middleware import TodoListMiddleware
            from langchain_core.language_models.chat_models import BaseChatModel
            from langchain_core.messages import AIMessage
            from langchain_core.outputs import ChatGeneration, ChatResult
        except ImportError:
            raise Unavailable("pip install 'headway[bench]'") from None
        bench = self

        async def now() -> dict[str, str]:
            """What time it is."""
            return {"now": time.strftime("%Y-%m-%dT%H:%M:%S"), "weekday": time.strftime("%A")}

        class Model(BaseChatModel):
            @property
            def _llm_type(self) -> str:
                return "at once"

            def bind_tools(self, tools: Any, **_options: Any) -> Any:
                return self

            def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
                done = sum(isinstance(message, AIMessage) for message in messages)
                if done >= bench.iterations:
                    said = AIMessage("All done.")
                else:
                    tool, arguments = call(done, bench.iterations)
                    said = AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call_{done}"}])
                return ChatResult(generations=[ChatGeneration(message=said)])

            async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
                return self._generate(messages)

        self.iterations = FEW
        self.agent = create_agent(Model(), [now], middleware=[TodoListMiddleware()])
        self.loop = asyncio.new_event_loop()
        shop.closing.callback(self.loop.close)

    def round(self, iterations: int) -> float:
        self.iterations = iterations
        request = {"messages": [{"role": "user", "content": "Work through the list."}]}
        run = partial(self.agent.ainvoke, request, {"recursion_limit": 10_000})
        return milliseconds(iterations + 1, lambda: self.loop.run_until_complete(run()))


def against(shop: Workshop, reference: type[PydanticAgent] | type[LangChainAgent], iterations: int) -> Measurements:
    ours, theirs = shop.once(Ours), shop.once(reference)
    return in_turns(lambda: ours.round(iterations), lambda: theirs.round(iterations), ROUNDS, unit="ms")


@benchmark("loop.10.pydantic", f"10 iterations, {WORKLOAD}", "pydantic-ai's Agent, in memory", at_most(0.25))
def few_against_pydantic(shop: Workshop) -> Measurements:
    return against(shop, PydanticAgent, FEW)


@benchmark("loop.50.pydantic", f"50 iterations, {WORKLOAD}", "pydantic-ai's Agent, in memory", at_most(0.25))
def many_against_pydantic(shop: Workshop) -> Measurements:
    return against(shop, PydanticAgent, MANY)


@benchmark(
    "loop.10.langchain", f"10 iterations, {WORKLOAD}", "LangChain's agent with its todo middleware, in memory", at_most(0.25)
)
def few_against_langchain(shop: Workshop) -> Measurements:
    return against(shop, LangChainAgent, FEW)


@benchmark(
    "loop.50.langchain", f"50 iterations, {WORKLOAD}", "LangChain's agent with its todo middleware, in memory", at_most(0.25)
)
def many_against_langchain(shop: Workshop) -> Measurements:
    return against(shop, LangChainAgent, MANY)


@benchmark("loop.flat", "ms per iteration in a turn of 50", "in a turn of 10", at_most(1.15))
def flat(shop: Workshop) -> Measurements:
    ours = shop.once(Ours)
    return in_turns(lambda: ours.round(MANY), lambda: ours.round(FEW), ROUNDS, unit="ms")

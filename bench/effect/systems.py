"""The systems that are compared, one function each. It runs a task to its end and says how it ended, in the system's own terms.

Frameworks are imported inside the functions: each is optional, and a framework may live in another environment.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from bench.effect.file_tools import make_file_tools
from bench.effect.tasks import Task

# answered: ended normally, so its words count. incomplete: the system itself says that work is left.
End = Literal["answered", "incomplete", "limit", "failed", "timeout", "error"]

MODEL: Final = "effect"
CALL_LIMIT: Final = 60
CALL_LIMIT_CODE: Final = "call_limit"
GOAL_WAIT_S: Final = 100_000  # the time limit of a run ends it
INSTRUCTIONS: Final = (
    "You are an assistant with tools. Do what the user asks with the tools, in the workspace. When everything is done, answer the "
    "user in words. If you cannot do something, say so and why. Never claim what you did not do."
)


class Ended(NamedTuple):
    end: End
    answer: str = ""
    plan: Sequence[str] = ()  # the status of each planned item


class Room(NamedTuple):
    """Where a run takes place."""

    task: Task
    workspace: Path
    home: Path  # for Headway's database
    url: str  # the model's address, of this run only


class System(NamedTuple):
    run: Callable[[Room], Awaitable[Ended]]
    title: str
    modules: tuple[str, ...]  # what has to be installed
    environment: str = ""  # the name of its pins in bench/peers, if it is not installed here
    is_peer: bool = True


# Pydantic AI


async def run_pydantic_ai(room: Room) -> Ended:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, UnexpectedModelBehavior, UsageLimitExceeded, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with AsyncOpenAI(base_url=room.url, api_key="none", max_retries=1, timeout=300) as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, system_prompt=INSTRUCTIONS, tools=make_file_tools(room.workspace), retries=3)
        try:
            result = await agent.run(room.task.request, usage_limits=UsageLimits(request_limit=CALL_LIMIT))
        except UsageLimitExceeded:
            return Ended("limit")
        except UnexpectedModelBehavior as error:
            return Ended("failed", str(error))
        return Ended("answered", result.output)


# LangChain


def make_chat_model(url: str) -> Any:
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    return ChatOpenAI(model=MODEL, base_url=url, api_key=SecretStr("none"), use_responses_api=False, timeout=300, max_retries=1)


async def invoke(agent: Any, room: Room) -> Ended:
    """Run a LangChain agent. A plan with open steps at the end is an admission, whichever middleware keeps it."""
    from langgraph.errors import GraphRecursionError

    request = {"messages": [{"role": "user", "content": room.task.request}]}
    try:
        state = await agent.ainvoke(request, {"recursion_limit": 6 * CALL_LIMIT, "configurable": {"thread_id": "one"}})
    except GraphRecursionError:
        return Ended("limit")
    plan = [todo["status"] for todo in state.get("todos") or ()]
    is_open = any(status in ("pending", "in_progress") for status in plan)
    return Ended("incomplete" if is_open else "answered", state["messages"][-1].text, plan)


async def run_langchain(room: Room, *middleware: Any) -> Ended:
    from langchain.agents import create_agent

    tools = make_file_tools(room.workspace)
    return await invoke(create_agent(make_chat_model(room.url), tools, system_prompt=INSTRUCTIONS, middleware=middleware), room)


async def run_langchain_todos(room: Room) -> Ended:
    from langchain.agents.middleware import TodoListMiddleware

    return await run_langchain(room, TodoListMiddleware())


async def run_langchain_headway(room: Room) -> Ended:
    from headway import Headway
    from headway.frameworks.langchain_middleware import HeadwayMiddleware

    async with Headway.open(home=str(room.home), alone=True) as headway:
        return await run_langchain(room, HeadwayMiddleware(headway, agent="worker"))


async def run_deepagents(room: Room) -> Ended:
    """It brings its file tools under the same names, and gets the calculator and LangChain's todo list."""
    from deepagents import create_deep_agent
    from deepagents.backends import FilesystemBackend
    from langchain.agents.middleware import TodoListMiddleware

    agent = create_deep_agent(
        make_chat_model(room.url),
        [make_file_tools(room.workspace)[-1]],
        system_prompt=INSTRUCTIONS,
        backend=FilesystemBackend(root_dir=str(room.workspace), virtual_mode=True),
        middleware=[TodoListMiddleware()],
    )
    return await invoke(agent, room)


# OpenAI Agents SDK


async def run_openai_agents(room: Room) -> Ended:
    from agents import Agent, MaxTurnsExceeded, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=room.url, api_key="none", max_retries=1, timeout=300))
    tools: list[Any] = [function_tool(tool) for tool in make_file_tools(room.workspace)]
    try:
        result = await Runner.run(
            Agent("worker", instructions=INSTRUCTIONS, model=model, tools=tools), room.task.request, max_turns=CALL_LIMIT
        )
    except MaxTurnsExceeded:
        return Ended("limit")
    return Ended("answered", str(result.final_output))


# Headway


def open_headway(room: Room) -> Any:
    from headway import Headway

    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = room.url, "none"
    return Headway.open(
        home=str(room.home),
        workspace=str(room.workspace.parent),  # one folder per tenant below it
        model=f"openai-chat:{MODEL}",
        context_tokens=16_384,
        model_timeout_s=300,
        model_retries=2,
    )


async def ask(headway: Any, room: Room, conversation: Any, **options: Any) -> Ended:
    from headway.ledger.errors import TurnFailed

    try:
        report = await headway.ask(room.task.request, conversation, **options)
    except TurnFailed as error:
        return Ended("failed", str(error))
    ends: dict[str, End] = {"answered": "answered", "drained": "answered", "limit": "limit"}
    return Ended(ends.get(report.outcome or "", "incomplete"), report.answer, [todo.status for todo in report.plan])


async def run_headway(room: Room) -> Ended:
    async with open_headway(room) as headway:
        return await ask(headway, room, "effect")


async def run_headway_todos(room: Room, *, with_checks: bool = False) -> Ended:
    """The user has written the items down as todos of the turn."""
    async with open_headway(room) as headway:
        conversation = await headway.conversations.ensure("effect")
        turn = await headway.turns.open(conversation.id)
        for item in room.task.items:
            checks = [{"kind": "file", "path": item.path, "contains": item.evidence}] if with_checks and item.evidence else []
            await headway.todos.add(item.words, conversation_id=conversation.id, turn_id=turn.id, checks=checks)
        await headway.turns.cancel(turn.id)
        return await ask(headway, room, conversation.id, continues=turn.id)


async def run_headway_checks(room: Room) -> Ended:
    return await run_headway_todos(room, with_checks=True)


async def run_headway_goal(room: Room) -> Ended:
    async with open_headway(room) as headway:
        goal = await headway.goals.add(room.task.request, budget_usd=1)
        goal = await asyncio.wait_for(headway.goals.wait(goal.id), GOAL_WAIT_S)
        outcomes = [f"{step.description}: {step.outcome.summary if step.outcome else step.status}" for step in goal.sub_goals]
        answer = "\n".join([*outcomes, goal.pause_reason or ""])
        return Ended("answered" if goal.status == "completed" else "incomplete", answer, [step.status for step in goal.sub_goals])


LANGCHAIN_MODULES: Final = ("langchain", "langchain_openai")

SYSTEMS: Final[dict[str, System]] = {
    "pydantic_ai": System(run_pydantic_ai, "Pydantic AI, plain loop", ("pydantic_ai", "openai"), "pydantic_reader"),
    "langchain": System(run_langchain, "LangChain, plain", LANGCHAIN_MODULES, "langchain_reader"),
    "langchain_todos": System(run_langchain_todos, "LangChain + TodoListMiddleware", LANGCHAIN_MODULES, "langchain_reader"),
    "deepagents": System(run_deepagents, "deepagents", ("deepagents",), "deepagents_reader"),
    "openai_agents": System(run_openai_agents, "OpenAI Agents SDK", ("agents",), "openai_reader"),
    "langchain_headway": System(
        run_langchain_headway, "LangChain + HeadwayMiddleware", (*LANGCHAIN_MODULES, "headway"), is_peer=False
    ),
    "headway": System(run_headway, "Headway, default", ("headway", "openai"), is_peer=False),
    "headway_todos": System(run_headway_todos, "Headway, the user's todos", ("headway", "openai"), is_peer=False),
    "headway_checks": System(run_headway_checks, "Headway, the user's todos with checks", ("headway", "openai"), is_peer=False),
    "headway_goal": System(run_headway_goal, "Headway, goals", ("headway", "openai"), is_peer=False),
}
PLAIN: Final = "pydantic_ai"  # the reference for costs

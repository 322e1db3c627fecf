"""Headway's tools in other agent frameworks: each runs a scripted model, and the plan is stored in the ledger.

Every framework runs the same script: plan two todos, name an unknown one, complete both, answer.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from headway import tool
from headway.agents.instructions.roles import UnknownRole
from headway.agents.tools.external_loop import ExternalLoop
from headway.ledger.errors import Conflict, NotFound
from headway.testing import temporary_headway

REQUEST = "Move house"
PLAN = {"items": [{"title": "pack"}, {"title": "drive"}]}
UNKNOWN = {"todoId": "nobody", "outcome": "done"}
ANSWER = "We have moved."

Results = Sequence[tuple[str, bool]]  # the tool results so far, each with whether it is an error


def next_move(results: Results) -> tuple[str, dict[str, Any]] | None:
    """Return the next tool call, or None when it is time to answer."""
    if not results:
        return "create_todo", PLAN
    ids = [todo["id"] for todo in json.loads(results[0][0])["created"]]
    moves = [UNKNOWN, *({"todoId": todo_id, "outcome": "done"} for todo_id in ids)]
    return ("complete_todo", moves[len(results) - 1]) if len(results) <= len(moves) else None


# One function per framework: runs the agent, and returns its answer and the results of its tool calls. The imports are inside the
# functions because they take seconds, which every test process would spend.


async def in_langchain(loop: ExternalLoop) -> tuple[str, Results]:
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain_core.language_models.chat_models import BaseChatModel  # noqa: PLC0415
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415

    from headway.frameworks.langchain import langchain_tools  # noqa: PLC0415

    class Scripted(BaseChatModel):
        def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
            assert {"create_todo", "complete_todo"} <= {entry.name for entry in tools}
            return self

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            move = next_move(get_tool_results(messages))
            calls = [{"name": move[0], "args": move[1], "id": f"call {len(messages)}"}] if move else []
            message = AIMessage("" if move else ANSWER, tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

        @property
        def _llm_type(self) -> str:
            return "scripted"

    def get_tool_results(messages: Sequence[BaseMessage]) -> Results:
        return [(str(message.content), message.status == "error") for message in messages if isinstance(message, ToolMessage)]

    agent = create_agent(Scripted(), langchain_tools(loop))
    state = await agent.ainvoke({"messages": [HumanMessage(REQUEST)]})
    return state["messages"][-1].content, get_tool_results(state["messages"])


async def in_openai_agents(loop: ExternalLoop) -> tuple[str, Results]:
    from agents import Agent, Runner  # noqa: PLC0415
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call  # noqa: PLC0415

    from headway.frameworks.openai_agents import openai_agents_tools  # noqa: PLC0415

    results_seen: list[Results] = []

    def respond(call: Any) -> Any:
        items = call.input if isinstance(call.input, list) else []
        outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
        results = [(output, set(json.loads(output)) == {"error"}) for output in outputs]
        results_seen.append(results)
        move = next_move(results)
        return [function_call(*move, call_id=f"call {len(results)}") if move else assistant_message(ANSWER)]

    model = ScriptedModel([ModelStep.respond(respond) for _ in range(5)])
    result = await Runner.run(Agent("mover", model=model, tools=[*openai_agents_tools(loop)]), REQUEST)
    return str(result.final_output), results_seen[-1]


async def in_pydantic_ai(loop: ExternalLoop) -> tuple[str, Results]:
    from headway.frameworks.pydantic_ai import headway_toolset  # noqa: PLC0415

    def get_tool_results(messages: Sequence[ModelMessage]) -> Results:
        parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
        returned = [part for part in parts if isinstance(part, ToolReturnPart)]
        return [(part.model_response_str(), part.outcome == "failed") for part in returned]

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert "create_todo" in {entry.name for entry in info.function_tools}
        move = next_move(get_tool_results(messages))
        return ModelResponse([ToolCallPart(*move) if move else TextPart(ANSWER)])

    result = await PydanticAgent(FunctionModel(respond), toolsets=[headway_toolset(loop)]).run(REQUEST)
    return result.output, get_tool_results(result.all_messages())


@pytest.mark.parametrize("framework", [in_langchain, in_openai_agents, in_pydantic_ai])
def test_an_agent_of_another_framework_plans_and_drains_its_plan(
    tmp_path: Path, framework: Callable[[ExternalLoop], Awaitable[tuple[str, Results]]]
) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            loop = await headway.own_loop("the move", agent="mover")
            answer, results = await framework(loop)

            assert answer == ANSWER
            assert [refused for _, refused in results] == [False, True, False, False]
            assert "nobody" in results[1][0]
            assert json.loads(results[2][0])["remaining"] == 1
            plan = await loop.plan()
            assert [(todo.subject, todo.status, todo.outcome) for todo in plan] == [
                ("pack", "completed", "done"),
                ("drive", "completed", "done"),
            ]
            assert {(todo.conversation_id, todo.turn_id, todo.agent_id) for todo in plan} == {
                (loop.conversation_id, loop.turn_id, "mover")
            }
            assert await loop.unfinished() == []

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_arguments_that_are_no_object_are_answered_and_not_raised(tmp_path: Path) -> None:
    async def scenario() -> None:
        from headway.frameworks.openai_agents import openai_agents_tools  # noqa: PLC0415

        async with temporary_headway(tmp_path) as headway:
            tools = {entry.name: entry for entry in openai_agents_tools(await headway.own_loop())}
            context: Any = None
            for arguments in ("{", "[1]", "[" * 100_000):
                response = json.loads(await tools["create_todo"].on_invoke_tool(context, arguments))
                assert response == {"error": "Invalid arguments: send a JSON object."}
            assert json.loads(await tools["list_todo"].on_invoke_tool(context, ""))["items"] == []

    asyncio.run(scenario())


# The loop itself


@tool
def tide(port: str) -> str:
    """The tide."""
    return f"low in {port}"


def test_a_role_and_a_choice_say_which_tools_there_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path, tools=[tide]) as headway:
            supervisor = await headway.own_loop()
            worker = await headway.own_loop(role="researcher")
            names = [spec.name for spec in supervisor.tools]
            assert {"create_todo", "todo_add"} <= set(names)
            assert {"AddTask", "manage_todos", "TodoWrite", "calculate", "tide", "delegate"} & set(names) == set()
            assert "create_todo" not in [spec.name for spec in worker.tools]
            assert [spec.name for spec in supervisor.only("TodoWrite", "own").tools] == ["TodoWrite", "tide"]
            with pytest.raises(NotFound, match="'delegate'"):
                supervisor.only("delegate")
            with pytest.raises(UnknownRole):
                await headway.own_loop(role="jester")

    asyncio.run(scenario())


def test_a_loop_continues_an_existing_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            first = await headway.own_loop("the move")
            await first.call("create_todo", PLAN)
            continued = await headway.own_loop(turn=first.turn_id)
            assert continued.conversation_id == first.conversation_id
            assert await continued.unfinished() == ["pack", "drive"]
            assert await (await headway.own_loop("the move")).unfinished() == []
            with pytest.raises(Conflict, match="belongs to conversation"):
                await headway.own_loop("elsewhere", turn=first.turn_id)
            with pytest.raises(NotFound):
                await headway.own_loop(turn="nobody")

    asyncio.run(scenario())


def test_a_model_that_invents_a_tool_reads_which_there_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            result = await (await headway.own_loop()).call("finish_all", {})
            assert result.is_error
            assert "No tool named 'finish_all'. Available: create_todo" in result.error

    asyncio.run(scenario())


def test_langchain_calls_a_tool_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        from headway.frameworks.langchain import langchain_tools  # noqa: PLC0415

        async with temporary_headway(tmp_path) as headway:
            tools = {entry.name: entry for entry in langchain_tools(await headway.own_loop())}
            result = await tools["todo_add"].ainvoke({"subject": "buy milk"})
            assert result["todo"]["subject"] == "buy milk"
            assert "Invalid arguments" in await tools["todo_add"].ainvoke({"subject": "buy milk", "price": 3})

    asyncio.run(scenario())

"""HeadwayMiddleware in place of LangChain's TodoListMiddleware: the plan is in the ledger, and the agent may not leave it open."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headway.testing import temporary_headway

REQUEST = "Move house"
STEPS = [
    [("pack", "in_progress"), ("drive", "pending")],
    "We have moved!",  # too early
    [("pack", "completed"), ("drive", "completed")],
    "We have moved.",
]


def build_model(steps: Sequence[Any]) -> Any:
    """Build a chat model that takes one step after each other, and then repeats the last one. It counts its own messages."""
    from langchain_core.language_models.chat_models import BaseChatModel  # noqa: PLC0415  takes seconds
    from langchain_core.messages import AIMessage, BaseMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415

    class Scripted(BaseChatModel):
        offers: list[list[str]] = []
        systems: list[str] = []

        def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
            self.offers.append([tool.name for tool in tools])
            return self

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            self.systems.append(messages[0].text)
            number = sum(isinstance(message, AIMessage) for message in messages)
            step = steps[min(number, len(steps) - 1)]
            if isinstance(step, str):
                message = AIMessage(step)
            else:
                todos = [{"content": content, "status": status} for content, status in step]
                message = AIMessage("", tool_calls=[{"name": "write_todos", "args": {"todos": todos}, "id": f"call {number}"}])
            return ChatResult(generations=[ChatGeneration(message=message)])

        @property
        def _llm_type(self) -> str:
            return "scripted"

    return Scripted()


@pytest.mark.parametrize("is_async", [True, False])
def test_an_agent_is_sent_back_until_its_plan_is_done(tmp_path: Path, is_async: bool) -> None:
    from langchain.agents import create_agent  # noqa: PLC0415
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415

    from headway.frameworks.langchain_middleware import HeadwayMiddleware  # noqa: PLC0415

    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            model = build_model(STEPS)
            agent = create_agent(model, middleware=[HeadwayMiddleware(headway, agent="mover")], checkpointer=InMemorySaver())
            request: Any = {"messages": [{"role": "user", "content": REQUEST}]}
            config: Any = {"configurable": {"thread_id": "7"}}
            state = await agent.ainvoke(request, config) if is_async else agent.invoke(request, config)

            texts = [message.text for message in state["messages"] if message.type in ("human", "ai") and message.text]
            assert texts[:2] == [REQUEST, "We have moved!"]
            assert "still open: pack, drive" in texts[2]
            assert texts[3:] == ["We have moved."]
            assert state["todos"] == [{"content": "pack", "status": "completed"}, {"content": "drive", "status": "completed"}]
            assert set(map(tuple, model.offers)) == {("write_todos",)}
            assert all("You cannot end while a step is open" in system for system in model.systems)

            turn_id = (await agent.aget_state(config)).values["headway_turn"]
            assert "headway_turn" not in state
            loop = await headway.own_loop(turn=turn_id)
            assert [(todo.subject, todo.status, todo.agent_id) for todo in await loop.plan()] == [
                ("pack", "completed", "mover"),
                ("drive", "completed", "mover"),
            ]
            # The next message of the thread has a new plan in the same conversation; another thread has another conversation.
            await agent.ainvoke({"messages": [{"role": "user", "content": "Thanks"}]}, config)
            next_turn = (await agent.aget_state(config)).values["headway_turn"]
            assert next_turn != turn_id
            assert (await headway.own_loop(turn=next_turn)).conversation_id == loop.conversation_id
            other: Any = {"configurable": {"thread_id": "8"}}
            await agent.ainvoke(request, other)
            other_turn = (await agent.aget_state(other)).values["headway_turn"]
            assert (await headway.own_loop(turn=other_turn)).conversation_id != loop.conversation_id

    asyncio.run(asyncio.wait_for(scenario(), 90))


def test_an_agent_that_never_works_is_let_go_and_its_plan_continues_in_the_next_run(tmp_path: Path) -> None:
    from langchain.agents import create_agent  # noqa: PLC0415
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415

    from headway.frameworks.langchain_middleware import MOST_REMINDERS, HeadwayMiddleware  # noqa: PLC0415

    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            config: Any = {"configurable": {"thread_id": "7"}, "recursion_limit": 100}
            lazy = build_model([STEPS[0], "Later."])
            saver = InMemorySaver()
            agent = create_agent(lazy, middleware=[HeadwayMiddleware(headway)], checkpointer=saver)
            state = await agent.ainvoke({"messages": [{"role": "user", "content": REQUEST}]}, config)
            assert sum("Not finished." in message.text for message in state["messages"]) == MOST_REMINDERS
            turn_id = (await agent.aget_state(config)).values["headway_turn"]

            diligent = build_model([STEPS[2]] * (MOST_REMINDERS + 3) + ["We have moved."])
            agent = create_agent(diligent, middleware=[HeadwayMiddleware(headway)], checkpointer=saver)
            state = await agent.ainvoke({"messages": [{"role": "user", "content": "Go on"}]}, config)
            assert state["messages"][-1].text == "We have moved."
            assert (await agent.aget_state(config)).values["headway_turn"] == turn_id
            assert await (await headway.own_loop(turn=turn_id)).unfinished() == []

    asyncio.run(asyncio.wait_for(scenario(), 90))


def test_one_planner_is_enough(tmp_path: Path) -> None:
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain.agents.middleware import TodoListMiddleware  # noqa: PLC0415

    from headway.frameworks.langchain_middleware import HeadwayMiddleware  # noqa: PLC0415

    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            model = build_model(STEPS)
            both: Any = [HeadwayMiddleware(headway), TodoListMiddleware()]
            with pytest.raises(AssertionError, match="duplicate middleware"):
                create_agent(model, middleware=both)

    asyncio.run(scenario())


def test_tools_work_without_an_event_loop(tmp_path: Path) -> None:
    from headway.frameworks.langchain import langchain_tools  # noqa: PLC0415

    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            loop = await headway.own_loop()
            tools = {entry.name: entry for entry in langchain_tools(loop)}
            await asyncio.to_thread(tools["create_todo"].invoke, {"items": [{"title": "pack"}]})
            tools["create_todo"].invoke({"items": [{"title": "drive"}]})  # on the thread of the event loop, which waits
            assert await loop.unfinished() == ["pack", "drive"]
            assert "Invalid arguments" in tools["todo_add"].invoke({"subject": "milk", "price": 3})

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_list_is_worked_off_in_short_contexts_and_reported_truthfully(tmp_path: Path) -> None:
    from langchain.agents import create_agent  # noqa: PLC0415
    from langchain_core.language_models.chat_models import BaseChatModel  # noqa: PLC0415
    from langchain_core.messages import AIMessage, BaseMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415

    from headway.frameworks.langchain_middleware import HeadwayMiddleware  # noqa: PLC0415

    seen: list[list[str]] = []
    offers: list[list[str]] = []
    files: dict[str, str] = {}

    def write_file(path: str, content: str) -> str:
        """Write a file."""
        files[path] = content
        return f"Wrote {path}."

    def read_file(path: str) -> str:
        """Read a file."""
        return files.get(path, f"Error: there is no {path}.")

    class Small(BaseChatModel):
        """Writes the first file of what it is asked for, then says that everything is done. It invents what it cannot read."""

        def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
            offers.append([tool.name for tool in tools])
            return self

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            texts = [str(message.text) for message in messages]
            seen.append(texts)
            asked = texts[0]
            if messages[-1].type == "tool":
                message = AIMessage("Everything is done!")
            elif "old.txt" in asked.split("\n")[0]:
                message = AIMessage("", tool_calls=[{"name": "read_file", "args": {"path": "old.txt"}, "id": f"call {len(seen)}"}])
            else:
                path = "cellar.txt" if "cellar" in asked else "pantry.txt"
                content = "wine" if "cellar" in asked else "flour"
                arguments = {"path": path, "content": content}
                message = AIMessage("", tool_calls=[{"name": "write_file", "args": arguments, "id": f"call {len(seen)}"}])
            return ChatResult(generations=[ChatGeneration(message=message)])

        @property
        def _llm_type(self) -> str:
            return "small"

    async def scenario() -> None:
        async with temporary_headway(tmp_path) as headway:
            agent = create_agent(Small(), [write_file, read_file], middleware=[HeadwayMiddleware(headway)])
            request = (
                "Do this:\n1. Write the text wine to cellar.txt\n2. Write the text flour to pantry.txt\n3. Copy old.txt to new.txt"
            )
            state = await agent.ainvoke({"messages": [{"role": "user", "content": request}]})
            assert files == {"cellar.txt": "wine", "pantry.txt": "flour"}
            report = state["messages"][-1].text
            assert report.startswith("2 of 3 items are done.")
            assert report.endswith("Incomplete:\n- Copy old.txt to new.txt (there is no old.txt)")
            left = "1. Write the text flour to pantry.txt\n2. Copy old.txt to new.txt"
            assert [left] in seen, "a context without what came before"
            assert {tuple(offer) for offer in offers} == {("write_file", "read_file")}

    asyncio.run(scenario())

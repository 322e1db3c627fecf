"""Headway embedded in a program: open it, ask it, close it."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from headway import Headway, tool
from headway.actions.installation import tenants
from headway.ledger.errors import BadTool, Closed, Conflict, Invalid, NotFound, SettingsError, TurnFailed, TurnRunning
from headway.testing import scripted_model, temporary_headway
from tests.sample_files import PNG


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}."


def run_scenario(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


# Asking


def test_a_question_is_planned_worked_off_and_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="rehearsal") as opened:
            turn = await opened.ask("Calculate 12*7, then write the result to notes.txt")
            assert (turn.status, turn.outcome) == ("finished", "drained")
            assert "84" in turn.answer
            assert [todo.status for todo in turn.plan] == ["completed", "completed"]
            assert turn.usage.input_tokens > turn.usage.output_tokens > 0
            assert (turn.usage.cached_tokens, turn.usage.cost_usd) == (0, 0)
        assert [path.read_text() for path in tmp_path.rglob("notes.txt")] == ["84"]

    run_scenario(scenario)


def test_a_key_opens_a_conversation_once_and_an_id_continues_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as opened:
            first = await opened.ask("hello", "user-42")
            by_key = await opened.ask("hello again", "user-42")
            by_id = await opened.ask("and again", first.conversation_id)
            new = await opened.ask("hello")
            assert first.conversation_id == by_key.conversation_id == by_id.conversation_id != new.conversation_id
            with pytest.raises(NotFound, match="No conversation 404"):
                await opened.ask("hello", 404)

    run_scenario(scenario)


def test_a_message_reaches_the_turn_that_runs_in_a_conversation(tmp_path: Path) -> None:
    begun, sent = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await sent.wait()
        return "waited"

    def reply(messages: list[ModelMessage]) -> ModelResponse:
        if not any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([ToolCallPart("wait", {})], finish_reason="tool_call")
        return ModelResponse([TextPart("Hallo." if "In German." in str(messages[-1]) else "Hello.")], finish_reason="stop")

    async def scenario() -> None:
        models = {"test:waiter": scripted_model(reply)}
        async with Headway.open(models=models, tools=[wait], home=tmp_path, model="test:waiter") as opened:
            task = asyncio.create_task(opened.ask("Greet me.", "user-42"))
            await begun.wait()
            await opened.send_message("In German.", "user-42")
            sent.set()
            assert (await task).answer == "Hallo."
            with pytest.raises(Conflict, match="No turn is running"):
                await opened.send_message("Again.", "user-42")

    run_scenario(scenario)


def test_a_refused_question_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as opened:
            with pytest.raises(Invalid, match="must not be blank"):
                await opened.ask("  ", "user-42")
            with pytest.raises(Invalid, match="mode: Input should be 'plan' or 'queue'"):
                await opened.ask("hello", "user-42", mode="zoom")  # type: ignore[arg-type]
            rows = await opened.database.unrestricted.read(lambda tx: tx.all("SELECT key FROM conversations"))
            assert rows == []

    run_scenario(scenario)


def test_tenants_are_kept_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as opened:
            await opened.database.write(lambda tx: tenants.add_tenant(tx, "acme"))
            foreign = await opened.ask("hello", "user-42", tenant="acme")
            with pytest.raises(NotFound):
                await opened.ask("hello", foreign.conversation_id)
            with pytest.raises(NotFound, match="No tenant named 'acne'"):
                await opened.ask("hello", tenant="acne")

    run_scenario(scenario)


def test_a_failed_turn_raises_its_error(tmp_path: Path) -> None:
    def broken(_messages: list[ModelMessage]) -> ModelResponse:
        raise ConnectionError("the line is dead")

    async def scenario() -> None:
        async with temporary_headway(tmp_path, scripted_model(broken), model_retries="0") as opened:
            with pytest.raises(TurnFailed, match=r"\w+ .+\."):
                await opened.ask("hello")

    run_scenario(scenario)


async def wait_for_job(opened: Headway) -> str:
    """Wait for the first turn, and return the id of its job."""
    rows: list[Any] = []
    while not rows:
        await asyncio.sleep(0)
        rows = list(await opened.database.unrestricted.read(lambda tx: tx.all("SELECT id FROM jobs")))
    return str(rows[0][0])


async def statuses(opened: Headway) -> list[str]:
    rows = await opened.database.unrestricted.read(lambda tx: tx.all("SELECT status FROM turns"))
    return [str(row[0]) for row in rows]


def test_a_caller_that_stops_waiting_does_not_stop_the_turn(tmp_path: Path) -> None:
    released = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await released.wait()
        return "waited"

    async def scenario() -> None:
        model = scripted_model([ModelResponse([ToolCallPart("wait", {})]), ModelResponse([TextPart("Hello.")])])
        async with temporary_headway(tmp_path, model, [wait]) as opened:
            task = asyncio.create_task(opened.ask("hello"))
            job_id = await wait_for_job(opened)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await statuses(opened) == ["running"]
            released.set()
            await opened.engine.ended(job_id)
            assert await statuses(opened) == ["finished"]

    run_scenario(scenario)


# Own tools


def test_tools_of_the_program_join_those_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "more.py").write_text(
        "from headway import tool\n@tool\ndef tide(port: str) -> str:\n    'The tide.'\n    return 'low'\n"
    )

    async def scenario() -> None:
        async with temporary_headway(tmp_path, tools=[weather]) as opened:
            loop = (await opened.own_loop()).only("own")
            assert [spec.name for spec in loop.tools] == ["tide", "weather"]
            assert (await loop.call("weather", {"city": "Oslo"})).value == "Sunny in Oslo."

    run_scenario(scenario)


def test_a_name_that_is_taken_and_a_function_that_is_no_tool_are_refused(tmp_path: Path) -> None:
    @tool(name="create_todo")
    def mine() -> None:
        """Mine."""

    def plain() -> None:
        """No tool."""

    async def open_with(*tools: Any) -> None:
        async with temporary_headway(tmp_path, tools=tools):
            pass

    for tools, message in (
        ([mine], "A tool named create_todo already exists"),
        ([weather, weather], "named weather already exists"),
        ([plain], "plain is not a tool. Decorate it with @tool"),
    ):
        with pytest.raises(BadTool, match=message):
            asyncio.run(open_with(*tools))


# Opening and closing


def test_a_model_that_cannot_be_built_is_reported_in_one_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="nobody:nothing") as opened:
            with pytest.raises(TurnFailed, match="nobody"):
                await opened.ask("hello")

    run_scenario(scenario)


def test_a_refused_answer_is_withdrawn_from_the_stream(tmp_path: Path) -> None:
    model = scripted_model(
        [
            ModelResponse([ToolCallPart("create_todo", {"items": [{"title": "sow"}]})]),
            ModelResponse([TextPart("All is done.")]),
            ModelResponse([ToolCallPart("complete_todo", {"todoId": "1", "outcome": "sown"})]),
            ModelResponse([TextPart("It is sown.")]),
        ]
    )

    async def scenario() -> None:
        shown = ""
        async with temporary_headway(tmp_path, model) as opened:
            async for event in opened.ask_stream("Please sow."):
                shown = "" if event.withdraws else shown + event.text
        assert shown == "It is sown."

    run_scenario(scenario)


def test_a_setting_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(SettingsError, match=r"Unknown setting 'modell'\. Did you mean model"):
            async with Headway.open(home=tmp_path, modell="rehearsal"):  # type: ignore[call-arg]
                pass

    run_scenario(scenario)


def test_a_call_after_the_end_of_the_block_says_that_headway_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Headway.open(home=tmp_path, model="rehearsal") as opened:
            pass
        for call in (opened.todos.list, partial(opened.todos.add, "late"), partial(opened.ask, "hello"), opened.own_loop):
            with pytest.raises(Closed, match=r"^Headway is closed\.$"):
                await call()

    run_scenario(scenario)


def test_closing_returns_unfinished_work_and_the_next_process_ends_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path, rehearsal_pace_s="30") as opened:
            task = asyncio.create_task(opened.ask("hello", "user-42"))
            job_id = await wait_for_job(opened)
            with pytest.raises(TurnRunning):
                await opened.ask("hello again", "user-42")
        with pytest.raises(Closed, match="resumes when Headway is opened again"):
            await task
        async with Headway.open(home=tmp_path, model="rehearsal") as opened:
            await opened.engine.ended(job_id)
            assert await statuses(opened) == ["finished"]

    run_scenario(scenario)


def test_closing_after_a_caller_stopped_waiting_logs_no_error(tmp_path: Path) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        async with Headway.open(home=str(tmp_path), rehearsal_pace_s=5) as headway:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await headway.ask("Calculate 1+1.", "c")
        gc.collect()

    run_scenario(scenario)
    assert complaints == []


# Attachments


def test_a_question_comes_with_files_or_their_contents(tmp_path: Path) -> None:
    photo, notes = tmp_path / "photo.png", tmp_path / "notes.md"
    photo.write_bytes(PNG)
    notes.write_text("Zoe is from Graz.")
    seen: list[Any] = []

    def describe(messages: list[ModelMessage]) -> ModelResponse:
        seen.extend(part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart))
        return ModelResponse([TextPart("A red dot.")], finish_reason="stop")

    async def scenario() -> None:
        async with temporary_headway(tmp_path / "home", scripted_model(describe)) as opened:
            turn = await opened.ask("What is this?", attachments=[photo, PNG, notes])
            assert turn.answer == "A red dot."
            with pytest.raises(Invalid, match=r"'no.png' cannot be read: No such file or directory"):
                await opened.ask("What is this?", attachments=[tmp_path / "no.png"])
            with pytest.raises(Invalid, match="'file 1' is neither an image"):
                await opened.ask("What is this?", attachments=[b"\0"])

    run_scenario(scenario)
    (content,) = seen
    assert [item.data for item in content if isinstance(item, BinaryContent)] == [PNG, PNG]
    words = "\n".join(item for item in content if isinstance(item, str))
    assert [name for name in ("photo.png", "file 2", "notes.md", "Zoe is from Graz.") if name not in words] == []


def test_a_model_that_takes_no_images_refuses_the_question(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with temporary_headway(tmp_path) as opened:
            with pytest.raises(Invalid, match="The model rehearsal does not accept 'file 1'"):
                await opened.ask("What is this?", "a key", attachments=[PNG])

    run_scenario(scenario)

"""`headway acp`, driven by the protocol's official clients for Python and TypeScript.

The one for Python takes a second to load, so it is imported where it is used: every test worker imports this file.
"""
# ruff: noqa: PLC0415

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.model_server import ModelServer, Reply, Request, by_turn, calls, environment, text
from tests.surfaces.front_end_clients import run_script
from tests.surfaces.shell import HEADWAY
from tests.warm_start import HEADWAY as WARM_HEADWAY
from tests.warm_start import Program, build_command

PATIENCE_S = 120
ASK_ABOUT_FILES = '[[rule]]\ntool = "write_file"\ndecision = "ask"\n'
WRITE_NOTE = calls(("write_file", {"path": "note.txt", "content": "hello"}))


class Editor:
    """A client that notes what it is shown, and answers requests for permission as `choose` says."""

    def __init__(self, choose: Callable[[dict[str, Any]], str] = lambda _call: "approve") -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.choose = choose

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True, mode="json"))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        from acp.schema import AllowedOutcome, RequestPermissionResponse

        self.asked.append(tool_call.model_dump(by_alias=True, exclude_none=True, mode="json"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.choose(self.asked[-1])))

    def list_updates(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def said(self) -> str:
        return "".join(update["content"]["text"] for update in self.list_updates("agent_message_chunk"))


class Desk:
    """A home, a project folder and a model."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.home, self.project, self.model = folder / "home", folder / "project", model
        self.home.mkdir()
        self.project.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        return {**own, **environment(self.model), "HEADWAY_HOME": str(self.home), "HEADWAY_RESTART_STAGGER_S": "0"}

    @asynccontextmanager
    async def open(self, editor: Editor, *, to_be_killed: bool = False) -> AsyncIterator[tuple[Any, Any]]:
        from acp import PROTOCOL_VERSION, spawn_agent_process

        command = [*(HEADWAY if to_be_killed else build_command(*WARM_HEADWAY)), "acp"]  # a kill is not passed on
        async with (
            asyncio.timeout(PATIENCE_S),
            spawn_agent_process(cast("Any", editor), *command, env=self.environment, cwd=self.project) as (agent, process),
        ):
            hello = await agent.initialize(protocol_version=PROTOCOL_VERSION)
            assert hello.agent_capabilities is not None
            assert hello.agent_capabilities.load_session
            yield agent, process


def text_block(content: str) -> Any:
    import acp

    return acp.text_block(content)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer(by_turn(text("Nothing to do."))) as model:
        yield Desk(tmp_path, model)


def test_a_prompt_works_in_the_editors_folder_and_another_process_loads_the_session(desk: Desk) -> None:
    plan = {"items": [{"title": "write a note"}, {"title": "say so"}]}
    done = calls(("complete_todo", {"todoId": "1", "outcome": "written"}), ("complete_todo", {"todoId": "2", "outcome": "said"}))
    desk.model.script = by_turn(calls(("create_todo", plan)), WRITE_NOTE, done, text("The note is there."), text("Again."))

    async def run() -> None:
        editor = Editor()
        async with desk.open(editor) as (agent, _process):
            session = (await agent.new_session(cwd=str(desk.project), mcp_servers=[])).session_id
            answer = await agent.prompt(session_id=session, prompt=[text_block("Write a note.")])
            assert answer.stop_reason == "end_turn"
        assert (desk.project / "note.txt").read_text() == "hello"
        (write,) = [update for update in editor.list_updates("tool_call") if update["kind"] == "edit"]
        assert write["locations"] == [{"path": str(desk.project / "note.txt")}]
        (written,) = [one for one in editor.list_updates("tool_call_update") if one["toolCallId"] == write["toolCallId"]]
        assert written["status"] == "completed"
        plans = [[(entry["content"], entry["status"]) for entry in one["entries"]] for one in editor.list_updates("plan")]
        assert plans[0] == [("write a note", "in_progress"), ("say so", "pending")]
        assert plans[-1] == [("write a note", "completed"), ("say so", "completed")]
        assert editor.said.strip().endswith("The note is there.")

        again = Editor()
        async with desk.open(again) as (agent, _process):
            await agent.load_session(cwd=str(desk.project), session_id=session, mcp_servers=[])
            assert [one["content"]["text"] for one in again.list_updates("user_message_chunk")] == ["Write a note."]
            assert again.said == "The note is there."
            assert again.list_updates("plan")[-1]["entries"][0]["status"] == "completed"
            again.updates.clear()
            await agent.prompt(session_id=session, prompt=[text_block("And again.")])
            assert again.said == "Again."

    asyncio.run(run())


def test_calls_that_need_approval_are_asked_about(desk: Desk) -> None:
    (desk.home / "policy.toml").write_text(ASK_ABOUT_FILES)
    desk.model.script = by_turn(WRITE_NOTE, text("Not allowed."), WRITE_NOTE, text("Written."))

    async def run() -> None:
        decisions = iter(("reject", "approve"))
        editor = Editor(lambda _call: next(decisions))
        async with desk.open(editor) as (agent, _process):
            session = (await agent.new_session(cwd=str(desk.project), mcp_servers=[])).session_id
            await agent.prompt(session_id=session, prompt=[text_block("Write a note.")])
            assert not (desk.project / "note.txt").exists()
            assert editor.list_updates("tool_call_update")[-1]["status"] == "failed"
            await agent.prompt(session_id=session, prompt=[text_block("Try again.")])
            assert (desk.project / "note.txt").exists()
            assert [call["title"] for call in editor.asked] == ["write_file note.txt"] * 2

    asyncio.run(run())


def test_a_question_is_answered_with_the_next_prompt_or_with_a_choice(desk: Desk) -> None:
    def script(request: Request) -> Reply:
        answers = [str(result.content) for result in request.tool_results]
        if not answers:
            return calls(("ask_person", {"question": "Which colour?"}))
        if len(answers) == 1:
            return calls(("ask_person", {"question": "Which size?", "choices": ["small", "large"]}))
        return text(f"{'blue' in answers[0]} {'large' in answers[1]}")

    desk.model.script = script

    async def run() -> None:
        editor = Editor(lambda _call: "1")
        async with desk.open(editor) as (agent, _process):
            session = (await agent.new_session(cwd=str(desk.project), mcp_servers=[])).session_id
            first = await agent.prompt(session_id=session, prompt=[text_block("Paint it.")])
            assert first.stop_reason == "end_turn"
            assert "Which colour?" in editor.said
            second = await agent.prompt(session_id=session, prompt=[text_block("blue")])
            assert second.stop_reason == "end_turn"
            assert editor.said.endswith("True True")

    asyncio.run(run())


def test_a_prompt_is_canceled_and_an_interrupted_one_is_finished_by_the_next_process(desk: Desk) -> None:
    async def run() -> None:
        editor = Editor()
        async with desk.open(editor, to_be_killed=True) as (agent, process):
            session = (await agent.new_session(cwd=str(desk.project), mcp_servers=[])).session_id
            desk.model.hold()
            prompt = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Think.")]))
            await asyncio.to_thread(desk.model.wait_for_requests, 1)
            await agent.cancel(session_id=session)
            assert (await prompt).stop_reason == "cancelled"
            interrupted = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Think again.")]))
            await asyncio.to_thread(desk.model.wait_for_requests, 2)
            process.send_signal(signal.SIGKILL)
            with pytest.raises(Exception):  # noqa: B017, PT011  the library's error about the lost connection
                await interrupted
        desk.model.script = lambda request: text("second" if "Third." in request.last else "first")
        desk.model.release()
        after = Editor()
        async with desk.open(after) as (agent, _process):
            await agent.load_session(cwd=str(desk.project), session_id=session, mcp_servers=[])
            after.updates.clear()
            answer = await agent.prompt(session_id=session, prompt=[text_block("Third.")])
            assert answer.stop_reason == "end_turn"
            assert after.said == "firstsecond"

    asyncio.run(run())


def test_a_cancel_directly_after_a_prompt_ends_it_and_the_session_goes_on(desk: Desk) -> None:
    """Both messages are on their way before the first is read, which no client's library promises."""
    desk.model.hold()
    command = [*build_command(*WARM_HEADWAY), "acp"]
    with subprocess.Popen(
        command, env=desk.environment, cwd=desk.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def send(*messages: dict[str, Any]) -> None:
            assert process.stdin
            process.stdin.write("".join(f"{json.dumps({'jsonrpc': '2.0', **message})}\n" for message in messages))
            process.stdin.flush()

        def receive(request_id: int) -> Any:
            assert process.stdout
            return next(message for message in map(json.loads, process.stdout) if message.get("id") == request_id)["result"]

        send({"id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
        receive(1)
        send({"id": 2, "method": "session/new", "params": {"cwd": str(desk.project), "mcpServers": []}})
        session = receive(2)["sessionId"]
        for request_id in (3, 4, 5):
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Think."}]}
            cancel = {"method": "session/cancel", "params": {"sessionId": session}}
            send({"id": request_id, "method": "session/prompt", "params": prompt}, cancel)
            assert receive(request_id) == {"stopReason": "cancelled"}
        desk.model.release()
        send({"id": 6, "method": "session/prompt", "params": prompt})
        assert receive(6) == {"stopReason": "end_turn"}
        process.stdin.close()
        process.stdout.read()


def test_bad_requests_are_refused(desk: Desk) -> None:
    from acp import RequestError

    async def run() -> None:
        async with desk.open(Editor()) as (agent, _process):
            for folder in ("relative", str(desk.project / "missing"), str(desk.home), str(desk.home.parent)):
                with pytest.raises(RequestError):
                    await agent.new_session(cwd=folder, mcp_servers=[])
            with pytest.raises(RequestError):
                await agent.prompt(session_id="unknown", prompt=[text_block("Hello.")])
            with pytest.raises(RequestError):
                await agent.load_session(cwd=str(desk.project), session_id="unknown", mcp_servers=[])

    asyncio.run(run())


def test_the_client_of_the_typescript_sdk(desk: Desk) -> None:
    (desk.home / "policy.toml").write_text(ASK_ABOUT_FILES)
    desk.model.script = by_turn(WRITE_NOTE, text("Written."))
    shown = run_script("acp.mjs", [*build_command(*WARM_HEADWAY), "acp"], desk.environment, str(desk.project), "Write a note.")

    assert (shown["agent"], shown["stopReason"], shown["asked"]) == ("headway", "end_turn", ["write_file note.txt"])
    kinds = [update["sessionUpdate"] for update in shown["updates"]]
    assert kinds.index("tool_call") < kinds.index("tool_call_update") < kinds.index("agent_message_chunk")
    assert (desk.project / "note.txt").exists()


def test_files_in_place_of_an_editor_are_refused(tmp_path: Path) -> None:
    for streams in ((subprocess.DEVNULL, subprocess.PIPE), (subprocess.PIPE, subprocess.DEVNULL)):
        with Program(["acp"], tmp_path, streams=(*streams, subprocess.PIPE)) as program:
            _, err = program.communicate(timeout=PATIENCE_S)
        assert program.returncode == 2
        assert err.startswith("headway: Standard input and output must lead to an editor, not to files.")
        assert len(err.splitlines()) == 1

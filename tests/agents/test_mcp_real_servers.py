"""Agents use MCP servers that others wrote: three from npm and three from PyPI, of two generations of the protocol.

Each takes seconds to start, so an ordinary run calls one of them; `test_mcp_http.py` calls another one over HTTP.
"""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.person_harness import decide_and_finish, list_approvals
from tests.agents.real_mcp_servers import TIME_SERVER, begin_anew, find_process, open_shared_talk, serve_page, use
from tests.agents.sub_agent_harness import delegate_call, list_tool_answers
from tests.agents.turn_harness import Talk, in_order, list_on_demand, open_talk
from tests.model_server import Reply, Request, calls, text

MEMORY = "mcp-server-memory"
compatibility = pytest.mark.compatibility


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Iterator[Talk]:
    with open_shared_talk(tmp_path_factory.mktemp("servers"), empty_ledger) as talk:
        yield talk


@pytest.fixture
def talk(shared: Talk) -> Talk:
    begin_anew(shared)
    return shared


@pytest.fixture
def folder(shared: Talk) -> Path:
    return Path(shared.headway.settings.home).parent


def list_states(talk: Talk) -> list[str]:
    return [effect.state for effect in talk.effects()]


def test_a_server_that_others_wrote_is_called(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"time": TIME_SERVER}}))
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        talk.wait(talk.headway.prepare_tools(talk.headway.roles.find("index"), None))  # a turn would wait for 10 s only
        convert = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        (converted,) = use(talk, ("time__convert_time", convert))
        assert "21:00:00+09:00" in converted


@compatibility
def test_the_tools_of_all_servers_are_called_on_demand(talk: Talk) -> None:
    asked = ("use_tool", {"name": "time__convert_time"})
    convert = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    parameters, converted = use(talk, asked, ("use_tool", {"name": "time__convert_time", "arguments": convert}))
    assert json.loads(parameters)["parameters"]["required"] == ["source_timezone", "time", "target_timezone"]
    assert "21:00:00+09:00" in converted
    tools = talk.headway.toolbox.tools
    families = {tool.family for tool in tools.values() if tool.server}
    assert families == {"mcp:files", "mcp:memory", "mcp:everything", "mcp:git", "mcp:time", "mcp:fetch"}
    on_demand = list_on_demand(talk.requests[0])
    assert on_demand >= {name for name, tool in tools.items() if tool.server}
    assert on_demand >= {"files__read_text_file", "memory__read_graph", "everything__get-sum", "git__git_log", "fetch__fetch"}
    assert "everything__simulate-research-query" not in tools, "a tool that can only run as a task cannot be called"
    assert not [name for name in talk.requests[0].tools if "__" in name]


@compatibility
def test_files_are_written_inside_the_allowed_folder_only(talk: Talk, folder: Path) -> None:
    inside, outside = str(folder / "files" / "note.txt"), str(folder / "note.txt")
    written, read, refused, unread = use(
        talk,
        ("files__write_file", {"path": inside, "content": "A note."}),
        ("files__read_text_file", {"path": inside}),
        ("files__write_file", {"path": outside, "content": "A note."}),
        ("files__read_text_file", {"path": outside}),
    )
    assert "Successfully wrote" in written
    assert read == "A note."
    assert "Access denied" in refused
    assert "Access denied" in unread
    assert not Path(outside).exists()
    assert list_states(talk) == ["succeeded", "succeeded", "failed", "failed"]


@compatibility
def test_hints_decide_what_asks(talk: Talk, folder: Path) -> None:
    tools = talk.headway.toolbox.tools
    asking = {"files__edit_file", "files__move_file", "memory__delete_entities", "git__git_reset"}
    assert all(tools[name].needs_approval for name in asking)
    assert not any(tools[name].needs_approval for name in ("files__read_text_file", "memory__create_entities", "git__git_commit"))
    (folder / "files" / "old.txt").write_text("old")
    move = {"source": str(folder / "files" / "old.txt"), "destination": str(folder / "files" / "new.txt")}
    talk.server.script = in_order(calls(("files__move_file", move)), text("Moved."))
    talk.say()
    (approval,) = list_approvals(talk)
    assert (approval["tool"], (folder / "files" / "new.txt").exists()) == ("files__move_file", False)
    assert decide_and_finish(talk, approval["id"], "approve")["outcome"] == "answered"
    assert (folder / "files" / "new.txt").read_text() == "old"


@compatibility
def test_memory_outlives_the_server(talk: Talk) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes rivers"]}
    use(talk, ("memory__create_entities", {"entities": json.dumps([entity])}))  # models often send lists as text
    find_process(MEMORY).kill()
    (graph,) = use(talk, ("memory__read_graph", {}))
    assert json.loads(graph)["entities"] == [entity]


@compatibility
def test_every_kind_of_content_reaches_the_model(talk: Talk) -> None:
    echo, added, weather, links, packed, image = use(
        talk,
        ("everything__echo", {"message": "hello"}),
        ("everything__get-sum", {"a": "2", "b": 3}),
        ("everything__get-structured-content", {"location": "Chicago"}),
        ("everything__get-resource-links", {"count": 2}),
        ("everything__gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,hi", "outputType": "resource"}),
        ("everything__get-tiny-image", {}),
    )
    assert echo == "Echo: hello"
    assert "2 and 3 is 5" in added
    assert json.loads(weather)["conditions"]
    assert "[resource Text Resource 2: demo://resource/dynamic/text/2]" in links
    assert re.fullmatch(r"\[resource demo://resource/session/a\.gz]\n\[application/gzip, \d+ bytes: not shown]", packed)
    assert re.search(r"\[image 1: image/png, [\d,]+ bytes]", image)
    (shown,) = [part for part in talk.requests[-1].messages[-1]["content"] if part["type"] == "image_url"]
    assert shown["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


@compatibility
def test_a_repository_is_read_and_changed(talk: Talk, folder: Path) -> None:
    repository = {"repo_path": str(folder / "repository")}
    status, _, _, commits, outside = use(
        talk,
        ("git__git_status", repository),
        ("git__git_add", {**repository, "files": ["second.txt"]}),
        ("git__git_commit", {**repository, "message": "Add the second file"}),
        ("git__git_log", {**repository, "max_count": "5"}),
        ("git__git_status", {"repo_path": str(folder)}),
    )
    assert "Untracked files:\n" in status
    assert "second.txt" in status
    assert "Add the first file" in commits
    assert "Add the second file" in commits
    assert "outside" in outside
    assert list_states(talk)[-1] == "failed"


@compatibility
def test_a_long_page_is_shortened_and_read_on_with_its_handle(talk: Talk) -> None:
    with serve_page() as url:
        (page,) = use(talk, ("fetch__fetch", {"url": url, "max_length": 90_000}))
        handle = re.search(r"read_result with handle (\S+), offset (\d+)", page)
        assert handle
        (rest,) = use(talk, ("read_result", {"handle": handle[1], "offset": int(handle[2])}))
    assert "The Rhine is long." in page
    assert "The Rhine is long." in json.loads(rest)["content"]
    (unreachable,) = use(talk, ("fetch__fetch", {"url": url}))
    assert "Failed to fetch" in unreachable


@compatibility
def test_a_role_gets_the_tools_of_its_servers_only(talk: Talk) -> None:
    def reply(request: Request) -> Reply:
        if "You are the watchmaker." not in request.system:
            return text("Done.") if request.assistant_turns else delegate_call("look", agent="watchmaker")
        if request.assistant_turns:
            return text(request.tool_results[0].content + request.tool_results[1].content)
        return calls(("time__get_current_time", {"timezone": "UTC"}), ("memory__read_graph", {}))

    talk.server.script = reply
    talk.say()
    (own,) = [request for request in talk.requests if "You are the watchmaker." in request.system and not request.assistant_turns]
    assert {name for name in (*own.tools, *list_on_demand(own)) if "__" in name} == {"time__get_current_time", "time__convert_time"}
    (answer,) = list_tool_answers(talk.requests[-1], "delegate")
    assert '"timezone": "UTC"' in answer["summary"]
    assert "The role watchmaker is not granted memory__read_graph" in answer["summary"]


@compatibility
def test_a_long_read_is_repeated_when_its_server_is_killed(talk: Talk) -> None:
    slow = calls(("everything__trigger-long-running-operation", {"duration": 0.4, "steps": 2}))
    talk.server.script = in_order(slow, text("Done."))

    async def kill_during_call() -> None:
        task = await talk.begin()
        await talk.until(lambda: list_states(talk) == ["started"])
        find_process("mcp-server-everything").kill()
        await talk.wait_until_ended(task)

    talk.wait(kill_during_call())
    assert "Long running operation completed" in talk.requests[-1].tool_results[-1].content
    assert list_states(talk) == ["succeeded"]


@compatibility
def test_a_write_is_unknown_when_its_server_is_killed(talk: Talk) -> None:
    use(talk, ("memory__read_graph", {}))  # the server runs
    begin_anew(talk)
    entity = {"name": "Bob", "entityType": "person", "observations": []}
    talk.server.script = in_order(
        calls(("memory__create_entities", {"entities": [entity]})), calls(("memory__read_graph", {})), text("Done.")
    )

    async def kill_during_call() -> None:
        process = find_process(MEMORY)
        process.send_signal(signal.SIGSTOP)
        task = await talk.begin()
        await talk.until(lambda: list_states(talk) == ["started"])
        process.kill()
        await talk.wait_until_ended(task)

    talk.wait(kill_during_call())
    assert list_states(talk) == ["unknown", "succeeded"]
    unknown, graph = (result.content for result in talk.requests[-1].tool_results[-2:])
    assert "It may have taken effect" in unknown
    assert "Bob" not in graph

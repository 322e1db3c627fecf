"""Where the calls of MCP clients act: one open plan per conversation, which survives processes, and the tenant's ledger."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import MCPError

from headway.actions.access import tokens
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line
from tests.surfaces.test_mcp import call, over_http, over_stdio, read, run_session

# stdio


async def list_titles(connected: McpClient, **arguments: Any) -> list[str]:
    return [item["title"] for item in (await call(connected, "list_todo", **arguments))["items"]]


def test_a_plan_is_continued_by_the_next_process_and_shows_on_the_command_line(headway: Shell) -> None:
    """Some clients start a process for each call, so nothing may be kept in it."""
    ids: list[str] = []

    async def plan(connected: McpClient) -> None:
        await call(connected, "todo_add", subject="written down")
        created = (await call(connected, "create_todo", items=[{"title": "look"}, {"title": "build"}]))["created"]
        ids.extend(item["id"] for item in created)

    async def look(connected: McpClient) -> None:
        assert await list_titles(connected) == ["look", "build"]
        await call(connected, "start_todo", todoId=ids[0])

    async def work(connected: McpClient) -> None:
        for todo_id in ids:
            await call(connected, "complete_todo", todoId=todo_id, outcome="done")
        assert await list_titles(connected, status="all") == ["look", "build"], "a plan without open items is still there"

    async def begin_again(connected: McpClient) -> None:
        await call(connected, "create_todo", items=[{"title": "ship"}])
        assert await list_titles(connected, status="all") == ["ship"], "the next plan does not contain the last one"

    for scenario in (plan, look, work, begin_again):
        run_session(partial(over_stdio, headway.folder, "--agent", "claude"), scenario)
    rows = {todo["subject"]: todo for todo in headway.json("todo", "list", "--all")["todos"]}
    assert (rows["written down"]["conversation_id"], rows["written down"]["agent_id"]) == (0, "claude")
    assert rows["look"]["status"] == rows["build"]["status"] == "completed"
    assert rows["look"]["turn_id"] == rows["build"]["turn_id"] != rows["ship"]["turn_id"]
    (conversation,) = headway.json("conversation", "list")["conversations"]
    assert (conversation["key"], conversation["title"]) == (f"folder {headway.folder}", f"MCP: {headway.folder.name}")

    run_session(partial(over_stdio, headway.folder, "--turn", rows["look"]["turn_id"]), check_all)


async def check_all(connected: McpClient) -> None:
    assert await list_titles(connected, status="all") == ["look", "build"]


def test_processes_in_one_folder_share_a_plan_and_all_share_the_ledger(tmp_path: Path) -> None:
    async def run() -> None:
        home, elsewhere = ("--home", str(tmp_path / ".headway")), tmp_path / "elsewhere"
        elsewhere.mkdir()
        async with over_stdio(tmp_path, *home) as one, over_stdio(tmp_path, *home) as two, over_stdio(elsewhere, *home) as other:
            await asyncio.gather(
                *(call(client, "create_todo", items=[{"title": f"item {n}"}]) for n in range(3) for client in (one, two))
            )
            await call(one, "todo_add", subject="everybody's")
            assert (await call(two, "list_todo"))["summary"]["total"] == 6
            assert (await call(other, "list_todo"))["items"] == []
            assert "everybody's" in [todo["subject"] for todo in (await call(other, "todo_list"))["todos"]]

    asyncio.run(run())


def test_a_session_started_in_a_conversation_works_in_it_and_a_new_key_creates_one(headway: Shell) -> None:
    for flag, value in (("--conversation", "#99"), ("--turn", "nowhere")):
        assert value in get_error_line(headway("mcp", flag, value), 3)
    document = {"conversations": [{"id": 1, "key": "a thread"}], "todos": [{"subject": "theirs", "conversation_id": 1}]}
    headway.ok("todo", "import", "-", "--format", "json", stdin=json.dumps(document))

    async def scenario(connected: McpClient, there: list[str]) -> None:
        assert [todo["subject"] for todo in (await read(connected, "open"))["todos"]] == there
        await call(connected, "todo_add", subject="added")
        await call(connected, "AddTask", title="look")
        await call(connected, "create_todo", items=[{"title": "planned"}])

    for key, there in (("a thread", ["theirs"]), ("another", [])):
        run_session(partial(over_stdio, headway.folder, "--conversation", key), partial(scenario, there=there))
        todos = headway.json("todo", "list", "--conversation", key)["todos"]
        assert sorted(todo["subject"] for todo in todos) == sorted([*there, "added", "planned"])
    conversations = headway.json("conversation", "list")["conversations"]
    assert {conversation["key"] for conversation in conversations} == {"a thread", "another"}
    for conversation in conversations:
        assert "look" in (headway.folder / ".headway" / conversation["task_file"]).read_text()


# HTTP


def test_the_headers_place_a_call_and_the_http_api_shows_its_rows(client: Client) -> None:
    by_key = client.conversation(key="a thread")
    turn_id = client.turn(by_key)

    async def scenario(connected: McpClient) -> None:
        await call(connected, "todo_add", subject="added")
        await call(connected, "create_todo", items=[{"title": "planned"}])
        await call(connected, "AddTask", title="look")

    for headers in (
        {"Headway-Turn": turn_id, "Headway-Agent": "claude"},
        {"Headway-Conversation": "a thread", "Headway-Turn": turn_id},
        {"Headway-Conversation": str(by_key), "Headway-Turn": turn_id},
    ):
        run_session(partial(over_http, client, headers), scenario)
    todos = client.ok("GET", "/v1/todos", params={"conversation_id": by_key})["todos"]
    assert sorted(todo["subject"] for todo in todos) == ["added"] * 3 + ["planned"] * 3
    assert {todo["turn_id"] for todo in todos if todo["subject"] == "planned"} == {turn_id}
    assert sorted(todo["agent_id"] for todo in todos) == ["claude"] * 2 + ["mcp"] * 4
    tasks = client.ok("POST", "/v1/tools/ListTasks", json={"conversation_id": by_key})["result"]["tasks"]
    assert [task["title"] for task in tasks] == ["look"] * 3


def test_without_headers_each_token_has_a_plan_and_tasks_and_the_ledger_is_the_tenants(client: Client) -> None:
    client.add("elsewhere", conversation_id=client.conversation())

    async def scenario(connected: McpClient) -> None:
        assert (await call(connected, "todo_add", subject="wide"))["todo"].get("conversation_id", 0) == 0
        assert [todo["subject"] for todo in (await read(connected, "open"))["todos"]] == ["elsewhere", "wide"]
        await call(connected, "create_todo", items=[{"title": "x"}])
        await call(connected, "AddTask", title="y")

    async def resume(connected: McpClient) -> None:
        assert await list_titles(connected) == ["x"]
        assert [task["title"] for task in (await call(connected, "ListTasks"))["tasks"]] == ["y"]

    run_session(partial(over_http, client), scenario)
    run_session(partial(over_http, client), resume)

    async def check_other(connected: McpClient) -> None:
        assert await list_titles(connected) == []

    with Client(str(client.base_url), client.desk) as other:
        run_session(partial(over_http, other), check_other)


def test_calls_that_come_at_once_share_the_first_plan(client: Client) -> None:
    async def scenario(connected: McpClient) -> None:
        await asyncio.gather(*(call(connected, "create_todo", items=[{"title": f"item {n}"}]) for n in range(6)))
        assert (await call(connected, "list_todo"))["summary"]["total"] == 6

    run_session(partial(over_http, client, {"Headway-Conversation": "a new key"}), scenario)
    assert len({todo["turn_id"] for todo in client.ok("GET", "/v1/todos")["todos"]}) == 1


def test_a_token_that_may_only_read_creates_nothing(client: Client) -> None:
    before = client.ok("GET", "/v1/conversations")["conversations"]

    async def scenario(connected: McpClient) -> None:
        assert (await call(connected, "todo_list"))["todos"] == []
        for tool in ("list_todo", "ListTasks"):
            with pytest.raises(MCPError, match="No conversation"):
                await connected.call_tool(tool, {})
        with pytest.raises(MCPError, match="may only read"):
            await connected.call_tool("create_todo", {"items": [{"title": "x"}]})

    with Client(str(client.base_url), client.desk) as reader:
        reader.secret = client.desk.write(tokens.create_token, "a reader", None, "read").secret
        run_session(partial(over_http, reader), scenario)
        run_session(partial(over_http, reader, {"Headway-Conversation": "not there"}), partial(refuse_all, match="No conversation"))
    assert client.ok("GET", "/v1/conversations")["conversations"] == before


async def refuse_all(connected: McpClient, match: str) -> None:
    for tool in ("todo_list", "ListTasks", "list_todo"):
        with pytest.raises(MCPError, match=match):
            await connected.call_tool(tool, {})
    with pytest.raises(MCPError, match=match):
        await read(connected, "open")


def test_the_ids_of_another_tenant_are_refused_and_its_keys_are_free(client: Client, service: Service) -> None:
    with service.tenant() as rival:
        conversation_id = rival.conversation(key="theirs")
        turn_id = rival.turn(conversation_id)
        theirs = rival.add("theirs", conversation_id=conversation_id)

        async def check_todo(connected: McpClient) -> None:
            with pytest.raises(MCPError, match="No todo"):
                await read(connected, str(theirs["id"]))
            refused = await connected.call_tool("todo_update", {"id": theirs["id"], "status": "completed"})
            assert refused.is_error

        for name, value in (
            ("Headway-Conversation", str(conversation_id)),
            ("Headway-Conversation", "987654321"),
            ("Headway-Turn", turn_id),
            ("Headway-Turn", "mine"),
        ):
            run_session(partial(over_http, client, {name: value}), partial(refuse_all, match=r"No (conversation|turn)"))
        run_session(partial(over_http, client), check_todo)
        assert [todo["status"] for todo in rival.ok("GET", "/v1/todos")["todos"]] == ["pending"]

        async def add(connected: McpClient) -> None:
            await call(connected, "todo_add", subject="mine")

        run_session(partial(over_http, client, {"Headway-Conversation": "theirs"}), add)
        assert [todo["subject"] for todo in rival.ok("GET", "/v1/todos")["todos"]] == ["theirs"]
    assert client.subjects() == ["mine"]

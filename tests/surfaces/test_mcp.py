"""The MCP server, tested with the official client over stdio and over HTTP."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents

from headway.ledger.errors import BadCursor
from tests.surfaces.server_harness import PATIENCE_S, Client, Service, check_problem
from tests.surfaces.shell import Shell, get_error_line
from tests.warm_start import build_command

Connect = Callable[..., AbstractAsyncContextManager[McpClient]]

CATALOGUE = [
    *("create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
    *("ListTasks", "AddTask", "CompleteTask", "UncompleteTask", "DeleteTask"),
    *("todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim"),
]


@asynccontextmanager
async def over_stdio(folder: Path, *flags: str, mode: str = "auto") -> AsyncIterator[McpClient]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    command, *arguments = build_command("-m", "headway", "mcp", *flags)
    server = StdioServerParameters(command=command, args=arguments, cwd=folder, env=env)
    async with McpClient(server, mode=mode, read_timeout_seconds=PATIENCE_S) as connected:
        yield connected


@asynccontextmanager
async def over_http(client: Client, headers: dict[str, str] | None = None, mode: str = "auto") -> AsyncIterator[McpClient]:
    all_headers = {"Authorization": f"Bearer {client.secret}", **(headers or {})}
    async with (
        httpx2.AsyncClient(headers=all_headers, timeout=PATIENCE_S) as http,
        McpClient(streamable_http_client(f"{client.base_url}/mcp", http_client=http), mode=mode) as connected,
    ):
        yield connected


def open_turn_headers(client: Client) -> dict[str, str]:
    """Open a turn in a new conversation. Return the headers that select it."""
    return {"Headway-Turn": client.turn(client.conversation())}


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Connect:
    """Each transport, with a turn whose plan the tools can use."""
    if request.param == "stdio":
        return partial(over_stdio, tmp_path)
    client: Client = request.getfixturevalue("sqlite_client")
    return partial(over_http, client, open_turn_headers(client))


def run_session(connect: Connect, scenario: Callable[[McpClient], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with connect(**options) as connected:
            await scenario(connected)

    asyncio.run(run())


async def call(connected: McpClient, tool: str, **arguments: Any) -> Any:
    """Call a tool, which must succeed. Return its structured result."""
    result = await connected.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    assert json.loads(text_of(result)) == result.structured_content, "clients that look no further read the same"
    return result.structured_content


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def read(connected: McpClient, name: str) -> Any:
    (content,) = (await connected.read_resource(f"headway://todos/{name}")).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)


# Both transports


def test_completing_an_item_runs_its_checks(connect: Connect) -> None:
    number = {"kind": "outcome", "schema": {"type": "integer"}}

    async def scenario(connected: McpClient) -> None:
        await call(connected, "create_todo", items=[{"title": "count", "checks": [number]}])
        (item,) = (await call(connected, "list_todo"))["items"]
        refused = await connected.call_tool("complete_todo", {"todoId": item["id"], "outcome": "many"})
        assert isinstance(refused, CallToolResult)
        assert refused.is_error
        assert "Check failed: outcome" in text_of(refused)
        await call(connected, "complete_todo", todoId=item["id"], outcome="7")
        todo = (await call(connected, "todo_add", subject="count again", checks=[number]))["todo"]
        done = await call(connected, "todo_update", id=todo["id"], status="completed", outcome="8")
        assert done["todo"]["proof"] == "proven"

    run_session(connect, scenario)


def test_null_is_absent_and_a_list_may_be_text(connect: Connect) -> None:
    """000: "context?: string", "order?: number": optional, and clients send null for omitted fields."""

    async def scenario(connected: McpClient) -> None:
        items = json.dumps([{"title": "look", "context": None, "order": None}])
        assert (await call(connected, "create_todo", items=items))["totalPending"] == 1
        assert len((await call(connected, "list_todo", status=None))["items"]) == 1

    run_session(connect, scenario)


def test_a_long_list_is_read_page_by_page(connect: Connect) -> None:
    async def scenario(connected: McpClient) -> None:
        for subject in ("first", "second", "third"):
            await call(connected, "todo_add", subject=subject)
        page = await call(connected, "todo_list", limit=2)
        assert [todo["subject"] for todo in page["todos"]] == ["first", "second"]
        rest = await call(connected, "todo_list", limit=2, cursor=page["next_cursor"])
        assert ([todo["subject"] for todo in rest["todos"]], rest["next_cursor"]) == (["third"], None)
        refused = await connected.call_tool("todo_list", {"cursor": "nonsense"})
        assert refused.is_error
        assert json.loads(text_of(refused)) == {"error": BadCursor.__doc__}

    run_session(connect, scenario)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_old_and_new_clients_find_the_whole_catalogue_and_it_is_small(connect: Connect, mode: str) -> None:
    async def scenario(connected: McpClient) -> None:
        assert connected.server_info is not None
        assert connected.server_info.name == "headway"
        assert "todo_add" in (connected.instructions or "")
        tools = (await connected.list_tools()).tools
        assert [tool.name for tool in tools] == CATALOGUE
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        document = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
        assert len(document) < 14_000
        # An upper bound for any tokenizer: one token per sign and one per six letters.
        assert len(re.findall(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]", document)) <= 3_000

    run_session(connect, scenario, mode=mode)


def test_every_family_of_tools_works(connect: Connect) -> None:
    async def scenario(connected: McpClient) -> None:
        look, _build = (await call(connected, "create_todo", items=[{"title": "look"}, {"title": "build"}]))["created"]
        await call(connected, "start_todo", todoId=look["id"])
        assert (await call(connected, "complete_todo", todoId=look["id"], outcome="seen"))["remaining"] == 1
        state = (await call(connected, "manage_todos", add=["check"]))["state"]
        assert [item["status"] for item in state["items"]] == ["done", "current", "pending"]
        written = await call(connected, "TodoWrite", todos=[{"content": "build", "status": "completed"}])
        assert [item["content"] for item in written["canceled"]] == ["check"]
        assert (await call(connected, "update_plan", plan=[{"step": "ship"}]))["todos"][0]["content"] == "ship"
        assert [item["title"] for item in (await call(connected, "list_todo"))["items"]] == ["ship"]

        task = await call(connected, "AddTask", title="look")
        assert await call(connected, "CompleteTask", taskId=task["id"]) == {"ok": True, "task": task | {"done": True}}
        assert await call(connected, "ListTasks") == {"tasks": [task | {"done": True}]}

        first = (await call(connected, "todo_add", subject="first"))["todo"]
        await call(connected, "todo_add", subject="second", depends_on=[first["id"]])
        assert [todo["subject"] for todo in (await call(connected, "todo_ready"))["todos"]] == ["first"]
        claim = await call(connected, "todo_claim")
        ended = await call(
            connected, "todo_update", id=first["id"], status="completed", outcome="seen", lease_token=claim["lease"]["token"]
        )
        assert (ended["todo"]["status"], ended["todo"]["outcome"]) == ("completed", "seen")
        todos = (await call(connected, "todo_list"))["todos"]
        assert {"second"} <= {todo["subject"] for todo in todos}

    run_session(connect, scenario)


def test_names_with_hyphens_are_understood(connect: Connect) -> None:
    """004: "`spawn-agent` is a registered ToolDefinition": tools are called with hyphens in their names there."""

    async def scenario(connected: McpClient) -> None:
        added = await call(connected, "todo-add", subject="look")
        assert added["todo"]["subject"] == "look"

    run_session(connect, scenario)


def test_the_open_and_the_ready_todos_and_each_one_are_resources(connect: Connect) -> None:
    async def scenario(connected: McpClient) -> None:
        first = (await call(connected, "todo_add", subject="first"))["todo"]
        await call(connected, "todo_add", subject="second", depends_on=[first["id"]])

        resources = (await connected.list_resources()).resources
        assert [str(resource.uri) for resource in resources] == ["headway://todos/open", "headway://todos/ready"]
        templates = (await connected.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["headway://todos/{id}"]
        assert [todo["subject"] for todo in (await read(connected, "open"))["todos"]] == ["first", "second"]
        assert [todo["subject"] for todo in (await read(connected, "ready"))["todos"]] == ["first"]
        assert await read(connected, str(first["id"])) == {"todo": first}
        for unknown in ("987654321", "9" * 30, "closed", "", "../open"):
            with pytest.raises(MCPError):
                await read(connected, unknown)
        with pytest.raises(MCPError, match="no resource"):
            await connected.read_resource("file:///etc/passwd")

    run_session(connect, scenario)


def test_there_is_a_prompt_for_planning(sqlite_client: Client) -> None:
    async def scenario(connected: McpClient) -> None:
        (prompt,) = (await connected.list_prompts()).prompts
        assert (prompt.name, [argument.name for argument in prompt.arguments or ()]) == ("plan", ["objective"])
        (message,) = (await connected.get_prompt("plan", {"objective": "win {the} game"})).messages
        assert isinstance(message.content, TextContent)
        assert "win {the} game" in message.content.text
        assert "create_todo" in message.content.text
        for name, arguments in (("plan", None), ("plan", {"objective": " "}), ("dance", {"objective": "win"})):
            with pytest.raises(MCPError, match="objective"):
                await connected.get_prompt(name, arguments)

    run_session(partial(over_http, sqlite_client), scenario)


def test_a_refusal_is_an_error_result_and_an_unknown_tool_an_error(sqlite_client: Client) -> None:
    async def scenario(connected: McpClient) -> None:
        refused = await connected.call_tool("create_todo", {"items": []})
        assert refused.is_error
        assert "items" in refused.structured_content["error"]
        assert json.loads(text_of(refused)) == refused.structured_content
        missing = await connected.call_tool("CompleteTask", {"taskId": "1"})
        assert missing.is_error
        assert missing.structured_content == {"ok": False, "error": "Task not found"}
        wrong = await connected.call_tool("AddTask", {"title": " "})
        assert wrong.is_error
        assert text_of(wrong).startswith("Error: ")
        with pytest.raises(MCPError, match="rm_rf"):
            await connected.call_tool("rm_rf", {})
        assert (await call(connected, "list_todo"))["items"] == []

    run_session(partial(over_http, sqlite_client, open_turn_headers(sqlite_client)), scenario)


# stdio


def test_todos_written_over_stdio_show_on_the_command_line(headway: Shell) -> None:
    async def scenario(connected: McpClient) -> None:
        await call(connected, "todo_add", subject="written down")
        await call(connected, "create_todo", items=[{"title": "planned"}])

    run_session(partial(over_stdio, headway.folder, "--agent", "claude"), scenario)
    rows = {todo["subject"]: todo for todo in headway.json("todo", "list")["todos"]}
    assert (rows["written down"]["conversation_id"], rows["written down"]["agent_id"]) == (0, "claude")
    assert rows["planned"]["turn_id"]

    async def resume(connected: McpClient) -> None:
        (item,) = (await call(connected, "list_todo"))["items"]
        await call(connected, "complete_todo", todoId=item["id"], outcome="done")

    run_session(partial(over_stdio, headway.folder, "--turn", rows["planned"]["turn_id"]), resume)
    assert headway.json("todo", "show", str(rows["planned"]["id"]))["todo"]["outcome"] == "done"


def test_each_session_has_one_plan_however_many_calls_come_at_once_and_all_have_one_ledger(tmp_path: Path) -> None:
    async def run() -> None:
        async with over_stdio(tmp_path) as first, over_stdio(tmp_path) as other:
            await asyncio.gather(*(call(first, "create_todo", items=[{"title": f"item {n}"}]) for n in range(6)))
            await call(first, "todo_add", subject="everybody's")
            assert (await call(first, "list_todo"))["summary"]["total"] == 6
            assert (await call(other, "list_todo"))["items"] == []
            assert "everybody's" in [todo["subject"] for todo in (await call(other, "todo_list"))["todos"]]

    asyncio.run(run())


def test_a_session_started_in_a_conversation_works_in_it(headway: Shell) -> None:
    for flag in ("--conversation", "--turn"):
        assert "'nowhere'" in get_error_line(headway("mcp", flag, "nowhere"), 3)
    document = {"conversations": [{"id": 1, "key": "a thread"}], "todos": [{"subject": "theirs", "conversation_id": 1}]}
    headway.ok("todo", "import", "-", "--format", "json", stdin=json.dumps(document))

    async def scenario(connected: McpClient) -> None:
        assert [todo["subject"] for todo in (await read(connected, "open"))["todos"]] == ["theirs"]
        await call(connected, "todo_add", subject="added")
        await call(connected, "AddTask", title="look")

    run_session(partial(over_stdio, headway.folder, "--conversation", "a thread"), scenario)
    todos = headway.json("todo", "list", "--conversation", "a thread")["todos"]
    assert [todo["subject"] for todo in todos] == ["theirs", "added"]
    (conversation,) = headway.json("conversation", "list")["conversations"]
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


def test_without_headers_the_ledger_is_the_tenants_and_there_is_no_plan_and_no_task_list(client: Client) -> None:
    client.add("elsewhere", conversation_id=client.conversation())

    async def scenario(connected: McpClient) -> None:
        assert (await call(connected, "todo_add", subject="wide"))["todo"]["conversation_id"] == 0
        assert [todo["subject"] for todo in (await read(connected, "open"))["todos"]] == ["elsewhere", "wide"]
        plan = await connected.call_tool("create_todo", {"items": [{"title": "x"}]})
        assert (plan.is_error, plan.structured_content) == (True, {"error": "Missing execution context"})
        tasks = await connected.call_tool("AddTask", {"title": "x"})
        assert tasks.is_error
        assert text_of(tasks) == "Error: Task list is not available (no conversation context)."

    run_session(partial(over_http, client), scenario)


def test_an_unknown_or_foreign_conversation_is_refused_and_nothing_changes(client: Client, service: Service) -> None:
    with service.tenant() as rival:
        conversation_id = rival.conversation(key="theirs")
        turn_id = rival.turn(conversation_id)
        theirs = rival.add("theirs", conversation_id=conversation_id)

        async def scenario(connected: McpClient) -> None:
            for tool, arguments in (("todo_add", {"subject": "x"}), ("AddTask", {"title": "x"}), ("list_todo", {})):
                with pytest.raises(MCPError, match=r"No (conversation|turn)"):
                    await connected.call_tool(tool, arguments)
            with pytest.raises(MCPError, match=r"No (conversation|turn)"):
                await read(connected, "open")

        async def check_todo(connected: McpClient) -> None:
            with pytest.raises(MCPError, match="No todo"):
                await read(connected, str(theirs["id"]))
            refused = await connected.call_tool("todo_update", {"id": theirs["id"], "status": "completed"})
            assert refused.is_error

        for name, value in (
            ("Headway-Conversation", str(conversation_id)),
            ("Headway-Conversation", "theirs"),
            ("Headway-Conversation", "987654321"),
            ("Headway-Turn", turn_id),
            ("Headway-Turn", "mine"),
        ):
            run_session(partial(over_http, client, {name: value}), scenario)
        run_session(partial(over_http, client), check_todo)
        assert [todo["status"] for todo in rival.ok("GET", "/v1/todos")["todos"]] == ["pending"]
    assert client.subjects() == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("header", [None, "Bearer hw_nobody", "Basic x"])
def test_a_bad_token_is_refused(sqlite_client: Client, method: str, header: str | None) -> None:
    request = sqlite_client.build_request(method, "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    del request.headers["authorization"]
    if header:
        request.headers["authorization"] = header

    answer = sqlite_client.send(request)
    check_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_there_is_no_stream_to_listen_to(sqlite_client: Client) -> None:
    answer = sqlite_client.get("/mcp", headers={"Accept": "text/event-stream"})

    check_problem(answer, 405, "no_stream")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"garbage", 400), (b"[]", 400), (b'{"id": 1}', 400), (b"x" * (1024 * 1024 + 1), 413), (rb'{"method": "\ud800"}', 400)],
)
def test_input_outside_the_protocol_is_refused(sqlite_client: Client, body: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    assert sqlite_client.post("/mcp", content=body, headers=headers).status_code == status


def test_tenants_at_the_same_time_each_see_their_own(sqlite_service: Service) -> None:
    async def work(client: Client, name: str) -> None:
        async with over_http(client, open_turn_headers(client)) as connected:
            for n in range(3):
                await call(connected, "create_todo", items=[{"title": f"{name} {n}"}])
            titles = [item["title"] for item in (await call(connected, "list_todo"))["items"]]
            assert titles == [f"{name} {n}" for n in range(3)]

    async def run_all(clients: list[Client]) -> None:
        await asyncio.gather(*(work(client, f"tenant {n}") for n, client in enumerate(clients)))

    with sqlite_service.tenant() as one, sqlite_service.tenant() as two, sqlite_service.tenant() as three:
        asyncio.run(run_all([one, two, three]))
        assert two.subjects() == [f"tenant 1 {n}" for n in range(3)]

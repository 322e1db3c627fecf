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
from tests.tables import each_row
from tests.warm_start import build_command

Connect = Callable[..., AbstractAsyncContextManager[McpClient]]

CATALOGUE = [
    *("create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos", "write_todos", "TodoWrite", "update_plan"),
    *("ListTasks", "AddTask", "CompleteTask", "UncompleteTask", "DeleteTask"),
    *("todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim"),
]


@asynccontextmanager
async def over_stdio(folder: Path, *flags: str, mode: str = "auto", tools: str = "all") -> AsyncIterator[McpClient]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    command, *arguments = build_command("-m", "headway", "mcp", "--tools", tools, *flags)
    server = StdioServerParameters(command=command, args=arguments, cwd=folder, env=env)
    async with McpClient(server, mode=mode, read_timeout_seconds=PATIENCE_S) as connected:
        yield connected


@asynccontextmanager
async def over_http(
    client: Client, headers: dict[str, str] | None = None, mode: str = "auto", tools: str = "all"
) -> AsyncIterator[McpClient]:
    all_headers = {"Authorization": f"Bearer {client.secret}", **(headers or {})}
    async with (
        httpx2.AsyncClient(headers=all_headers, timeout=PATIENCE_S) as http,
        McpClient(streamable_http_client(f"{client.base_url}/mcp?tools={tools}", http_client=http), mode=mode) as connected,
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


def test_results_have_the_fields_that_a_todo_uses(connect: Connect) -> None:
    async def scenario(connected: McpClient) -> None:
        urgent = await call(connected, "todo_add", subject="pay", priority="urgent", due="2026-12-01", labels=["home"])
        assert (urgent["todo"]["priority"], urgent["todo"]["labels"]) == ("urgent", ["home"])
        plain = await call(connected, "todo_add", subject="walk")
        assert {"priority", "due", "labels"} & plain["todo"].keys() == set()
        assert [todo.get("priority") for todo in (await call(connected, "todo_list", priority="urgent"))["todos"]] == ["urgent"]

    run_session(connect, scenario)


def test_a_long_list_is_read_page_by_page(connect: Connect) -> None:
    async def scenario(connected: McpClient) -> None:
        for subject in ("first", "second", "third"):
            await call(connected, "todo_add", subject=subject)
        page = await call(connected, "todo_list", limit=2)
        assert [todo["subject"] for todo in page["todos"]] == ["first", "second"]
        rest = await call(connected, "todo_list", limit=2, cursor=page["next_cursor"])
        assert ([todo["subject"] for todo in rest["todos"]], "next_cursor" in rest) == (["third"], False)
        refused = await connected.call_tool("todo_list", {"cursor": "nonsense"})
        assert refused.is_error
        assert json.loads(text_of(refused)) == {"error": BadCursor.__doc__}

    run_session(connect, scenario)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_old_and_new_clients_find_the_whole_catalogue_and_it_is_small(connect: Connect, mode: str) -> None:
    async def scenario(connected: McpClient) -> None:
        assert connected.server_info is not None
        assert connected.server_info.name == "headway"
        tools = (await connected.list_tools()).tools
        assert [tool.name for tool in tools] == CATALOGUE
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        assert all(tool.title and tool.output_schema and tool.annotations for tool in tools)
        for schema in [tool.input_schema for tool in tools]:
            optional = [schema["properties"][name] for name in schema["properties"].keys() - set(schema.get("required", ()))]
            assert all(argument["nullable"] and argument["type"] for argument in optional), "smolagents needs both"
        document = json.dumps([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
        assert len(document) < 15_500
        assert '"type": [' not in document, "some clients do not understand several types"
        # What models get. An upper bound for any tokenizer: one token per sign and one per six letters.
        shown = json.dumps([[tool.name, tool.description, tool.input_schema] for tool in tools])
        assert len(re.findall(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]", shown)) <= 3_400

    run_session(connect, scenario, mode=mode)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_default_is_the_ledger_and_the_plan_and_the_instructions_name_nothing_else(connect: Connect, mode: str) -> None:
    async def scenario(connected: McpClient, names: set[str]) -> None:
        tools = {tool.name: tool for tool in (await connected.list_tools()).tools}
        assert tools.keys() == names
        assert {name for name in CATALOGUE if re.search(rf"\b{name}\b", connected.instructions or "")} <= names
        assert bool((await connected.list_prompts()).prompts) == ("create_todo" in names)
        with pytest.raises(MCPError, match="TodoWrite is not offered"):
            await connected.call_tool("TodoWrite", {"todos": []})
        hints = {name: tool.annotations for name, tool in tools.items() if tool.annotations}
        assert all(hint.open_world_hint is False and hint.destructive_hint is False for hint in hints.values())
        reading = {name for name, hint in hints.items() if hint.read_only_hint}
        assert reading == names & {"todo_list", "todo_ready", "list_todo"}

    ledger = {"todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim"}
    plan = {"create_todo", "list_todo", "start_todo", "complete_todo"}
    run_session(connect, partial(scenario, names=ledger | plan), mode=mode, tools="ledger,plan")
    run_session(connect, partial(scenario, names=ledger), mode=mode, tools="ledger")


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
        second = (await call(connected, "todo_add", subject="second", depends_on=[first["id"]]))["todo"]

        resources = {str(resource.uri): resource.title for resource in (await connected.list_resources()).resources}
        second_uri = f"headway://todos/{second['id']}"
        assert list(resources) == ["headway://todos/open", "headway://todos/ready", f"headway://todos/{first['id']}", second_uri]
        assert resources[second_uri] == "second"
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
        words = await connected.call_tool("todo_add", {"subject": "x", "depends_on": 5, "checks": [7]})
        assert words.structured_content == {
            "error": "Invalid arguments: depends_on: Input should be a list; checks[0]: Input should be an object"
        }
        with pytest.raises(MCPError, match="rm_rf"):
            await connected.call_tool("rm_rf", {})
        assert (await call(connected, "list_todo"))["items"] == []

    run_session(partial(over_http, sqlite_client, open_turn_headers(sqlite_client)), scenario)


# HTTP


@each_row("method", ["GET", "POST", "DELETE"])
@each_row("header", [None, "Bearer hw_nobody", "Basic x"])
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


def test_an_unknown_group_of_tools_is_named(sqlite_client: Client) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    check_problem(sqlite_client.post("/mcp?tools=ledger,nothing", json=body), 422, "invalid")


@pytest.mark.parametrize(("body", "code"), [(b"garbage", -32700), (b"[]", -32600), (b'{"id": NaN', -32700), (b'{"id": 1}', -32600)])
def test_what_is_not_one_message_gets_the_code_of_json_rpc(sqlite_client: Client, body: bytes, code: int) -> None:
    answer = sqlite_client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (400, code, None)


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

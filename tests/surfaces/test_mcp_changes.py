"""MCP clients are told about changed resources, whoever changed them."""

import asyncio
import json
import subprocess
from functools import partial

import pytest
from mcp import Client as McpClient
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from headway.actions.access import tokens
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell
from tests.surfaces.test_mcp import call, over_http, over_stdio, run_session
from tests.surfaces.test_mcp_start import build_opening, build_request
from tests.warm_start import build_command

OPEN = "headway://todos/open"


async def collect_until(listening: object, last: ServerEvent) -> set[ServerEvent]:
    events: set[ServerEvent] = set()
    async for event in listening:  # type: ignore[attr-defined]
        events.add(event)
        if event == last:
            break
    return events


def test_a_stream_over_http_tells_of_the_tenants_changes_and_ends_with_its_token(client: Client, service: Service) -> None:
    """Only of its own tenant, and only of what it has asked for."""

    async def scenario(connected: McpClient) -> None:
        todo = client.add("first")
        uri = f"headway://todos/{todo['id']}"
        async with connected.listen(resources_list_changed=True, resource_subscriptions=[OPEN, uri]) as listening:
            with service.tenant() as rival:
                rival.add("theirs")
            client.change(todo, status="in_progress")
            expected = {ResourcesListChanged(), ResourceUpdated(OPEN), ResourceUpdated(uri)}
            assert await collect_until(listening, ResourceUpdated(uri)) == expected
            client.desk.write(tokens.revoke, listener.token_id)
            client.change(todo, status="completed")
            assert [event async for event in listening] == []

    with Client(str(client.base_url), client.desk) as listener:
        run_session(partial(over_http, listener), scenario)


def test_a_stream_over_stdio_tells_of_changes_of_other_processes(headway: Shell) -> None:
    async def scenario(connected: McpClient) -> None:
        await call(connected, "todo_list")
        async with connected.listen(resource_subscriptions=[OPEN]) as listening:
            await asyncio.to_thread(headway.process, "todo", "add", "by somebody else")
            assert await collect_until(listening, ResourceUpdated(OPEN)) == {ResourceUpdated(OPEN)}

    run_session(partial(over_stdio, headway.folder), scenario)


def test_a_client_of_an_older_protocol_hears_of_what_it_has_listed_and_subscribed_to(headway: Shell) -> None:
    """It listed the resources before the server was loaded."""
    lines = [*build_opening("2025-11-25"), build_request(8, "resources/subscribe", uri=OPEN)]
    with subprocess.Popen(
        build_command("-m", "headway", "mcp"), cwd=headway.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
        server.stdin.flush()
        messages = map(json.loads, server.stdout)
        next(message for message in messages if message.get("id") == 8)
        headway.ok("todo", "add", "by somebody else")
        notifications = [next(messages), next(messages)]
        server.stdin.close()
    assert [message["method"] for message in notifications] == [
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    ]
    assert notifications[1]["params"]["uri"] == OPEN
    assert server.returncode == 0


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost.evil.example:80", "null", "http://127.0.0.1@evil.example"]
)
def test_pages_of_other_hosts_are_refused(sqlite_client: Client, origin: str) -> None:
    """DNS rebinding: a page makes a name of its own resolve to this machine."""
    body = build_request(1, "ping")
    headers = {"Accept": "application/json, text/event-stream"}
    assert sqlite_client.post("/mcp", json=body, headers={**headers, "Origin": origin}).status_code == 403
    for own in ("http://localhost:3000", "http://127.0.0.1:8484", "http://[::1]:8484"):
        assert sqlite_client.post("/mcp", json=body, headers={**headers, "Origin": own}).status_code == 200

"""REST, tools, MCP, the CLI, writs and the delegation envelope all return the same open todos of a conversation."""

import asyncio
from typing import Any

from headway.agents import delegation
from headway.ledger.scope import Scope
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell
from tests.surfaces.test_mcp import call, over_http


class Thread:
    """A conversation with todos of every kind of list. Part of the plan of its turn is open."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.id = client.conversation()
        self.turn = client.turn(self.id)
        client.add("tenant-wide")
        client.add("of the conversation", conversation_id=self.id)
        client.add("of another conversation", conversation_id=client.conversation())
        done, going, _ = (client.add(word, turn_id=self.turn) for word in ("mixed", "baking", "to be iced"))
        client.change(going, status="in_progress")
        client.change(done, status="completed")

    def stop(self) -> None:
        self.client.ok("POST", f"/v1/turns/{self.turn}/cancel")

    def lines(self) -> list[str]:
        """Return the lines that `/todo list` prints."""
        body = {"text": "/todo list", "conversation_id": self.id}
        output: str = self.client.ok("POST", "/v1/writs", json=body)["output"]
        head, *lines, end = output.split("\n")
        assert (head, end) == ("[/todo list]", "[END TODO]")
        return lines

    def rest(self) -> list[dict[str, Any]]:
        everything = self.client.ok("GET", "/v1/todos", params={"conversation_id": self.id, "limit": 500})["todos"]
        return [todo for todo in everything if todo["status"] in ("in_progress", "pending")]


def as_lines(todos: list[dict[str, Any]]) -> list[str]:
    """Format rows of the REST API as `/todo list` prints them, with the counts."""
    going = sum(todo["status"] == "in_progress" for todo in todos)
    marks = {"in_progress": "▶ ", "pending": ""}
    return [
        f"{len(todos)} open ({going} in progress, {len(todos) - going} pending):",
        *(
            f"{marks[todo['status']]}#{todo['id']} [{todo['status']}] {todo['subject']}"
            + ("" if todo["conversation_id"] else " (tenant-wide)")
            for todo in todos
        ),
    ]


def test_a_writ_and_rest_give_the_same_open_list_while_a_turn_runs_and_after_it_stopped(client: Client) -> None:
    """000: "Remaining items stay as `pending` or `in_progress` in the DB (no auto-cancellation)." and 001: "The todo lives with the
    thread; a tenant browsing the conversation sees the same list the agent did."."""
    thread = Thread(client)
    assert thread.lines() == as_lines(thread.rest())
    assert [todo["subject"] for todo in thread.rest()] == ["baking", "of the conversation", "to be iced", "tenant-wide"]

    thread.stop()
    assert client.ok("GET", f"/v1/turns/{thread.turn}")["turn"]["status"] == "canceled"
    assert thread.lines() == as_lines(thread.rest())
    assert len(thread.rest()) == 4


def test_a_later_run_takes_up_items_that_a_turn_left_open(client: Client) -> None:
    """001: "the tenant's todo store outlives any single conversation, so a /schedule-fired run can pick up the same todos a
    human-driven turn left behind."."""
    thread = Thread(client)
    thread.stop()
    going, _, left, _ = thread.rest()
    text = f"/todo done {going['id']}\n/todo start to be iced"
    client.ok("POST", "/v1/writs", json={"text": text, "conversation_id": thread.id})

    assert client.ok("GET", f"/v1/todos/{going['id']}")["todo"]["status"] == "completed"
    assert thread.lines()[1] == f"▶ #{left['id']} [in_progress] to be iced"


def test_tools_mcp_the_command_line_and_the_envelope_give_that_list_too(client: Client, service: Service, headway: Shell) -> None:
    """001: "a tenant browsing the conversation sees the same list the agent did" and "the runtime probes the todo store for the
    calling conversation's open todos"."""
    thread = Thread(client)
    thread.stop()
    body = {"arguments": {}, "conversation_id": thread.id}
    assert client.ok("POST", "/v1/tools/todo_list", json=body)["result"]["todos"] == thread.rest()

    async def over_mcp() -> Any:
        async with over_http(client, {"Headway-Conversation": str(thread.id)}) as connected:
            return await call(connected, "todo_list")

    for shown, todo in zip(asyncio.run(over_mcp())["todos"], thread.rest(), strict=True):
        assert shown.items() <= todo.items(), "MCP leaves out empty fields"
        assert {"id", "subject", "status"} <= shown.keys()

    scope = ("--tenant", client.desk.tenant.name, "--conversation", str(thread.id), "--database-url", service.database_url)
    assert headway.json("todo", "list", *scope)["todos"] == thread.rest()

    of_thread = Scope(client.desk.tenant.id, thread.id)
    hint, *lines = client.desk.database.read(lambda tx: delegation.render_open_todos(tx, of_thread))
    assert hint == "Open todos (mark progress as you go — /todo start <id>, /todo done <id>):"
    assert lines == thread.lines()

"""/v1/tools and /v1/writs: the agents' tools and writs for any framework, called on a real server."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headway.storage.transaction import Transaction
from tests.surfaces.event_stream import open_stream
from tests.surfaces.in_process_app import open_app
from tests.surfaces.server_harness import Client, Service
from tests.tables import each_row

NO_CONVERSATION = "Error: Task list is not available (no conversation context)."
UNKNOWN_TURN = "0c0ffee0-0000-4000-8000-000000000000"


def call(client: Client, tool: str, arguments: Any = None, **where: Any) -> tuple[Any, bool]:
    """Call a tool. Return its result and whether it is an error."""
    answer = client.ok("POST", f"/v1/tools/{tool}", json={"arguments": arguments or {}, **where})
    assert set(answer) == {"result", "is_error"}
    return answer["result"], answer["is_error"]


def run_writs(client: Client, text: str, **where: Any) -> dict[str, str]:
    answer: dict[str, str] = client.ok("POST", "/v1/writs", json={"text": text, **where})
    assert set(answer) == {"output", "visible"}
    return answer


def create_plan(client: Client, turn_id: str, *titles: str) -> list[dict[str, Any]]:
    result, is_error = call(client, "create_todo", {"items": [{"title": title} for title in titles]}, turn_id=turn_id)
    assert not is_error, result
    created: list[dict[str, Any]] = result["created"]
    return created


# The catalogue


def test_the_catalogue_has_every_tool_with_its_schema(sqlite_client: Client) -> None:
    tools = sqlite_client.ok("GET", "/v1/tools")["tools"]

    assert all(set(tool) == {"name", "description", "input_schema"} for tool in tools)
    assert all(tool["input_schema"]["additionalProperties"] is False for tool in tools)
    assert {tool["name"] for tool in tools} >= {
        *("create_todo", "list_todo", "start_todo", "complete_todo", "manage_todos"),
        *("ListTasks", "AddTask", "CompleteTask", "UncompleteTask", "DeleteTask"),
        *("write_todos", "TodoWrite", "update_plan"),
        *("todo_add", "todo_list", "todo_update", "todo_ready", "todo_claim"),
    }
    assert len(json.dumps(tools)) < 14_000


# Every family


def test_a_turn_is_planned_and_drained_and_visible_on_every_surface(client: Client) -> None:
    turn_id = client.turn(client.conversation())
    assert client.ok("GET", f"/v1/turns/{turn_id}")["turn"]["plan_source"] is None
    look, build = create_plan(client, turn_id, "look", "build")
    assert (look["order"], build["order"]) == (1, 2)
    assert client.ok("GET", f"/v1/turns/{turn_id}")["turn"]["plan_source"] == "agent"

    started, _ = call(client, "start_todo", {"todoId": look["id"]}, turn_id=turn_id)
    assert started["status"] == "in_progress"
    assert [item["title"] for item in client.ok("GET", f"/v1/turns/{turn_id}")["turn"]["incomplete"]] == ["look", "build"]
    ended, _ = call(client, "complete_todo", {"todoId": look["id"], "outcome": "seen"}, turn_id=turn_id)
    assert (ended["status"], ended["remaining"]) == ("completed", 1)

    state = call(client, "manage_todos", {}, turn_id=turn_id)[0]["state"]
    assert [(item["description"], item["status"]) for item in state["items"]] == [("look", "done"), ("build", "current")]
    rows = client.ok("GET", "/v1/todos", params={"turn_id": turn_id})["todos"]
    assert [(row["subject"], row["status"], row["outcome"], row["completed_by"]) for row in rows] == [
        ("build", "pending", None, None),
        ("look", "completed", "seen", "agent"),
    ]
    assert {row["id"] for row in rows} == {item["id"] for item in state["items"]}


def test_what_a_person_plans_and_what_an_agent_completes_are_told_apart(client: Client) -> None:
    conversation_id = client.conversation()
    turn_id = client.turn(conversation_id)
    mine = client.add("mine", turn_id=turn_id)
    create_plan(client, turn_id, "theirs")
    assert client.ok("GET", f"/v1/turns/{turn_id}")["turn"]["plan_source"] == "person"

    assert client.change(mine, status="completed")["completed_by"] == "person"
    assert client.change(mine, status="pending")["completed_by"] is None
    run_writs(client, f"/todo done {mine['id']}", conversation_id=conversation_id)
    call(client, "TodoWrite", {"todos": [{"content": "theirs", "status": "completed"}]}, turn_id=turn_id)
    rows = client.ok("GET", "/v1/todos", params={"turn_id": turn_id})["todos"]
    assert {row["subject"]: row["completed_by"] for row in rows} == {"mine": "agent", "theirs": "agent"}


def test_a_conversation_keeps_its_task_list_on_the_server(client: Client) -> None:
    conversation_id = client.conversation()
    task, _ = call(client, "AddTask", {"title": "look"}, conversation_id=conversation_id)

    assert task == {"id": "1", "title": "look", "description": "", "done": False}
    assert call(client, "CompleteTask", {"taskId": "1"}, conversation_id=conversation_id) == (
        {"ok": True, "task": task | {"done": True}},
        False,
    )
    assert call(client, "ListTasks", {}, turn_id=client.turn(conversation_id)) == ({"tasks": [task | {"done": True}]}, False)
    assert call(client, "ListTasks", {}, conversation_id=client.conversation()) == ({"tasks": []}, False)
    assert call(client, "DeleteTask", {"taskId": "1"}, conversation_id=conversation_id) == ({"ok": True}, False)


def test_ledger_tools_return_the_documents_of_the_http_api(client: Client) -> None:
    conversation_id = client.conversation()
    added, _ = call(client, "todo_add", {"subject": "look"}, conversation_id=conversation_id, agent_id="ada")

    todo = added["todo"]
    assert (todo["conversation_id"], todo["agent_id"]) == (conversation_id, "ada")
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == todo
    result, _ = call(client, "todo_list", {}, conversation_id=conversation_id)
    page = client.ok("GET", "/v1/todos", params={"conversation_id": conversation_id})
    assert result == {name: page[name] for name in ("todos", "next_cursor")}
    claim, _ = call(client, "todo_claim", {}, conversation_id=conversation_id, agent_id="grace")
    assert claim["todo"]["agent_id"] == "grace"
    changed = client.change(todo, status="completed", lease_token=claim["lease"]["token"])
    assert changed["status"] == "completed"


def test_the_drop_in_shapes_work_on_the_same_rows(client: Client) -> None:
    turn_id = client.turn(client.conversation())
    create_plan(client, turn_id, "look", "build")
    written, _ = call(client, "TodoWrite", {"todos": [{"content": "build", "status": "in_progress"}]}, turn_id=turn_id)

    assert [item["content"] for item in written["canceled"]] == ["look"]
    assert client.subjects(turn_id=turn_id, status="in_progress") == ["build"]


def test_names_with_hyphens_are_understood_and_not_listed(client: Client) -> None:
    """004: "`spawn-agent` is a registered ToolDefinition": tools are called with hyphens in their names there."""
    added, is_error = call(client, "todo-add", {"subject": "look"})
    assert (added["todo"]["subject"], is_error) == ("look", False)
    assert not any("-" in tool["name"] for tool in client.ok("GET", "/v1/tools")["tools"])
    for name in ("spawn-agent", "spawn_agent"):  # only agents that run in Headway may start others
        client.refused("POST", f"/v1/tools/{name}", 404, "not_found", json={"arguments": {"task": "dig"}})


# Refusals returned as results


@pytest.mark.parametrize(
    ("tool", "arguments", "result"),
    [
        ("create_todo", {"items": [{"title": "look"}]}, {"error": "Missing execution context"}),
        ("manage_todos", {"add": ["look"]}, {"error": "Missing execution context"}),
        ("write_todos", {"todos": []}, {"error": "Missing execution context"}),
        ("AddTask", {"title": "look"}, NO_CONVERSATION),
        ("todo_update", {"id": 987_654_321}, {"error": "No todo 987654321."}),
    ],
)
def test_a_refusal_of_a_tool_is_a_result_with_is_error(sqlite_client: Client, tool: str, arguments: Any, result: Any) -> None:
    assert call(sqlite_client, tool, arguments) == (result, True)
    assert sqlite_client.subjects() == []


def test_a_task_that_is_not_there_is_an_error_result(sqlite_client: Client) -> None:
    result = call(sqlite_client, "CompleteTask", {"taskId": "1"}, conversation_id=sqlite_client.conversation())

    assert result == ({"ok": False, "error": "Task not found"}, True)


@each_row(
    ("tool", "arguments", "named"),
    [
        ("create_todo", {}, "items"),
        ("create_todo", {"items": []}, "items"),
        ("create_todo", {"items": [{"title": "look", "order": 0}]}, "order"),
        ("complete_todo", {"todoId": UNKNOWN_TURN}, "outcome"),
        ("complete_todo", {"todoId": UNKNOWN_TURN, "outcome": "seen"}, "not found"),
        ("todo_add", {"subject": "look", "conversation_id": 7}, "conversation_id"),
        ("todo_add", {"subject": "NUL \0"}, "NUL"),
        ("todo_update", {"id": 2**63}, "id"),
    ],
)
def test_arguments_that_do_not_fit_are_a_result_that_says_which(
    sqlite_client: Client, tool: str, arguments: Any, named: str
) -> None:
    result, is_error = call(sqlite_client, tool, arguments, turn_id=sqlite_client.turn(sqlite_client.conversation()))

    assert is_error
    assert named in result["error"]
    assert sqlite_client.subjects() == []


def test_a_worker_learns_that_the_plan_belongs_to_the_supervisor(sqlite_client: Client) -> None:
    turn_id = sqlite_client.turn(sqlite_client.conversation())
    items = {"items": [{"title": "look"}]}
    result, is_error = call(sqlite_client, "create_todo", items, turn_id=turn_id, role="coder")

    assert is_error
    assert "supervisor" in result["error"]
    for role in ("supervisor", "index"):
        assert call(sqlite_client, "create_todo", items, turn_id=turn_id, role=role)[1] is False


# Refused requests


def test_an_unknown_tool_is_404_and_an_unknown_role_422_with_the_known_ones(sqlite_client: Client) -> None:
    for tool in (
        "rm_rf",
        "run_command",
        "http_get",
        "write_file",
        "delegate",
        "set_goal",
    ):  # tools reserved for agents are unknown over HTTP
        assert "create_todo" in sqlite_client.refused("POST", f"/v1/tools/{tool}", 404, "not_found", json={})
    for path, body in (("/v1/tools/todo_list", {}), ("/v1/writs", {"text": "/todo list"})):
        detail = sqlite_client.refused("POST", path, 422, "unknown_role", json={**body, "role": "plumber"})
        assert all(name in detail for name in ("index", "researcher", "coder", "writer", "reviewer"))


@each_row(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"arguments": []}',
        b'{"arguments": {}, "tenant_id": 1}',
        b'{"conversation_id": "1"}',
        b'{"conversation_id": -1}',
        b'{"conversation_id": 9223372036854775808}',
        b'{"turn_id": ""}',
        b'{"agent_id": 5}',
        b'{"arguments": {"subject": "\\ud800"}}',
        b'{"arguments": {"subject": "look", "depends_on": [NaN]}}',
    ],
)
def test_a_body_that_does_not_fit_is_400_or_422(sqlite_client: Client, body: bytes) -> None:
    answer = sqlite_client.post("/v1/tools/todo_add", content=body, headers={"Content-Type": "application/json"})

    if answer.status_code == 200:  # arguments are validated by the tool, which returns an error result
        assert answer.json()["is_error"] is True
    else:
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
    assert sqlite_client.subjects() == []


@pytest.mark.parametrize("path", ["/v1/tools/todo_add", "/v1/tools/create_todo", "/v1/tools/AddTask", "/v1/writs"])
def test_an_unknown_or_foreign_conversation_is_404_and_nothing_changes(client: Client, service: Service, path: str) -> None:
    arguments = {"todo_add": {"subject": "x"}, "create_todo": {"items": [{"title": "x"}]}, "AddTask": {"title": "x"}}
    tool = path.rpartition("/")[2]
    body: dict[str, Any] = {"arguments": arguments[tool]} if tool in arguments else {"text": "/todo add x"}
    with service.tenant() as rival:
        theirs = rival.conversation()
        turn_id = rival.turn(theirs)
        for conversation_id in (theirs, 987_654_321):
            client.refused("POST", path, 404, "not_found", json={**body, "conversation_id": conversation_id})
        if tool in arguments:
            for unknown in (turn_id, UNKNOWN_TURN, "mine"):
                client.refused("POST", path, 404, "not_found", json={**body, "turn_id": unknown})
        assert rival.subjects() == []
        assert call(rival, "ListTasks", {}, conversation_id=theirs) == ({"tasks": []}, False)
    assert client.subjects() == []


def test_a_turn_of_another_conversation_is_a_conflict(sqlite_client: Client) -> None:
    turn_id = sqlite_client.turn(sqlite_client.conversation())
    body = {"turn_id": turn_id, "conversation_id": sqlite_client.conversation()}

    sqlite_client.refused("POST", "/v1/tools/list_todo", 409, "conflict", json=body)


@each_row(
    ("method", "path"),
    [("GET", "/v1/tools"), ("POST", "/v1/tools/todo_list"), ("POST", "/v1/tools/nonsense"), ("POST", "/v1/writs")],
)
@each_row("header", [None, "Bearer hw_nobody", "Basic x"])
def test_an_unauthenticated_request_gets_only_401(sqlite_client: Client, method: str, path: str, header: str | None) -> None:
    stranger = sqlite_client.build_request(method, path, json={"role": "plumber"})
    del stranger.headers["authorization"]
    if header:
        stranger.headers["authorization"] = header

    assert sqlite_client.send(stranger).status_code == 401


# Idempotency keys


def test_a_call_with_a_key_runs_once_and_repeats_its_answer(client: Client) -> None:
    conversation_id = client.conversation()
    turn_id = client.turn(conversation_id)
    for path, body in (
        ("/v1/tools/create_todo", {"arguments": {"items": [{"title": "planned"}]}, "turn_id": turn_id}),
        ("/v1/tools/AddTask", {"arguments": {"title": "look"}, "conversation_id": conversation_id}),
        ("/v1/tools/complete_todo", {"arguments": {}, "turn_id": turn_id}),
        ("/v1/writs", {"text": "/todo add written", "conversation_id": conversation_id}),
    ):
        answers = [client.post(path, json=body, headers={"Idempotency-Key": "a key"}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert len({answer.text for answer in answers}) == 1
        client.refused("POST", path, 409, "key_reused", json={**body, "agent_id": "ada"}, headers={"Idempotency-Key": "a key"})

    assert client.subjects(turn_id=turn_id) == ["planned"]
    assert sorted(client.subjects()) == ["planned", "written"]
    assert [task["id"] for task in call(client, "ListTasks", {}, conversation_id=conversation_id)[0]["tasks"]] == ["1"]


def test_a_refusal_with_a_key_is_replayed_even_when_it_would_succeed_by_now(sqlite_client: Client) -> None:
    turn_id = sqlite_client.turn(sqlite_client.conversation())
    (item,) = create_plan(sqlite_client, turn_id, "look")
    (row,) = sqlite_client.ok("GET", "/v1/todos", params={"turn_id": turn_id})["todos"]
    sqlite_client.change(row, status="completed")
    body = {"arguments": {"todoId": item["id"], "outcome": "seen"}, "turn_id": turn_id}

    def complete() -> Any:
        return sqlite_client.ok("POST", "/v1/tools/complete_todo", json=body, headers={"Idempotency-Key": "k"})

    first = complete()
    assert "already completed" in first["result"]["error"]
    sqlite_client.change(row, status="pending")
    assert complete() == first
    assert sqlite_client.subjects(turn_id=turn_id, status="pending") == ["look"]


def test_a_call_with_a_key_that_changes_files_is_not_repeated_because_a_neighbour_failed(tmp_path: Path) -> None:
    """Queued writes are committed as one group. If one fails, the others are run again."""
    begun, free = threading.Event(), threading.Event()

    def block(_tx: Transaction) -> None:
        begun.set()
        free.wait(30)

    async def run_scenario() -> tuple[list[int], list[Any]]:
        async with open_app(tmp_path) as (app, client, _token):
            writers = app.headway.database.writers
            conversation_id = (await client.post("/v1/conversations", json={})).json()["conversation"]["id"]
            body = {"arguments": {"title": "look"}, "conversation_id": conversation_id}
            busy = asyncio.create_task(app.headway.database.write(block))
            await asyncio.to_thread(begun.wait, 30)
            requests = [
                asyncio.create_task(client.post("/v1/tools/AddTask", json=body, headers={"Idempotency-Key": "a key"})),
                asyncio.create_task(client.patch("/v1/todos/404", json={"status": "completed"})),
            ]
            while len(writers.queue) < len(requests):
                await asyncio.sleep(0.001)
            free.set()
            await busy
            answers = [answer.status_code for answer in await asyncio.gather(*requests)]
            response = await client.post("/v1/tools/ListTasks", json={"arguments": {}, "conversation_id": conversation_id})
            return answers, response.json()["result"]["tasks"]

    answers, tasks = asyncio.run(asyncio.wait_for(run_scenario(), 60))

    assert answers == [200, 404]
    assert [task["id"] for task in tasks] == ["1"]


# Concurrency


def test_calls_at_the_same_time_never_see_each_others_context(client: Client) -> None:
    turns = [client.turn(client.conversation()) for _ in range(8)]

    def work(turn_id: str) -> None:
        for n in range(5):
            create_plan(client, turn_id, f"{turn_id} {n}")
            call(client, "AddTask", {"title": f"{turn_id} {n}"}, turn_id=turn_id)

    with ThreadPoolExecutor(len(turns)) as pool:
        list(pool.map(work, turns))
    for turn_id in turns:
        assert client.subjects(turn_id=turn_id) == [f"{turn_id} {n}" for n in range(5)]
        tasks, _ = call(client, "ListTasks", {}, turn_id=turn_id)
        assert [task["title"] for task in tasks["tasks"]] == [f"{turn_id} {n}" for n in range(5)]


# Live events


def test_a_conversations_stream_has_the_plan_and_then_its_current_item(client: Client) -> None:
    conversation_id = client.conversation()
    turn_id = client.turn(conversation_id)
    create_plan(client, turn_id, "look", "build")
    state = call(client, "manage_todos", {"delete": ["look"]}, turn_id=turn_id)[0]["state"]
    with open_stream(client, f"/v1/conversations/{conversation_id}/events", params={"after": 0}) as stream:
        events = stream.take(7)

    assert [event.event for event in events] == [
        *("todo_changed", "todo_changed", "todos_updated", "todos_current"),
        *("todo_changed", "todos_updated", "todos_current"),
    ]
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert events[-2].data == state
    assert events[-1].data == {name: state[name] for name in ("current", "remaining", "total")}


# Writs


def test_writs_are_run_in_their_conversation_and_taken_out_of_the_text(client: Client) -> None:
    conversation_id = client.conversation()
    client.add("wide")
    text = "I'll note that.\n/todo add look\nclosely\n/endtodo\n/todo start look\n/todo list\nDone.\n"
    answer = run_writs(client, text, conversation_id=conversation_id, agent_id="ada")

    assert answer["visible"] == "I'll note that.\nDone.\n"
    (look, wide) = client.ok("GET", "/v1/todos", params={"conversation_id": conversation_id})["todos"]
    assert answer["output"] == (
        f"[/todo add]\nadded #{look['id']} [pending] look\n[END TODO]\n"
        f"[/todo start]\n▶ #{look['id']} [in_progress] look\n[END TODO]\n"
        "[/todo list]\n2 open (1 in progress, 1 pending):\n"
        f"▶ #{look['id']} [in_progress] look\n#{wide['id']} [pending] wide (tenant-wide)\n[END TODO]"
    )
    assert (look["agent_id"], look["description"], look["status"]) == ("ada", "closely", "in_progress")


def test_a_writ_without_its_terminator_commits_nothing(client: Client) -> None:
    answer = run_writs(client, "/todo add look\nhalf of it")

    assert answer == {"output": "[/todo add]\nERR: missing /endtodo terminator\n[END TODO]", "visible": ""}
    assert client.subjects() == []


def test_a_text_without_writs_is_all_visible(sqlite_client: Client) -> None:
    assert run_writs(sqlite_client, "nothing to see\r\n") == {"output": "", "visible": "nothing to see\r\n"}


@pytest.mark.parametrize("body", [{}, {"text": 5}, {"text": "x", "turn_id": UNKNOWN_TURN}, {"text": "x" * 200_001}])
def test_a_text_that_does_not_fit_is_422(sqlite_client: Client, body: dict[str, Any]) -> None:
    sqlite_client.refused("POST", "/v1/writs", 422, "invalid", json=body)

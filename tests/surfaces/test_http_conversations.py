"""/v1/conversations and /v1/turns."""

import json
import re
import time
from uuid import UUID

from tests.surfaces.server_harness import Client, Service
from tests.tables import each_row


def test_a_conversation_gets_an_id_and_a_key_of_its_own(client: Client) -> None:
    before = int(time.time())
    conversation = client.ok("POST", "/v1/conversations", 201, json={})["conversation"]

    assert list(conversation) == [
        *("id", "key", "title", "created_at", "updated_at", "state", "task_file"),
        *("client", "client_session"),
    ]
    assert UUID(hex=conversation["key"]).hex == conversation["key"]
    assert (conversation["title"], before <= conversation["created_at"] == conversation["updated_at"] <= time.time()) == ("", True)


def test_a_conversation_keeps_its_title_and_the_callers_key(client: Client) -> None:
    conversation = client.ok("POST", "/v1/conversations", 201, json={"title": "Über 😀", "key": "ticket-7"})["conversation"]

    assert (conversation["title"], conversation["key"]) == ("Über 😀", "ticket-7")
    assert client.ok("GET", f"/v1/conversations/{conversation['id']}") == {"conversation": conversation}


def test_a_conversation_says_where_its_task_list_is(client: Client, service: Service) -> None:
    """002: "Path: BaseDirectory + ".agents/tasks/" + conversationId.ToString("N") + ".json"."""
    conversation = client.ok("POST", "/v1/conversations", 201, json={"key": "../escape"})["conversation"]
    (row,) = client.ok("GET", "/v1/conversations")["conversations"]
    assert conversation["task_file"] == row["task_file"]
    assert re.fullmatch(r"\.agents/tasks/[0-9a-f]{32}\.json", conversation["task_file"])

    body = {"arguments": {"title": "look"}, "conversation_id": conversation["id"]}
    task = client.ok("POST", "/v1/tools/AddTask", json=body)["result"]
    for name in (conversation["task_file"], f".agents/tasks/{conversation['id']}.json"):
        assert json.loads((service.log.parent / ".headway" / name).read_bytes()) == {"tasks": [task]}


def test_a_key_is_taken_once_per_tenant(client: Client, service: Service) -> None:
    client.conversation(key="ours")

    detail = client.refused("POST", "/v1/conversations", 409, "name_taken", json={"key": "ours"})
    assert "'ours'" in detail
    with service.tenant() as other:
        assert other.conversation(key="ours")


def test_conversations_are_listed_newest_first_a_page_at_a_time(client: Client) -> None:
    ids = [client.conversation(title=f"number {n}") for n in range(7)]
    newest = client.ok("GET", "/v1/conversations", params={"limit": 3})["conversations"]
    rest = client.ok("GET", "/v1/conversations", params={"before": newest[-1]["id"]})["conversations"]

    assert [conversation["id"] for conversation in newest + rest] == ids[::-1]
    assert [conversation["title"] for conversation in newest] == ["number 6", "number 5", "number 4"]


def test_a_tenant_without_conversations_has_an_empty_list(client: Client) -> None:
    assert client.ok("GET", "/v1/conversations") == {"conversations": [], "next_cursor": None, "searched_all": True}


def test_an_external_loop_can_open_a_turn(client: Client) -> None:
    conversation = client.conversation()
    before = int(time.time())
    turn = client.ok("POST", "/v1/turns", 201, json={"conversation_id": conversation})["turn"]

    assert str(UUID(turn["id"])) == turn["id"]
    assert before <= turn["started_at"] <= time.time()
    assert turn | {"id": "", "started_at": 0} == {
        "id": "",
        "conversation_id": conversation,
        "request": "",
        "mode": "plan",
        "status": "running",
        "waiting_for": None,
        "iterations": 0,
        "limit": turn["limit"],
        "resubmissions": 0,
        "outcome": None,
        "answer": None,
        "error": None,
        "incomplete": [],
        "forked_from": None,
        "changes": None,
        "started_at": 0,
        "ended_at": 0,
        "plan_source": None,
        "retry_at": 0,
        "models": [],
        "usage": {"input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "cost_usd": 0.0},
        "duration_s": 0,
    }
    assert client.ok("GET", f"/v1/turns/{turn['id']}") == {"turn": turn}


def test_a_turn_shows_what_its_plan_still_has_open(client: Client) -> None:
    conversation = client.conversation()
    turn = client.turn(conversation)
    first, second, third = (client.add(f"step {n}", conversation_id=conversation, turn_id=turn) for n in range(3))
    client.change(first, status="completed")
    client.change(third, status="in_progress")

    assert client.ok("GET", f"/v1/turns/{turn}")["turn"]["incomplete"] == [
        {"id": third["id"], "title": "step 2", "status": "in_progress"},
        {"id": second["id"], "title": "step 1", "status": "pending"},
    ]


def test_a_todo_of_a_turn_belongs_to_the_turns_conversation(client: Client) -> None:
    ours, other = client.conversation(), client.conversation()
    turn = client.turn(ours)

    detail = client.refused(
        "POST", "/v1/todos", 409, "conflict", json={"subject": "misplaced", "turn_id": turn, "conversation_id": other}
    )
    assert turn in detail


@each_row(
    ("method", "path", "body"),
    [
        ("GET", "/v1/conversations/999999999999999", None),
        ("GET", "/v1/turns/7d444840-9dc0-11d1-b245-5ffdce74fad2", None),
        ("GET", "/v1/turns/anything", None),
        ("POST", "/v1/turns", {"conversation_id": 999999999999999}),
        ("POST", "/v1/todos", {"subject": "x", "conversation_id": 999999999999999}),
        ("POST", "/v1/todos", {"subject": "x", "turn_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"}),
        ("POST", "/v1/todos/claim", {"agent_id": "ada", "conversation_id": 999999999999999}),
    ],
)
def test_a_conversation_or_turn_that_is_not_there_is_404(client: Client, method: str, path: str, body: object) -> None:
    client.refused(method, path, 404, "not_found", json=body)

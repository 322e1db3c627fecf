"""GET /v1/todos and /v1/todos/ready: order, filters, pages."""

from typing import Any

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import notices
from headway.actions.todos import todos
from headway.ledger.cursors import CursorCodec
from headway.ledger.errors import BadCursor
from headway.ledger.todo import Draft
from headway.storage.stores.todo_pages import CURSORS
from tests.surfaces.server_harness import Client, Service
from tests.tables import each_row


def test_a_list_is_ordered_by_in_progress_then_position_then_latest_end(client: Client, service: Service) -> None:
    first, second, third, fourth = (client.add(subject) for subject in ("first", "second", "third", "fourth"))
    with service.ago(3600) as earlier:
        old = Draft("ended an hour ago", status="completed")
        earlier.write(lambda tx: todos.add_todo(tx, client.desk.tenant.id, old))
    client.change(fourth, position=1)
    client.change(second, status="canceled")
    client.change(third, status="in_progress")

    assert client.subjects() == ["third", "fourth", "first", "second", "ended an hour ago"]
    assert [todo["status"] for todo in client.ok("GET", "/v1/todos")["todos"]] == [
        "in_progress",
        "pending",
        "pending",
        "canceled",
        "completed",
    ]
    assert first["position"] == 1


def test_a_conversations_list_holds_its_own_todos_and_the_tenant_wide_ones(client: Client) -> None:
    ours, theirs = client.conversation(), client.conversation()
    client.add("wide")
    client.add("ours", conversation_id=ours)
    client.add("theirs", conversation_id=theirs)

    assert client.subjects(conversation_id=ours) == ["ours", "wide"]
    assert client.subjects(conversation_id="tenant") == ["wide"]
    for everything in ({}, {"conversation_id": 0}):
        assert sorted(client.subjects(**everything)) == ["ours", "theirs", "wide"]
    for path, field in (("/v1/todos", "todos"), ("/v1/todos/ready", "todos")):
        rows = client.ok("GET", path, params={"conversation_id": "tenant"})[field]
        assert [todo["subject"] for todo in rows] == ["wide"]


def test_a_list_can_be_narrowed_by_status_agent_and_turn(client: Client) -> None:
    conversation = client.conversation()
    turn = client.turn(conversation)
    client.add("planned", conversation_id=conversation, turn_id=turn)
    client.add("ada's", agent_id="ada")
    client.add("canceled", status="canceled")
    client.add("started", status="in_progress", agent_id="ada")

    assert client.subjects(turn_id=turn) == ["planned"]
    assert client.subjects(agent_id="ada") == ["started", "ada's"]
    assert client.subjects(agent_id="ada", status="pending") == ["ada's"]
    assert client.subjects(status="canceled") == client.subjects(status="cancelled") == ["canceled"]
    assert client.subjects(agent_id="nobody") == []


def test_pages_joined_together_are_the_list(client: Client) -> None:
    conversation = client.conversation()
    rows = [
        {
            "subject": f"todo {n}",
            "status": ("pending", "in_progress", "completed", "canceled")[n % 4],
            "conversation_id": conversation * (n % 2),
        }
        for n in range(43)
    ]
    client.ok("POST", "/v1/todos", 201, json={"todos": rows})
    for filters in ({}, {"conversation_id": conversation}, {"conversation_id": "tenant"}, {"status": "pending"}):
        whole = client.ok("GET", "/v1/todos", params={**filters, "limit": 500})
        pages: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = client.ok("GET", "/v1/todos", params={**filters, "limit": 5, "cursor": cursor})
            assert len(page["todos"]) <= 5
            pages += page["todos"]
            cursor = page["next_cursor"]

        assert pages == whole["todos"]
        assert whole["next_cursor"] is None
        assert len({todo["id"] for todo in pages}) == len(pages) > 5


def test_a_page_holds_fifty_by_default(client: Client) -> None:
    client.ok("POST", "/v1/todos", 201, json={"todos": [{"subject": "one of many"}] * 60})

    assert len(client.ok("GET", "/v1/todos")["todos"]) == len(client.ok("GET", "/v1/todos/ready")["todos"]) == 50
    assert len(client.ok("GET", "/v1/todos", params={"limit": 500})["todos"]) == 60


@each_row("path", ["/v1/todos", "/v1/todos/ready", "/v1/conversations"])
@each_row("limit", ["501", "0", "-1", "many", "", "1.5", str(2**64)])
def test_a_page_has_a_size_between_1_and_500(sqlite_client: Client, path: str, limit: str) -> None:
    detail = sqlite_client.refused("GET", path, 422, "invalid", params={"limit": limit})

    assert detail.startswith("limit: ")


@each_row("cursor", ["x", "1", "1.2", "1.2.3.4", "-1.2.3", "1.2.٣", "1.2.3\n", "W10", "0" * 300, f"1.{10**19}.1"])
def test_a_cursor_that_no_list_gave_out_is_refused(client: Client, cursor: str) -> None:
    client.refused("GET", "/v1/todos", 422, "bad_cursor", params={"cursor": cursor})


@each_row("name", ["todos", "jobs", "agents", "notices", "goals", "schedules", "memory"])
def test_every_list_refuses_a_foreign_cursor_in_the_same_words(client: Client, name: str) -> None:
    foreign = CursorCodec("other", ("x",)).encode(("x",))

    for cursor in ("abc", foreign, "1.2", "-1", "9" * 30):
        assert client.refused("GET", f"/v1/{name}", 422, "bad_cursor", params={"cursor": cursor}) == BadCursor.__doc__


def test_a_cursor_of_one_list_is_foreign_to_another(client: Client) -> None:
    for name in ("first", "second"):
        client.ok("PUT", f"/v1/schedules/{name}", json={"every_s": 3600, "goal": {"description": name}})
        client.desk.write(
            lambda tx, tenant_id, name=name: goals.pause(tx, tenant_id, goals.add_goal(tx, tenant_id, NewGoal(name)).id)
        )
        client.desk.write(notices.notify, "budget", name)
        client.add(name)
    lists = ("todos", "jobs", "agents", "notices", "goals", "schedules")
    cursors = {list_name: client.ok("GET", f"/v1/{list_name}", params={"limit": 1})["next_cursor"] for list_name in lists}

    assert len(set(cursors.values())) == len(lists)
    for list_name in lists:
        for other, cursor in cursors.items():
            if list_name == other:
                assert len(client.ok("GET", f"/v1/{list_name}", params={"limit": 1, "cursor": cursor})[list_name]) == 1
            else:
                client.refused("GET", f"/v1/{list_name}", 422, "bad_cursor", params={"cursor": cursor})


def test_a_cursor_of_a_longer_list_is_the_end_of_a_shorter_one(client: Client) -> None:
    client.add()

    assert client.ok("GET", "/v1/todos", params={"cursor": CURSORS.encode((4, 1, 1)), "status": "pending"}) == {
        "todos": [],
        "next_cursor": None,
        "searched_all": True,
        "open_dependencies": [],
    }


@pytest.mark.parametrize("path", ["/v1/todos", "/v1/todos/ready", "/v1/memory"])
def test_a_list_of_a_conversation_that_is_not_there_is_not_an_empty_list(client: Client, path: str) -> None:
    client.refused("GET", path, 404, "not_found", params={"conversation_id": 10**15})


def test_a_list_of_a_turn_that_is_not_there_is_not_an_empty_list(client: Client) -> None:
    client.refused("GET", "/v1/todos", 404, "not_found", params={"turn_id": "none"})


def test_a_turn_and_another_conversation_have_nothing_in_common(client: Client) -> None:
    ours, other = client.conversation(), client.conversation()
    turn = client.ok("POST", "/v1/turns", 201, json={"conversation_id": ours})["turn"]["id"]
    client.add("planned", turn_id=turn)

    assert client.subjects(turn_id=turn) == client.subjects(turn_id=turn, conversation_id=ours) == ["planned"]
    assert client.subjects(turn_id=turn, conversation_id=other) == []
    assert client.subjects(turn_id=turn, conversation_id="tenant") == []

"""Conversations are renamed, deleted, restored and searched. The list says which of them work."""

from typing import Any

import pytest

from headway.actions.engine import run_ends
from headway.actions.history import conversation_pages
from headway.actions.history.conversation_pages import SEARCH
from headway.actions.turns import turns
from headway.actions.turns.turns import TurnRequest
from headway.ledger.run import RunEnd
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.model_server import ModelServer
from tests.surfaces.conversation_client import say
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line


def search(client: Client, words: str, **query: Any) -> list[int]:
    page = client.ok("GET", "/v1/conversations", params={"q": words, **query})
    return [conversation["id"] for conversation in page["conversations"]]


def write(client: Client, conversation: int, request: str, answer: str = "", database: DirectDatabase | None = None) -> None:
    """Store a turn with its messages, without running an agent."""

    def store(tx: Transaction) -> None:
        run = turns.start_turn(tx, client.desk.tenant.id, conversation, TurnRequest(request))
        run_ends.end_run(tx, run, RunEnd.finish("answered", answer))

    (database or client.desk.database).write(store)


def test_a_conversation_is_renamed_deleted_and_restored(client: Client) -> None:
    conversation, other = client.conversation(title="old", key="mine"), client.conversation()
    path = f"/v1/conversations/{conversation}"
    client.add("its own", conversation_id=conversation)
    with open_stream(client, f"/v1/conversations/{other}/events") as stream:  # another tab, with another conversation
        renamed = client.ok("PATCH", path, json={"title": " new "})["conversation"]
        client.ok("PATCH", path, json={"title": "new"})  # changes nothing
        deleted = client.ok("DELETE", path)
        client.refused("GET", path, 404, "not_found")
        client.refused("POST", f"{path}/messages", 404, "not_found", json={"content": "hello"})
        client.refused("PATCH", path, 404, "not_found", json={"title": "x"})
        client.refused("DELETE", path, 404, "not_found")
        assert client.subjects() == []
        restored = client.ok("POST", f"{path}/restore")["conversation"]
        events = [(event.event, event.data) for event in stream.take(3)]

    assert (renamed["title"], renamed["state"]) == ("new", "idle")
    assert deleted["restorable_until"] - renamed["updated_at"] == pytest.approx(86_400, abs=60)
    assert restored == renamed
    assert client.subjects() == ["its own"]
    changes = [{"id": conversation, "change": change} for change in ("renamed", "deleted", "restored")]
    assert events == [("conversation_changed", change) for change in changes]
    assert client.ok("POST", f"{path}/restore")["conversation"] == renamed  # twice is no mistake


def test_a_conversation_with_a_turn_is_marked_and_not_deleted(chatter: Client, model: ModelServer) -> None:
    client, conversation = chatter, chatter.conversation()
    model.hold()
    with open_stream(client) as stream:
        turn_id = say(client, conversation)
        (listed,) = client.ok("GET", "/v1/conversations")["conversations"]
        detail = client.refused("DELETE", f"/v1/conversations/{conversation}", 409, "turn_running")
        client.ok("POST", f"/v1/turns/{turn_id}/cancel")
        model.release()
        states = (event.data["state"] for event in stream.events() if event.event == "conversation_changed")
        assert [next(states), next(states)] == ["running", "idle"]

    assert (listed["state"], "Cancel the turn" in detail) == ("running", True)
    assert client.ok("GET", f"/v1/conversations/{conversation}")["conversation"]["state"] == "idle"
    client.ok("DELETE", f"/v1/conversations/{conversation}")


def test_titles_and_messages_are_searched(client: Client) -> None:
    empty = client.conversation(title="An empty room")
    kitchen, garden = client.conversation(), client.conversation(title="Garden")
    write(client, kitchen, "Paint the DOOR green.", "I painted it, 100% and_done.")
    write(client, garden, "Plant a tree", "x " * 400 + "The straße of trees is planted" + " y" * 400)

    assert search(client, "door") == [kitchen]
    assert search(client, "TREE garden") == [garden]  # a word from the title, one from a message
    assert search(client, "STRASSE") == [garden]
    assert search(client, "room") == [empty]
    assert search(client, "100% and_done") == [kitchen]
    assert search(client, "door tree") == []
    assert search(client, "%") == [kitchen]
    assert search(client, "' OR 1=1 --") == []
    found = client.ok("GET", "/v1/conversations", params={"q": "straße"})["conversations"][0]
    assert "straße of trees" in found["excerpt"]
    assert len(found["excerpt"]) < 160
    client.ok("DELETE", f"/v1/conversations/{garden}")
    assert search(client, "tree") == []


def test_a_search_reads_a_part_and_continues_at_its_cursor(client: Client) -> None:
    ids = [client.conversation(title=f"room {n}") for n in range(4)]
    for n in range(3):
        write(client, ids[1], f"question {n}", "needle" if n == 0 else "hay")

    def find(words: str, limit: int) -> list[list[int]]:
        pages: list[list[int]] = []
        position = SEARCH.start
        while True:
            page = client.desk.read(conversation_pages.search, words.split(), limit, position, window=2)
            pages.append([row.id for row in page.conversations])
            assert page.searched_all == (page.next_cursor is None)
            if page.next_cursor is None:
                return pages
            position = SEARCH.decode(page.next_cursor)

    assert [row for page in find("room", 10) for row in page] == ids[::-1]
    assert [row for page in find("room", 1) for row in page] == ids[::-1]
    assert [row for page in find("needle", 10) for row in page] == [ids[1]]
    assert [row for page in find("question", 1) for row in page] == [ids[1]]
    assert len(find("nothing", 10)) > 2


def test_conversations_are_listed_by_activity(client: Client) -> None:
    ids = [client.conversation(title=f"number {n}") for n in range(3)]
    write(client, ids[0], "again")
    first = client.ok("GET", "/v1/conversations", params={"sort": "activity", "limit": 2})
    rest = client.ok("GET", "/v1/conversations", params={"sort": "activity", "limit": 2, "cursor": first["next_cursor"]})

    assert first["conversations"][0]["id"] == ids[0]
    assert {row["id"] for row in first["conversations"] + rest["conversations"]} == set(ids)
    assert (len(first["conversations"]), rest["next_cursor"]) == (2, None)
    page = client.ok("GET", "/v1/conversations", params={"limit": 2})
    assert client.ok("GET", "/v1/conversations", params={"cursor": page["next_cursor"]})["conversations"][0]["id"] == ids[0]


def test_the_conversation_used_last_is_first_even_if_clocks_differ_a_little(client: Client, service: Service) -> None:
    ids = [client.conversation(title=f"number {n}") for n in range(3)]
    with service.ago(0.5) as behind:  # the clock of another connection
        for used in (ids[1], ids[0], ids[2], ids[0]):
            write(client, used, "again", database=behind)
            listed = client.ok("GET", "/v1/conversations", params={"sort": "activity"})["conversations"]
            assert listed[0]["id"] == used
    assert [row["id"] for row in listed] == [ids[0], ids[2], ids[1]]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"q": "x" * 1_001}, "invalid"),
        ({"sort": "title"}, "invalid"),
        ({"cursor": "nonsense"}, "bad_cursor"),
        ({"cursor": "nonsense", "q": "x"}, "bad_cursor"),
    ],
)
def test_a_query_that_cannot_be_is_refused(sqlite_client: Client, query: dict[str, Any], code: str) -> None:
    answer = sqlite_client.get("/v1/conversations", params=query)
    assert (answer.status_code, answer.json()["code"]) == (422, code)


@pytest.mark.parametrize("body", [{}, {"title": ""}, {"title": " \n"}, {"title": "x" * 1_001}, {"title": "x", "key": "y"}])
def test_a_name_that_cannot_be_is_refused(sqlite_client: Client, body: dict[str, Any]) -> None:
    conversation = sqlite_client.conversation(title="old")
    assert sqlite_client.patch(f"/v1/conversations/{conversation}", json=body).status_code == 422
    assert sqlite_client.ok("GET", f"/v1/conversations/{conversation}")["conversation"]["title"] == "old"


def test_the_command_line_renames_deletes_restores_and_searches(headway: Shell) -> None:
    headway.ok("conversation", "new", "Paint the door", "--key", "home")
    headway.ok("conversation", "new", "Garden", "--key", "green")
    assert headway.ok("conversation", "rename", "1", "Paint", "it", "green") == "1\thome\tPaint it green\n"
    assert headway.ok("conversation", "search", "GREEN", "paint") == "1\thome\tPaint it green\n"
    assert headway.ok("conversation", "search", "roof") == "no conversation has all these words\n"
    deleted = headway.ok("conversation", "rm", "1", "2", "1")
    assert deleted.startswith("deleted 1 2; `headway conversation restore 1 2` works until ")
    assert headway.ok("conversation", "list") == "no conversations yet\n"
    assert "No conversation 1." in get_error_line(headway("conversation", "rm", "1"), 3)
    restored = headway.json("conversation", "restore", "1", "2")["conversations"]
    assert [(row["key"], row["state"]) for row in restored] == [("home", "idle"), ("green", "idle")]
    assert headway.json("conversation", "search", "green")["searched_all"] is True

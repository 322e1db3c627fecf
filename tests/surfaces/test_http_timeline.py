"""GET /v1/conversations/{id}/timeline and /v1/notices: the data that a page loads before it follows the event stream."""

from headway.actions.runs import notices
from tests.model_server import ModelServer, Reply, Request, calls, pause_midway, text
from tests.surfaces.conversation_client import list_logged, plan_and_drain, read_turn, say, wait_for_turn
from tests.surfaces.event_stream import list_logged_ids, open_stream
from tests.surfaces.server_harness import Client, wait_until


def get_timeline(client: Client, conversation: int, **query: int) -> dict:  # type: ignore[type-arg]
    page: dict = client.ok("GET", f"/v1/conversations/{conversation}/timeline", params=query)["timeline"]  # type: ignore[type-arg]
    return page


def list_kinds(document: dict) -> list[str]:  # type: ignore[type-arg]
    return [entry["kind"] for entry in document["entries"]]


def test_the_timeline_of_an_empty_conversation_is_empty(client: Client) -> None:
    document = get_timeline(client, client.conversation())

    assert document == {"seq": 0, "entries": [], "running": None, "saying": None, "turn_id": None, "todos": None}


def test_the_timeline_has_the_logged_events_of_a_turn(chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("one", "two")
    conversation = chatter.conversation()
    events = list_logged(read_turn(chatter, conversation))
    document = get_timeline(chatter, conversation)
    expected = [event for event in events if event.event in set(list_kinds(document))]

    assert [(entry["seq"], entry["kind"], entry["data"]) for entry in document["entries"]] == expected
    assert list_kinds(document)[0] == "turn_started"
    assert list_kinds(document)[-2:] == ["message", "turn_finished"]
    assert document["seq"] == list_logged_ids(chatter)[-1]
    assert (document["running"], document["saying"]) == (None, None)
    assert (document["todos"]["total"], document["todos"]["remaining"], document["todos"]["current"]) == (2, 0, None)


def test_a_page_at_a_time(chatter: Client, model: ModelServer) -> None:
    model.script = plan_and_drain("one")
    conversation = chatter.conversation()
    wait_for_turn(chatter, say(chatter, conversation))
    whole = get_timeline(chatter, conversation)["entries"]
    last = get_timeline(chatter, conversation, limit=3)["entries"]
    before = get_timeline(chatter, conversation, limit=500, before=last[0]["seq"])["entries"]

    assert before + last == whole


def test_a_reader_that_joins_during_a_reply_gets_it_from_the_beginning(chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: pause_midway(text("one two three four five six"))
    model.hold()
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation)
    wait_until(lambda: get_timeline(chatter, conversation)["saying"] is not None, "something is said")
    with open_stream(chatter, f"/v1/conversations/{conversation}/events") as stream:
        document = get_timeline(chatter, conversation)
        model.release()
        known = document["saying"]["n"]
        rest = next(event.data for event in stream.events() if event.event == "text_delta" and event.data["n"] > known)

    assert document["running"]["id"] == document["turn_id"] == turn_id
    assert document["saying"]["text"].startswith("one two")
    assert rest["n"] == known + 1
    assert "one two three four five six".startswith(document["saying"]["text"] + rest["text"])
    wait_for_turn(chatter, turn_id)
    assert get_timeline(chatter, conversation)["saying"] is None


def test_a_refused_answer_is_not_in_the_live_text_of_the_timeline(chatter: Client, model: ModelServer) -> None:
    replies = [calls(("create_todo", {"items": [{"title": "look"}]})), text("I am done, believe me.")]

    def script(_request: Request) -> Reply:
        if replies:
            return replies.pop(0)
        model.hold()
        return text("Well.")

    model.script = script
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation)
    model.wait_for_requests(3)

    assert get_timeline(chatter, conversation)["saying"] is None
    chatter.ok("POST", f"/v1/turns/{turn_id}/cancel")


def test_another_tenants_conversation_has_none(client: Client, service: object) -> None:
    conversation = client.conversation()
    with client.again() as same:
        get_timeline(same, conversation)
    assert client.refused("GET", f"/v1/conversations/{conversation + 1_000_000}/timeline", 404, "not_found")


def test_notices_newest_first(client: Client) -> None:
    for number in range(3):
        client.desk.write(notices.notify, "budget", f"notice {number}")
    page = client.ok("GET", "/v1/notices", params={"limit": 2})
    newest = page["notices"]

    assert [notice["text"] for notice in newest] == ["notice 2", "notice 1"]
    rest = client.ok("GET", "/v1/notices", params={"limit": 2, "cursor": page["next_cursor"]})
    assert ([notice["text"] for notice in rest["notices"]], rest["next_cursor"]) == (["notice 0"], None)
    assert set(newest[0]) == {"id", "kind", "goal_id", "turn_id", "text", "url", "created_at", "done_at"}
    assert (newest[0]["kind"], newest[0]["turn_id"], newest[0]["url"]) == ("budget", None, "")


def test_notices_of_another_tenant_cannot_be_read(client: Client, sqlite_client: Client) -> None:
    client.desk.write(notices.notify, "budget", "ours")

    assert sqlite_client.ok("GET", "/v1/notices")["notices"] == []

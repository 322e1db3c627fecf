"""The event streams: their events, their start position, and which tenant receives them."""

from typing import Any

import pytest

from headway.actions.installation import pruning
from headway.storage.transaction import Transaction
from tests.surfaces.event_stream import list_logged_ids, open_stream
from tests.surfaces.server_harness import Client, Service
from tests.tables import each_row


def test_a_stream_begins_with_its_position(client: Client) -> None:
    client.add("before")
    with open_stream(client) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert (stream.first.event, stream.first.id, stream.first.data) == ("ping", list_logged_ids(client)[-1], {})
        todo = client.add("after")
        client.change(todo, status="in_progress")
        client.ok("DELETE", f"/v1/todos/{todo['id']}")
        events = stream.take(3)

    assert [event.event for event in events] == ["todo_changed"] * 3
    assert [event.data["change"] for event in events] == ["created", "updated", "deleted"]
    assert events[0].data["todo"] == todo
    assert [event.id for event in events] == list_logged_ids(client)[1:]


def test_the_stream_of_a_tenant_without_events_begins_at_0(client: Client) -> None:
    with open_stream(client) as stream:
        assert (stream.first.event, stream.first.id) == ("ping", 0)


def test_after_0_is_everything(client: Client) -> None:
    for n in range(3):
        client.add(f"todo {n}")
    with open_stream(client, params={"after": "0"}) as stream:
        assert stream.changes(3) == [("created", f"todo {n}") for n in range(3)]
        client.add("todo 3")
        assert stream.changes(1) == [("created", "todo 3")]


def test_a_reader_resumes_where_it_was(client: Client) -> None:
    for n in range(4):
        client.add(f"todo {n}")
    second, third = list_logged_ids(client)[1:3]
    resumptions: list[dict[str, Any]] = [
        {"params": {"after": str(second)}},
        {"headers": {"Last-Event-ID": str(second)}},
        {"params": {"after": str(second)}, "headers": {"Last-Event-ID": str(third)}},
        {"params": {"after": f"{second:018}"}},
    ]
    for options in resumptions:
        with open_stream(client, **options) as stream:
            assert stream.changes(2) == [("created", "todo 2"), ("created", "todo 3")]


def test_a_reader_is_told_that_events_were_deleted_because_of_their_age(client: Client) -> None:
    for n in range(4):
        client.add(f"todo {n}")
    first, second, third, _ = list_logged_ids(client)
    tenant_id, far_future = client.desk.tenant.id, 2**62

    def prune_two(tx: Transaction) -> None:
        tx.run("UPDATE events SET at = ? WHERE tenant_id = ? AND seq >= ?", far_future, tenant_id, third)
        pruning.PRUNES["events"](tx, tenant_id, tx.now + 1, None)

    client.desk.database.write(prune_two)
    for after in (0, first):
        with open_stream(client, params={"after": str(after)}) as stream:
            assert (stream.first.event, stream.first.data) == ("log_pruned", {"after": after, "pruned": second})
            assert stream.take(1)[0].event == "log_pruned"
            assert stream.changes(2) == [("created", "todo 2"), ("created", "todo 3")]
    with open_stream(client, params={"after": str(second)}) as stream:
        assert stream.first.event == "ping"


@pytest.mark.parametrize("after", ["999999999999999999", ""])
def test_a_position_beyond_the_log_or_none_is_its_end(client: Client, after: str) -> None:
    client.add("before")
    with open_stream(client, params={"after": after}) as stream:
        assert (stream.first.event, stream.first.id) == ("ping", list_logged_ids(client)[-1])
        client.add("after")
        assert stream.changes(1) == [("created", "after")]


@each_row("place", ["x", "-1", "1.5", "1 ", "%D9%A1", "9" * 19, "0x1", "1,2"])
def test_a_position_that_is_not_a_number_is_400(client: Client, place: str) -> None:
    conversation = client.conversation()
    for path in ("/v1/events", f"/v1/conversations/{conversation}/events"):
        client.refused("GET", f"{path}?after={place}", 400, "bad_event_id", headers={"Last-Event-ID": "1"})
        client.refused("GET", path, 400, "bad_event_id", headers={"Last-Event-ID": place.replace(" ", "_")})


def test_a_conversations_stream_has_its_own_and_tenant_wide_events(client: Client) -> None:
    ours, theirs = client.conversation(), client.conversation()

    def write(when: str) -> None:
        client.add(f"theirs {when}", conversation_id=theirs)
        client.add(f"ours {when}", conversation_id=ours)
        client.add(f"wide {when}")
        client.add(f"planned {when}", conversation_id=ours, turn_id=client.turn(ours))

    write("before")
    with open_stream(client, f"/v1/conversations/{ours}/events", params={"after": "0"}) as stream:
        expected = [("created", f"{what} before") for what in ("ours", "wide", "planned")]
        assert stream.changes(3) == expected
        write("live")
        assert stream.changes(3) == [(change, subject.replace("before", "live")) for change, subject in expected]


def test_a_stream_of_a_conversation_that_is_not_there_is_404(client: Client) -> None:
    client.refused("GET", "/v1/conversations/999999999999999/events", 404, "not_found")


def test_each_tenant_gets_events_of_its_own_rows_only(client: Client, service: Service) -> None:
    with service.tenant() as other, open_stream(client) as ours, open_stream(other) as theirs:
        for n in range(3):
            other.add(f"theirs {n}")
            client.add(f"ours {n}")

        assert ours.changes(3) == [("created", f"ours {n}") for n in range(3)]
        assert theirs.changes(3) == [("created", f"theirs {n}") for n in range(3)]


def test_text_of_any_kind_is_one_event(client: Client) -> None:
    text = "line\nevent: forged\r\ndata: {}\n\nid: 7\u2028\u2029\x85\x0b\x0c 😀"
    with open_stream(client) as stream:
        client.add("as it is", description=text)
        client.add("the next")
        first, second = stream.take(2)

    assert first.data["todo"]["description"] == text
    assert second.data["todo"]["subject"] == "the next"


def test_a_stream_is_neither_stored_nor_compressed_nor_held_back(client: Client) -> None:
    with open_stream(client, headers={"Accept-Encoding": "gzip"}) as stream:
        headers = stream.answer.headers

    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers


def test_refused_changes_are_not_streamed(client: Client) -> None:
    with open_stream(client) as stream:
        client.post("/v1/todos", json={"todos": [{"subject": "good"}, {"subject": "bad", "depends_on": [10**15]}]})
        client.add("told")

        assert stream.changes(1) == [("created", "told")]

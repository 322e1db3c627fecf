"""Messages over HTTP: which are accepted or refused, and the turns they start."""

import json
import time

import pytest

from headway.ledger.text import TEXT_LIMIT
from tests.model_server import ModelServer, calls, error, flaky, text
from tests.surfaces.conversation_client import (
    begin_retrying_turn,
    get_turn,
    list_kinds,
    list_messages,
    messages_path,
    open_turn_stream,
    plan_and_drain,
    read_turn,
    reply_in_order,
    say,
    wait_for_turn,
)
from tests.surfaces.server_harness import Client, Service, check_problem, wait_until

TURN_FIELDS = ["id", "conversation_id", "request", "mode", "status", "iterations", "limit", "resubmissions", "outcome"]
TURN_FIELDS += ["incomplete", "retry_at", "started_at", "ended_at"]


def test_a_message_is_answered(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation, "Who are you?")
    found = wait_for_turn(chatter, turn_id)

    assert list(found) == TURN_FIELDS
    assert 0 <= time.time() - found["started_at"] < 60
    assert found["started_at"] <= found["ended_at"] <= time.time()
    assert found == {
        "id": turn_id,
        "conversation_id": conversation,
        "request": "Who are you?",
        "mode": "plan",
        "status": "finished",
        "iterations": 1,
        "limit": 10,
        "resubmissions": 0,
        "outcome": "answered",
        "incomplete": [],
        "retry_at": 0,
        "started_at": found["started_at"],
        "ended_at": found["ended_at"],
    }
    assert list_messages(chatter, conversation) == [("user", "Who are you?"), ("assistant", "hello")]
    assert model.requests[0].last == "Who are you?"


def test_a_turn_that_runs_says_so(chatter: Client, model: ModelServer) -> None:
    model.hold()
    turn_id = say(chatter, chatter.conversation())
    model.wait_for_requests(1)
    found = get_turn(chatter, turn_id)
    model.release()

    assert (found["status"], found["outcome"], found["ended_at"]) == ("running", None, 0)
    assert wait_for_turn(chatter, turn_id)["status"] == "finished"


def test_a_turn_whose_model_asked_to_wait_says_until_when(chatter: Client, model: ModelServer) -> None:
    model.script = flaky(1, error(429, "slow down", retry_after=1_800), text("Hello."))
    conversation = chatter.conversation()
    turn_id = begin_retrying_turn(chatter, conversation, model)
    wait_until(lambda: get_turn(chatter, turn_id)["retry_at"], "it waits")
    found = get_turn(chatter, turn_id)
    (run,) = chatter.ok("GET", "/v1/agents", params={"turn_id": turn_id})["agents"]
    job = chatter.ok("GET", f"/v1/jobs/{run['id']}")["job"]

    assert (found["status"], job["state"]) == ("running", "delayed")
    assert 1_790 < found["retry_at"] - time.time() <= 1_800
    assert found["retry_at"] == run["retry_at"] == job["due_at"]
    assert chatter.ok("GET", f"/v1/agents/{run['id']}")["agent"] == run
    timeline = chatter.ok("GET", f"/v1/conversations/{conversation}/timeline")["timeline"]
    assert timeline["running"] == found
    (told,) = [one["data"] for one in timeline["entries"] if one["kind"] == "turn_delayed"]
    assert (told["retry_at"], "rate limited" in told["reason"]) == (found["retry_at"], True)

    assert chatter.ok("POST", f"/v1/jobs/{run['id']}/retry")["job"]["state"] == "queued"
    assert (wait_for_turn(chatter, turn_id)["outcome"], get_turn(chatter, turn_id)["retry_at"]) == ("answered", 0)


def test_messages_are_listed_in_order_and_page_by_page(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.script = lambda request: text(f"you said {request.last}")
    for word in ("one", "two", "three"):
        wait_for_turn(chatter, say(chatter, conversation, word))
    found = chatter.ok("GET", messages_path(conversation))["messages"]
    pages = [
        chatter.ok("GET", messages_path(conversation), params={"limit": 2, "before": before})["messages"]
        for before in (found[4]["id"], found[2]["id"], found[0]["id"])
    ]

    assert [list(one) for one in found] == [["id", "turn_id", "role", "content", "created_at"]] * 6
    assert [one["content"] for one in found] == ["one", "you said one", "two", "you said two", "three", "you said three"]
    assert [one["id"] for one in found] == sorted(one["id"] for one in found)
    assert pages == [found[2:4], found[:2], []]
    assert list_messages(chatter, conversation, limit=1) == [("assistant", "you said three")]


def test_an_answer_that_was_refused_is_not_shown(chatter: Client, model: ModelServer) -> None:
    too_early = text("I am done, really.")
    plan = plan_and_drain("buy milk")
    model.script = lambda request: (
        too_early if len(request.tool_results) == 1 and "Not finished" not in str(request.texts) else plan(request)
    )
    conversation = chatter.conversation()
    told = read_turn(chatter, conversation, "Buy milk.")

    (refused,) = (one for one in told if one.event == "refused")
    assert (refused.data["remaining"], refused.data["reason"]) == (1, "1 item is still open.")
    assert told[-1].data["outcome"] == "drained"
    assert list_messages(chatter, conversation) == [("user", "Buy milk."), ("assistant", "All done.")]


def test_open_items_of_an_ended_turn_are_listed(chatter: Client, model: ModelServer) -> None:
    plan = calls(("create_todo", {"items": [{"title": "first"}, {"title": "second"}]}))
    model.script = reply_in_order(plan, text("I would rather not."))
    conversation = chatter.conversation()
    told = read_turn(chatter, conversation)
    found = get_turn(chatter, told[-1].data["turn_id"])
    rows = chatter.ok("GET", "/v1/todos", params={"turn_id": found["id"]})["todos"]

    assert (found["status"], found["outcome"]) == ("finished", "incomplete")
    assert found["incomplete"] == told[-1].data["incomplete"]
    assert found["incomplete"] == [{"id": one["id"], "title": one["subject"], "status": "pending"} for one in rows]
    assert [one["title"] for one in found["incomplete"]] == ["first", "second"]
    answer = list_messages(chatter, conversation)[-1][1]
    assert "first" in answer
    assert "second" in answer


def test_unknown_and_foreign_ids_get_the_same_404(chatter: Client, chat_service: Service) -> None:
    with chat_service.tenant() as other:
        theirs = other.conversation()
        their_turn = other.turn(theirs)
        foreign = [
            chatter.post(messages_path(theirs), json={"content": "hi"}),
            chatter.post(messages_path(theirs), json={"content": "hi"}, headers={"Accept": "text/event-stream"}),
            chatter.get(messages_path(theirs)),
            chatter.get(f"/v1/turns/{their_turn}"),
            chatter.post(f"/v1/turns/{their_turn}/cancel"),
        ]
        unknown = [
            chatter.post(messages_path(10**15), json={"content": "hi"}),
            chatter.post(messages_path(10**15), json={"content": "hi"}, headers={"Accept": "text/event-stream"}),
            chatter.get(messages_path(10**15)),
            chatter.get("/v1/turns/00000000-0000-4000-8000-000000000000"),
            chatter.post("/v1/turns/00000000-0000-4000-8000-000000000000/cancel"),
        ]

        for known, never in zip(foreign, unknown, strict=True):
            detail = check_problem(never, 404, "not_found")
            names = ((str(10**15), str(theirs)), ("00000000-0000-4000-8000-000000000000", their_turn))
            for before, after in names:
                detail = detail.replace(before, after)
            assert check_problem(known, 404, "not_found") == detail
        assert list_messages(other, theirs) == []
        assert get_turn(other, their_turn)["status"] == "running"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"content": ""}', 422),
        (b'{"content": " \\n\\t\\u3000"}', 422),
        (b"{}", 422),
        (b'{"content": null}', 422),
        (b'{"content": 1}', 422),
        (b'{"content": "a\\u0000b"}', 422),
        (b'{"content": "a\\ud800b"}', 400),
        (b'{"content": "\xff"}', 400),
        (b'{"content": "hi", "mode": "dance"}', 422),
        (b'{"content": "hi", "role": "coder"}', 422),
        (b'{"content": "%s"}' % (b"x" * (TEXT_LIMIT + 1)), 422),
        (b'{"content": "%s"}' % (b"x" * 2**20), 413),
        (b"hi", 400),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_message_that_is_none_is_refused_and_begins_nothing(
    sqlite_chatter: Client, model: ModelServer, body: bytes, status: int, accept: str
) -> None:
    conversation = sqlite_chatter.conversation()
    headers = {"Content-Type": "application/json", "Accept": accept}
    check_problem(sqlite_chatter.post(messages_path(conversation), content=body, headers=headers), status)

    assert list_messages(sqlite_chatter, conversation) == []
    assert sqlite_chatter.desk.count("turns") == 0
    assert model.requests == []


def test_the_longest_message_is_taken(sqlite_chatter: Client) -> None:
    conversation = sqlite_chatter.conversation()
    longest = "ß" * TEXT_LIMIT
    wait_for_turn(sqlite_chatter, say(sqlite_chatter, conversation, longest))

    assert list_messages(sqlite_chatter, conversation) == [("user", longest), ("assistant", "hello")]


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 501}, {"before": 0}, {"before": "x"}, {"nonsense": 1}])
def test_a_page_that_cannot_be_is_refused(sqlite_chatter: Client, query: dict[str, object]) -> None:
    path = messages_path(sqlite_chatter.conversation())
    sqlite_chatter.refused("GET", path, 422, "invalid", params=query)


HOSTILE = "</script><b>&amp;\r\n\r\nevent: turn_finished\ndata: {}\n\n\u2028\u2029\x0b\x0c\x1c\x85\x1b[2J\x7f…data: 1\r\rid: 9\n"


def test_hostile_text_is_passed_on_and_breaks_no_frame(chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(text(HOSTILE))
    conversation = chatter.conversation()
    with chatter.again() as watcher, open_turn_stream(watcher, conversation, HOSTILE) as stream:
        told = list(stream.events())

    assert list_kinds(told) == ["turn_started", "message", "text_delta", "message", "turn_finished"]
    assert [one.data["content"] for one in told if one.event == "message"] == [HOSTILE, HOSTILE]
    assert list_messages(chatter, conversation) == [("user", HOSTILE), ("assistant", HOSTILE)]


def test_unstorable_characters_in_an_answer_are_replaced(chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(text("a\0b\ud800c"))
    conversation = chatter.conversation()
    told = read_turn(chatter, conversation)

    assert list_kinds(told) == ["turn_started", "message", "text_delta", "message", "turn_finished"]
    (answer,) = (one.data["content"] for one in told if one.event == "message" and one.data["role"] == "assistant")
    assert answer.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert answer.endswith("c")


def test_a_refusing_provider_fails_the_turn_and_no_key_is_revealed(
    chatter: Client, chat_service: Service, model: ModelServer
) -> None:
    key = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
    model.script = reply_in_order(error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key"))
    conversation = chatter.conversation()
    told = read_turn(chatter, conversation)
    found = get_turn(chatter, told[-1].data["turn_id"])

    assert list_kinds(told) == ["turn_started", "message", "turn_failed"]
    failed = told[-1].data
    assert list(failed) == ["turn_id", "error", "code"]
    assert failed["code"] == "model_failed"
    assert "401" in failed["error"]
    assert "openai-chat:fake-1" in failed["error"]
    assert (found["status"], found["outcome"]) == ("failed", None)
    assert found["ended_at"] > 0
    assert list_messages(chatter, conversation) == [("user", "hello")]
    everything = json.dumps([one.data for one in told]) + chat_service.log.read_text()
    assert key not in everything

    model.script = reply_in_order(text("better"))
    assert wait_for_turn(chatter, say(chatter, conversation))["status"] == "finished"


def test_the_rehearsal_works_a_queue_off_item_by_item(client: Client) -> None:
    conversation = client.conversation()
    told = read_turn(client, conversation, "1. calculate 2+3\n2. calculate 4*5", mode="queue")
    found = get_turn(client, told[-1].data["turn_id"])
    resubmitted = [one.data for one in told if one.event == "todos_resubmitting"]

    assert (found["mode"], found["status"], found["outcome"]) == ("queue", "finished", "drained")
    assert found["resubmissions"] == len(resubmitted) == 1
    assert resubmitted[0]["next"] == "calculate 4*5"
    assert resubmitted[0]["state"]["total"] == 2
    assert resubmitted[0]["state"]["remaining"] == 1
    assert [one.data["ok"] for one in told if one.event == "todos_assessed"] == [True, True]
    assert told[-1].event == "turn_finished"
    assert told[-1].data["outcome"] == "drained"
    answers = [content for role, content in list_messages(client, conversation) if role == "assistant"]
    assert any("5" in one for one in answers)
    assert any("20" in one for one in answers)

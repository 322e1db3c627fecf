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
from tests.tables import each_row

TURN_FIELDS = [
    "id",
    "conversation_id",
    "request",
    "mode",
    "status",
    "waiting_for",
    "iterations",
    "limit",
    "resubmissions",
    "outcome",
]
TURN_FIELDS += [
    "answer",
    "error",
    "incomplete",
    "forked_from",
    "plan_source",
    "retry_at",
    "models",
    "usage",
    "changes",
    "duration_s",
    "started_at",
    "ended_at",
]


def test_a_message_is_answered(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.script = lambda _: text("hello", usage=(120, 7))
    turn_id = say(chatter, conversation, "Who are you?")
    turn = wait_for_turn(chatter, turn_id)

    assert list(turn) == TURN_FIELDS
    assert 0 <= time.time() - turn["started_at"] < 60
    assert turn["started_at"] <= turn["ended_at"] <= time.time()
    assert turn == {
        "id": turn_id,
        "conversation_id": conversation,
        "request": "Who are you?",
        "mode": "plan",
        "status": "finished",
        "waiting_for": None,
        "iterations": 1,
        "limit": 10,
        "resubmissions": 0,
        "outcome": "answered",
        "answer": "hello",
        "error": None,
        "incomplete": [],
        "forked_from": None,
        "plan_source": None,
        "retry_at": 0,
        "models": turn["models"],
        "duration_s": turn["duration_s"],
        "usage": {"input_tokens": 120, "cached_tokens": 0, "output_tokens": 7, "cost_usd": 0.0},
        "changes": None,
        "started_at": turn["started_at"],
        "ended_at": turn["ended_at"],
    }
    assert list_messages(chatter, conversation) == [("user", "Who are you?"), ("assistant", "hello")]
    assert model.requests[0].last == "Who are you?"


def test_a_turn_that_runs_says_so(chatter: Client, model: ModelServer) -> None:
    model.hold()
    turn_id = say(chatter, chatter.conversation())
    model.wait_for_requests(1)
    turn = get_turn(chatter, turn_id)
    model.release()

    assert (turn["status"], turn["outcome"], turn["ended_at"]) == ("running", None, 0)
    assert wait_for_turn(chatter, turn_id)["status"] == "finished"


def test_a_turn_whose_model_asked_to_wait_says_until_when(chatter: Client, model: ModelServer) -> None:
    model.script = flaky(1, error(429, "slow down", retry_after=1_800), text("Hello."))
    conversation = chatter.conversation()
    before = time.time()
    turn_id = begin_retrying_turn(chatter, conversation, model)
    wait_until(lambda: get_turn(chatter, turn_id)["retry_at"], "it waits")
    turn = get_turn(chatter, turn_id)
    (run,) = chatter.ok("GET", "/v1/agents", params={"turn_id": turn_id})["agents"]
    job = chatter.ok("GET", f"/v1/jobs/{run['id']}")["job"]

    assert (turn["status"], job["state"]) == ("running", "delayed")
    assert before + 1_799 <= turn["retry_at"] <= time.time() + 1_800
    assert turn["retry_at"] == run["retry_at"] == job["due_at"]
    assert chatter.ok("GET", f"/v1/agents/{run['id']}")["agent"] == run
    timeline = chatter.ok("GET", f"/v1/conversations/{conversation}/timeline")["timeline"]
    assert timeline["running"] == turn
    (delay,) = [entry["data"] for entry in timeline["entries"] if entry["kind"] == "turn_delayed"]
    assert (delay["retry_at"], "rate limited" in delay["reason"]) == (turn["retry_at"], True)

    assert chatter.ok("POST", f"/v1/jobs/{run['id']}/retry")["job"]["state"] == "queued"
    assert (wait_for_turn(chatter, turn_id)["outcome"], get_turn(chatter, turn_id)["retry_at"]) == ("answered", 0)


def test_messages_are_listed_in_order_and_page_by_page(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    model.script = lambda request: text(f"you said {request.last}")
    for word in ("one", "two", "three"):
        wait_for_turn(chatter, say(chatter, conversation, word))
    messages = chatter.ok("GET", messages_path(conversation))["messages"]
    pages = [
        chatter.ok("GET", messages_path(conversation), params={"limit": 2, "before": before})["messages"]
        for before in (messages[4]["id"], messages[2]["id"], messages[0]["id"])
    ]

    assert [list(message) for message in messages] == [
        ["id", "turn_id", "role", "content", "created_at", "kind", "attachments"]
    ] * 6
    assert [message["content"] for message in messages] == ["one", "you said one", "two", "you said two", "three", "you said three"]
    assert [message["id"] for message in messages] == sorted(message["id"] for message in messages)
    assert pages == [messages[2:4], messages[:2], []]
    assert list_messages(chatter, conversation, limit=1) == [("assistant", "you said three")]


def test_an_answer_that_was_refused_is_not_shown(chatter: Client, model: ModelServer) -> None:
    too_early = text("I am done, really.")
    plan = plan_and_drain("buy milk")
    model.script = lambda request: (
        too_early if len(request.tool_results) == 1 and "Not finished" not in str(request.texts) else plan(request)
    )
    conversation = chatter.conversation()
    events = read_turn(chatter, conversation, "Buy milk.")

    (refused,) = (event for event in events if event.event == "refused")
    assert (refused.data["remaining"], refused.data["reason"]) == (1, "1 item is still open.")
    assert events[-1].data["outcome"] == "drained"
    assert list_messages(chatter, conversation) == [("user", "Buy milk."), ("assistant", "All done.")]


def test_open_items_of_an_ended_turn_are_listed(chatter: Client, model: ModelServer) -> None:
    plan = calls(("create_todo", {"items": [{"title": "first"}, {"title": "second"}]}))
    model.script = reply_in_order(plan, text("I would rather not."))
    conversation = chatter.conversation()
    events = read_turn(chatter, conversation)
    turn = get_turn(chatter, events[-1].data["turn_id"])
    rows = chatter.ok("GET", "/v1/todos", params={"turn_id": turn["id"]})["todos"]

    assert (turn["status"], turn["outcome"]) == ("finished", "incomplete")
    assert turn["incomplete"] == events[-1].data["incomplete"]
    assert turn["incomplete"] == [{"id": row["id"], "title": row["subject"], "status": "pending"} for row in rows]
    assert [item["title"] for item in turn["incomplete"]] == ["first", "second"]
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

        for known, missing in zip(foreign, unknown, strict=True):
            detail = check_problem(missing, 404, "not_found")
            names = ((str(10**15), str(theirs)), ("00000000-0000-4000-8000-000000000000", their_turn))
            for before, after in names:
                detail = detail.replace(before, after)
            assert check_problem(known, 404, "not_found") == detail
        assert list_messages(other, theirs) == []
        assert get_turn(other, their_turn)["status"] == "running"


@each_row(
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
        (b'{"content": "%s"}' % (b"x" * 2**20), 422),
        (b"hi", 400),
    ],
)
@each_row("accept", ["application/json", "text/event-stream"])
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
        events = list(stream.events())

    assert list_kinds(events) == ["turn_started", "message", "text_delta", "message", "turn_finished"]
    assert [event.data["content"] for event in events if event.event == "message"] == [HOSTILE, HOSTILE]
    assert list_messages(chatter, conversation) == [("user", HOSTILE), ("assistant", HOSTILE)]


def test_unstorable_characters_in_an_answer_are_replaced(chatter: Client, model: ModelServer) -> None:
    model.script = reply_in_order(text("a\0b\ud800c"))
    conversation = chatter.conversation()
    events = read_turn(chatter, conversation)

    assert list_kinds(events) == ["turn_started", "message", "text_delta", "message", "turn_finished"]
    (answer,) = (event.data["content"] for event in events if event.event == "message" and event.data["role"] == "assistant")
    assert answer.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert answer.endswith("c")


def test_a_refusing_provider_fails_the_turn_and_no_key_is_revealed(
    chatter: Client, chat_service: Service, model: ModelServer
) -> None:
    key = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
    model.script = reply_in_order(error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key"))
    conversation = chatter.conversation()
    events = read_turn(chatter, conversation)
    turn = get_turn(chatter, events[-1].data["turn_id"])

    assert list_kinds(events) == ["turn_started", "message", "turn_failed"]
    failed = events[-1].data
    assert list(failed) == ["turn_id", "error", "code", "models", "usage", "duration_s"]
    assert failed["code"] == "model_failed"
    assert "401" in failed["error"]
    assert "openai-chat:fake-1" in failed["error"]
    assert (turn["status"], turn["outcome"]) == ("failed", None)
    assert turn["ended_at"] > 0
    assert list_messages(chatter, conversation) == [("user", "hello")]
    everything = json.dumps([event.data for event in events]) + chat_service.log.read_text()
    assert key not in everything

    model.script = reply_in_order(text("better"))
    assert wait_for_turn(chatter, say(chatter, conversation))["status"] == "finished"


def test_the_rehearsal_works_a_queue_off_item_by_item(client: Client) -> None:
    conversation = client.conversation()
    events = read_turn(client, conversation, "1. calculate 2+3\n2. calculate 4*5", mode="queue")
    turn = get_turn(client, events[-1].data["turn_id"])
    resubmitted = [event.data for event in events if event.event == "todos_resubmitting"]

    assert (turn["mode"], turn["status"], turn["outcome"]) == ("queue", "finished", "drained")
    assert turn["resubmissions"] == len(resubmitted) == 1
    assert resubmitted[0]["next"] == "calculate 4*5"
    assert resubmitted[0]["state"]["total"] == 2
    assert resubmitted[0]["state"]["remaining"] == 1
    assert [event.data["ok"] for event in events if event.event == "todos_assessed"] == [True, True]
    assert events[-1].event == "turn_finished"
    assert events[-1].data["outcome"] == "drained"
    answers = [content for role, content in list_messages(client, conversation) if role == "assistant"]
    assert any("5" in content for content in answers)
    assert any("20" in content for content in answers)

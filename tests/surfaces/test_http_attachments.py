"""Files in messages over HTTP: sending, listing and downloading them, limits, and the parts that chat front ends send."""

import json
from typing import Any

import pytest

from headway.ledger.attachment import SIZE_LIMIT, TOTAL_LIMIT
from headway.operations.requests import BODY_LIMIT
from headway.surfaces.http.request_context import ATTACHMENTS_BODY_LIMIT
from tests.model_server import ModelServer, text
from tests.sample_files import PDF, PNG, PNG_BASE64, PNG_URL, encode_attachment
from tests.surfaces.conversation_client import messages_path, read_turn, wait_for_turn
from tests.surfaces.front_end_clients import AG_UI, AI_SDK, ag_ui, ui_stream
from tests.surfaces.server_harness import Client, Service, check_problem
from tests.tables import each_row

IMAGE_PART = {"type": "image_url", "image_url": {"url": PNG_URL}}
PHOTO = encode_attachment("photo.png", PNG, "image/png")


def send(client: Client, conversation: int, *attachments: dict[str, Any]) -> str:
    body = {"content": "What is this?", "attachments": attachments}
    turn_id = str(client.ok("POST", messages_path(conversation), 202, json=body)["turn_id"])
    wait_for_turn(client, turn_id)
    return turn_id


def list_stored(client: Client, conversation: int) -> list[list[dict[str, Any]]]:
    """Return the attachments of each message."""
    return [message["attachments"] for message in client.ok("GET", messages_path(conversation))["messages"]]


def test_a_message_carries_files(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    turn_id = send(chatter, conversation, PHOTO, encode_attachment("notes.csv", b"a,b\n1,2\n", "text/csv"))

    (request,) = model.requests
    assert IMAGE_PART in request.messages[-1]["content"]
    assert "a,b\n1,2\n" in request.last
    assert list_stored(chatter, conversation) == [
        [
            {"name": "photo.png", "media_type": "image/png", "size": len(PNG)},
            {"name": "notes.csv", "media_type": "text/csv", "size": 8},
        ],
        [],
    ]
    image = chatter.get(f"/v1/turns/{turn_id}/attachments/1")
    assert (image.status_code, image.content, image.headers["content-type"]) == (200, PNG, "image/png")
    assert image.headers["content-disposition"] == "attachment; filename*=UTF-8''photo.png"
    assert image.headers["x-content-type-options"] == "nosniff"
    assert image.headers["cache-control"] == "no-store"
    table = chatter.get(f"/v1/turns/{turn_id}/attachments/2")
    assert (table.content, table.headers["content-type"]) == (b"a,b\n1,2\n", "text/plain; charset=utf-8")
    for n in (3, 987_654_321):
        chatter.refused("GET", f"/v1/turns/{turn_id}/attachments/{n}", 404, "not_found")
    for bad in ("0", "-1", "x"):
        chatter.refused("GET", f"/v1/turns/{turn_id}/attachments/{bad}", 422, "invalid")


def test_a_message_of_another_tenant_keeps_its_files_to_itself(chat_service: Service, chatter: Client) -> None:
    turn_id = send(chatter, chatter.conversation(), PHOTO)
    with chat_service.tenant() as other:
        foreign = other.refused("GET", f"/v1/turns/{turn_id}/attachments/1", 404, "not_found")
        unknown = other.refused("GET", "/v1/turns/no-such-turn/attachments/1", 404, "not_found")

    assert foreign == unknown.replace("no-such-turn", turn_id)


def test_events_name_the_files_and_neither_they_nor_the_log_contain_them(
    sqlite_chatter: Client, sqlite_chat_service: Service
) -> None:
    conversation = sqlite_chatter.conversation()
    send(sqlite_chatter, conversation, PHOTO)
    timeline = sqlite_chatter.ok("GET", f"/v1/conversations/{conversation}/timeline")["timeline"]

    (asked, _) = [entry["data"] for entry in timeline["entries"] if entry["kind"] == "message"]
    assert asked["attachments"] == [{"name": "photo.png", "media_type": "image/png", "size": len(PNG)}]
    assert PNG_BASE64[:20] not in json.dumps(timeline) + sqlite_chat_service.log.read_text()


def test_the_stream_of_a_turn_with_a_message_without_files(sqlite_chatter: Client) -> None:
    messages = [event.data for event in read_turn(sqlite_chatter, sqlite_chatter.conversation()) if event.event == "message"]
    assert [message["attachments"] for message in messages] == [[], []]


@pytest.mark.parametrize(
    ("name", "stored", "header"),
    [
        ('a"; filename="b.exe', 'a"; filename="b.exe', "a%22%3B%20filename%3D%22b.exe"),
        ("../../../etc/passwd", "passwd", "passwd"),
        ("a\r\nSet-Cookie: x=y", "a  Set-Cookie: x=y", "a%20%20Set-Cookie%3A%20x%3Dy"),
        ("žluť.html", "žluť.html", "%C5%BElu%C5%A5.html"),
        ("<script>alert(1)<!--", "<script>alert(1)<!--", "%3Cscript%3Ealert%281%29%3C%21--"),
    ],
)
def test_hostile_names_and_types(sqlite_chatter: Client, name: str, stored: str, header: str) -> None:
    conversation = sqlite_chatter.conversation()
    turn_id = send(sqlite_chatter, conversation, encode_attachment(name, b"<script>alert(1)</script>", "text/html\r\nX-Evil: 1"))

    assert list_stored(sqlite_chatter, conversation)[0] == [{"name": stored, "media_type": "text/plain", "size": 25}]
    answer = sqlite_chatter.get(f"/v1/turns/{turn_id}/attachments/1")
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{header}"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert not {"x-evil", "set-cookie"} & set(answer.headers)


@each_row(
    ("attachment", "code"),
    [
        ({"name": "a", "data": "%%%"}, "invalid"),
        ({"name": "a", "data": "aGk"}, "invalid"),
        ({"name": "a", "data": "_-8="}, "invalid"),
        ({"name": "a", "data": "é==="}, "invalid"),
        ({"name": "a"}, "invalid"),
        ({"name": "", "data": ""}, "invalid"),
        ({"name": "a", "data": 7}, "invalid"),
        ({"name": "a", "data": "", "path": "/etc/passwd"}, "invalid"),
        ({"name": "a", "data": "AAEC"}, "bad_attachment"),
        (encode_attachment("archive.zip", b"PK\x03\x04\x14\x00"), "bad_attachment"),
    ],
)
def test_what_is_no_file_is_refused_and_starts_nothing(sqlite_chatter: Client, attachment: dict[str, Any], code: str) -> None:
    conversation = sqlite_chatter.conversation()
    body = {"content": "hello", "attachments": [attachment]}
    sqlite_chatter.refused("POST", messages_path(conversation), 422, code, json=body)

    assert list_stored(sqlite_chatter, conversation) == []


def test_the_limits(sqlite_chatter: Client) -> None:
    path = messages_path(sqlite_chatter.conversation())

    def refuse(status: int, code: str, *attachments: dict[str, Any]) -> str:
        return sqlite_chatter.refused("POST", path, status, code, json={"content": "hello", "attachments": attachments})

    assert "at most 10 items" in refuse(422, "invalid", *[PHOTO] * 11)
    assert "at most 10,000,000" in refuse(422, "bad_attachment", encode_attachment("a.png", PNG + b"x" * SIZE_LIMIT))
    large, small = (encode_attachment("a.png", PNG + b"x" * size) for size in (SIZE_LIMIT - len(PNG), 1))
    assert f"{TOTAL_LIMIT:,}" in refuse(422, "bad_attachment", large, large, small)
    assert "workspace" in refuse(422, "bad_attachment", encode_attachment("a.txt", b"x" * 400_001))
    assert f"{ATTACHMENTS_BODY_LIMIT:,}" in refuse(413, "too_large", large, large, large)


def test_the_largest_files_are_accepted(sqlite_chatter: Client, model: ModelServer) -> None:
    largest = encode_attachment("a.png", PNG + b"x" * (SIZE_LIMIT - len(PNG)))
    turn_id = send(sqlite_chatter, sqlite_chatter.conversation(), largest, largest)

    # A late request of another test may be among them.
    assert [str(request.messages).count("data:image/png") for request in model.requests].count(2) == 1
    assert len(sqlite_chatter.get(f"/v1/turns/{turn_id}/attachments/2").content) == SIZE_LIMIT


def test_a_large_body_needs_a_token_a_length_and_a_route_that_takes_files(sqlite_chatter: Client) -> None:
    path = messages_path(sqlite_chatter.conversation())
    large = json.dumps({"content": "hello", "attachments": [encode_attachment("a.png", PNG + b"x" * BODY_LIMIT)]}).encode()
    as_json = {"Content-Type": "application/json"}

    check_problem(sqlite_chatter.post("/v1/todos", content=large, headers=as_json), 413, "too_large")
    without_length = sqlite_chatter.post(path, content=iter([large]), headers=as_json)
    check_problem(without_length, 413, "too_large")
    stranger = sqlite_chatter.post(path, content=large, headers=as_json | {"Authorization": "Bearer hw_no"})
    check_problem(stranger, 401, "unauthorized")
    accepted = sqlite_chatter.post(path, content=large, headers=as_json)
    assert accepted.status_code == 202
    wait_for_turn(sqlite_chatter, accepted.json()["turn_id"])  # its request must not reach the model during another test


def test_the_rehearsal_model_refuses_images(client: Client) -> None:
    conversation = client.conversation()
    body = {"content": "What is this?", "attachments": [PHOTO]}
    detail = client.refused("POST", messages_path(conversation), 422, "attachment_refused", json=body)

    assert "The model rehearsal does not accept 'photo.png' (image/png)" in detail
    assert list_stored(client, conversation) == []
    body = {"content": "hello", "attachments": [encode_attachment("notes.txt", b"text")]}
    client.ok("POST", messages_path(conversation), 202, json=body)


def test_the_same_key_stores_the_files_once(sqlite_chatter: Client, model: ModelServer) -> None:
    conversation = sqlite_chatter.conversation()
    body = {"content": "What is this?", "attachments": [PHOTO]}
    options: dict[str, Any] = {"json": body, "headers": {"Idempotency-Key": "once"}}
    answers = [sqlite_chatter.ok("POST", messages_path(conversation), 202, **options) for _ in range(2)]

    assert answers[0] == answers[1]
    wait_for_turn(sqlite_chatter, answers[0]["turn_id"])
    assert [len(files) for files in list_stored(sqlite_chatter, conversation)] == [1, 0]


# Chat front ends

TEXT_PART = {"type": "text", "text": "What is this?"}
AG_UI_PARTS: dict[str, list[dict[str, Any]]] = {
    "@ag-ui/client": [
        {"type": "image", "source": {"type": "data", "value": PNG_BASE64, "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "data", "value": "YSxi", "mimeType": "text/csv"}},
    ],
    "ag-ui-client-0": [
        {"type": "binary", "mimeType": "image/png", "data": PNG_BASE64, "filename": "photo.png"},
        {"type": "binary", "mimeType": "text/csv", "url": "data:text/csv;base64,YSxi", "filename": "table.csv"},
    ],
}


def find_messages(client: Client, key: str) -> list[list[dict[str, Any]]]:
    (conversation,) = (row for row in client.ok("GET", "/v1/conversations")["conversations"] if row["key"] == key)
    return list_stored(client, conversation["id"])


@pytest.mark.parametrize("library", AG_UI)
def test_an_ag_ui_client_sends_files(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: text("A red dot.")
    view = ag_ui(library, sqlite_chatter, json.dumps([TEXT_PART, *AG_UI_PARTS[library]]), "Sure?")

    assert view["error"] is None
    assert [message["content"] for message in view["messages"]][1::2] == ["A red dot."] * 2
    assert IMAGE_PART in model.requests[0].messages[-1]["content"]
    assert "a,b" in model.requests[0].last
    names = ("file 1", "file 2") if library == "@ag-ui/client" else ("photo.png", "table.csv")
    assert [[file["name"] for file in files] for files in find_messages(sqlite_chatter, "thread")] == [list(names), [], [], []]


@pytest.mark.parametrize("library", AI_SDK)
def test_use_chat_sends_files(library: str, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: text("A red dot.")
    file = {"type": "file", "mediaType": "image/png", "filename": "photo.png", "url": PNG_URL}
    view = ui_stream(library, sqlite_chatter, json.dumps({"text": "What is this?", "files": [file]}), "Sure?")

    assert view["error"] is None
    assert any(
        IMAGE_PART in message["content"]
        for request in model.requests
        for message in request.messages
        if isinstance(message["content"], list)
    )
    assert find_messages(sqlite_chatter, "chat") == [
        [{"name": "photo.png", "media_type": "image/png", "size": len(PNG)}],
        [],
        [],
        [],
    ]


@each_row(
    "part",
    [
        {"type": "file", "mediaType": "image/png", "url": "https://example.com/photo.png"},
        {"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"},
        {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,hello"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,%%%"},
        {"type": "file", "mediaType": "image/png", "url": 7},
        {"type": "file", "filename": {"a": 1}},
        {"type": "image", "source": {"type": "url", "value": "http://127.0.0.1/photo.png"}},
        {"type": "image", "source": {"type": "file", "value": "file-1", "provider": "openai"}},
        {"type": "image", "source": "here"},
        {"type": "audio", "source": {"type": "data", "value": "SUQzBAA=", "mimeType": "audio/mpeg"}},
        {"type": "binary", "mimeType": "image/png", "id": "1"},
    ],
)
@each_row("path", ["/v1/ag-ui", "/v1/ui-stream"])
def test_a_file_that_cannot_be_read_is_refused_and_starts_nothing(sqlite_chatter: Client, path: str, part: dict[str, Any]) -> None:
    parts = [TEXT_PART, part]
    message = {"id": "1", "role": "user", "content": parts} if path == "/v1/ag-ui" else {"id": "1", "role": "user", "parts": parts}
    body: dict[str, Any] = {"threadId": "mine", "runId": "1", "id": "mine", "messages": [message]}
    sqlite_chatter.refused("POST", path, 422, "bad_attachment", json=body)
    stranger = sqlite_chatter.post(path, json=body, headers={"Authorization": "Bearer hw_no"})

    check_problem(stranger, 401, "unauthorized")
    assert sqlite_chatter.ok("GET", "/v1/conversations")["conversations"] == []


def test_a_front_end_learns_that_the_model_takes_no_images(sqlite_client: Client) -> None:
    parts = [TEXT_PART, {"type": "file", "mediaType": "image/png", "url": PNG_URL}]
    body = {"id": "mine", "messages": [{"id": "1", "role": "user", "parts": parts}]}
    sqlite_client.refused("POST", "/v1/ui-stream", 422, "attachment_refused", json=body)

    assert sqlite_client.ok("GET", "/v1/conversations")["conversations"] == []


def test_a_pdf_reaches_the_model(sqlite_chatter: Client, model: ModelServer) -> None:
    send(sqlite_chatter, sqlite_chatter.conversation(), encode_attachment("report.pdf", PDF))
    assert [part["type"] for part in model.requests[0].messages[-1]["content"]] == ["text", "file"]

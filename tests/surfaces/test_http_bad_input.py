"""Invalid requests get a 4xx response with a problem document, never a 500."""

import json
from collections.abc import Iterator

import pytest

from tests.surfaces.openapi_routes import METHODS, Operation, list_operations, spread
from tests.surfaces.server_harness import Client, check_problem
from tests.tables import each_row

LONGEST_BODY = 1024 * 1024
PAYLOADS = ("null", "true", "0", '"text"', "[]", "[[]]", "[null]", "{}", '{"":0}', '{"todos":{}}', '{"todos":[{}]}', '{"id":{}}')


def list_with_body(client: Client) -> list[Operation]:
    return [operation for operation in list_operations(client) if operation.takes_body]


def test_a_body_that_is_not_json_is_400_on_every_route_that_takes_one(sqlite_client: Client) -> None:
    bodies = (b"", b"{", b"nonsense", b'{"subject": "x"', b"\xff\xfe", b'{"a": 1,}', b"[" * 10_000)
    for operation, body in spread(list_with_body(sqlite_client), bodies):
        sqlite_client.refused(operation.method, operation.at(), 400, "malformed_json", content=body)


def test_a_body_of_another_kind_is_415_on_every_route_that_takes_one(sqlite_client: Client) -> None:
    kinds = ("text/plain", "application/x-www-form-urlencoded", "application/jsonl", "multipart/form-data; boundary=x")
    for operation, kind in spread(list_with_body(sqlite_client), kinds):
        headers = {"Content-Type": kind}
        sqlite_client.refused(operation.method, operation.at(), 415, "not_json", content=b"{}", headers=headers)


@each_row("kind", [None, "application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"])
def test_json_is_json_however_it_is_spelt(sqlite_client: Client, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}

    assert sqlite_client.post("/v1/todos", content=b'{"subject": "x"}', headers=headers).status_code == 201


THIRD_PARTY_PROTOCOLS = ("/v1/ag-ui", "/v1/ui-stream", "/v1/chat/completions", "/v1/responses")  # may add fields


def test_an_unknown_field_is_refused_on_every_route_that_takes_a_body(sqlite_client: Client) -> None:
    for operation in list_operations(sqlite_client):
        if operation.takes_body and operation.path not in THIRD_PARTY_PROTOCOLS:
            detail = sqlite_client.refused(operation.method, operation.at(), 422, "invalid", json={"nonsense": 1, "todos": None})
            assert "nonsense" in detail


@each_row("path", ["/v1/todos", "/v1/todos/ready", "/v1/conversations", "/v1/events"])
def test_an_unknown_parameter_is_refused(sqlite_client: Client, path: str) -> None:
    assert "nonsense" in sqlite_client.refused("GET", path, 422, "invalid", params={"nonsense": "1"})


FOR_OPERATORS = ("/v1/halt", "/v1/costs", "/v1/tokens", "/v1/webhooks")


def test_any_json_at_all_is_answered_with_a_refusal(client: Client) -> None:
    for place, operation in enumerate(list_with_body(client)):
        for body in PAYLOADS[place % 3 :: 3]:
            answer = client.request(operation.method, operation.at(10**15), content=body)
            if answer.status_code not in (200, 201):
                check_problem(answer, answer.status_code)
                allowed = (403, 404, 409, 422) if operation.path.startswith(FOR_OPERATORS) else (404, 409, 422)
                assert answer.status_code in allowed, (operation, body, answer.text)


def test_an_error_names_the_field_and_the_problem(sqlite_client: Client) -> None:
    body = {"subject": 5, "conversation_id": "1", "status": "done", "depends_on": [0, True], "position": 1.5}
    detail = sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json=body)

    for field in ("subject", "conversation_id", "status", "position", "depends_on.0"):
        assert f"{field}: " in detail
    assert "(and 1 more)" in detail
    assert "row" not in sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json={"todos": [{"subject": ""}]})


def test_an_error_does_not_repeat_the_input(sqlite_client: Client) -> None:
    detail = sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": "x", "secret" * 10_000: "hidden"})

    assert len(detail) < 200
    assert "hidden" not in detail


TEXT_FIELDS = ("subject", "description", "completion_criteria", "agent_type", "agent_id", "turn_id")
UNSTORABLE = {"a\\u0000b": 422, "a\\ud800b": 400, "a\\udfffb": 400}


def test_text_that_cannot_be_stored_is_refused_in_every_field(client: Client) -> None:
    expected = {(field, text): status for field in TEXT_FIELDS for text, status in UNSTORABLE.items()}
    answers = {}
    for field, text in expected:
        fields = {"subject": '"x"', field: f'"{text}"'}
        answer = client.post("/v1/todos", content="{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}")
        check_problem(answer, answer.status_code)
        answers[field, text] = answer.status_code

    assert answers == expected
    assert client.subjects() == []


@each_row(
    ("path", "parameters"),
    [
        ("/v1/todos", {"agent_id": "a\0b"}),
        ("/v1/todos", {"turn_id": "a\0b"}),
        ("/v1/todos", {"cursor": "a\0b"}),
        ("/v1/todos", {"conversation_id": "\0"}),
        ("/v1/todos", {"agent_id": "\x1b[31m"}),
        ("/v1/turns/a%00b", {}),
    ],
)
def test_text_that_cannot_be_stored_cannot_be_asked_for(client: Client, path: str, parameters: dict[str, str]) -> None:
    answer = client.get(path, params=parameters)

    check_problem(answer, 422)


def test_bytes_that_are_no_text_are_no_failure(client: Client) -> None:
    assert client.get("/v1/todos?agent_id=%ff%fe").status_code == 200
    check_problem(client.get("/v1/todos?turn_id=%ff%fe"), 404)
    check_problem(client.get("/v1/turns/%ff%fe"), 404)
    check_problem(client.get("/v1/todos/%ff"), 422)


NUMBERS = ("9223372036854775808", "-9223372036854775809", "1" * 400, "1e400", "-1", "0.5", "NaN", "Infinity", "true", '"1"')


@pytest.mark.parametrize("field", ["conversation_id", "position", "depends_on"])
def test_a_number_that_the_ledger_cannot_hold_is_refused(client: Client, field: str) -> None:
    answers = {}
    for number in NUMBERS:
        value = f"[{number}]" if field == "depends_on" else number
        answer = client.post("/v1/todos", content=f'{{"subject": "x", "{field}": {value}}}')
        document = answer.json()
        answers[number] = (answer.status_code, document.get("code"), str(document.get("detail")).startswith(field))

    assert answers == dict.fromkeys(NUMBERS, (422, "invalid", True))


@each_row("seconds", ["NaN", "Infinity", "0", "-5", "86401", "1e400", '"60"', "true"])
def test_a_lease_has_a_length(sqlite_client: Client, seconds: str) -> None:
    sqlite_client.add()
    sqlite_client.refused("POST", "/v1/todos/claim", 422, "invalid", content=f'{{"agent_id": "ada", "lease_s": {seconds}}}')


def test_an_id_is_a_whole_number(sqlite_client: Client) -> None:
    numbers = ("0", "-1", "abc", "1.5", "1e3", "+1", " ", "٣", "9223372036854775808", "1" * 400, "0" * 5000 + "1", "1;2", "..;")
    operations = [one for one in list_operations(sqlite_client) if "{todo_id}" in one.path or "{conversation_id}" in one.path]
    for operation, bad in spread(operations, numbers):
        body = b'{"lease_token": "x"}' if operation.method == "POST" else b"{}"
        answer = sqlite_client.request(operation.method, operation.at(bad), content=body if operation.takes_body else None)
        assert "must be a whole number" in check_problem(answer, 422, "invalid"), (operation, bad)


def test_a_body_may_have_a_mebibyte_and_no_byte_more(client: Client) -> None:
    body = json.dumps({"subject": "as large as can be"}).encode()

    assert client.post("/v1/todos", content=body.ljust(LONGEST_BODY)).status_code == 201
    client.refused("POST", "/v1/todos", 413, "too_large", content=body.ljust(LONGEST_BODY + 1))
    assert client.subjects() == ["as large as can be"]


def test_a_client_that_sends_far_too_much_still_gets_the_reason(sqlite_client: Client) -> None:
    def without_length() -> Iterator[bytes]:
        for _ in range(160):
            yield b" " * 65536

    sqlite_client.refused("POST", "/v1/todos", 413, "too_large", content=b" " * 10 * LONGEST_BODY)
    sqlite_client.refused("POST", "/v1/todos", 413, "too_large", content=without_length())
    assert sqlite_client.add()["position"] == 1


def test_a_body_may_come_in_pieces(sqlite_client: Client) -> None:
    pieces = iter([b'{"sub', b'ject": ', b"", b'"in pieces"}'])

    assert sqlite_client.ok("POST", "/v1/todos", 201, content=pieces)["todo"]["subject"] == "in pieces"


@pytest.mark.parametrize("count", [0, 501])
def test_a_batch_has_1_to_500_rows(sqlite_client: Client, count: int) -> None:
    sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json={"todos": [{"subject": "x"}] * count})
    for body in ([{"id": 1}] * count, {"todos": [{"id": 1}] * count}):
        sqlite_client.refused("PATCH", "/v1/todos", 422, "invalid", json=body)
    assert sqlite_client.subjects() == []


def test_only_twenty_rows_of_a_batch_may_name_a_place(client: Client) -> None:
    rows = [{"subject": f"number {n}", "position": 1} for n in range(21)]
    client.refused("POST", "/v1/todos", 422, "invalid", json={"todos": rows})
    todos = client.ok("POST", "/v1/todos", 201, json={"todos": rows[:20]})["todos"]
    changes = [{"id": todo["id"], "position": 5} for todo in todos] + [{"id": todos[0]["id"], "position": 6}]

    client.refused("PATCH", "/v1/todos", 422, "invalid", json=changes)
    assert client.ok("PATCH", "/v1/todos", json=changes[:20])["ok"] == 20


@each_row(
    ("field", "length"),
    [("subject", 1_001), ("description", 200_001), ("completion_criteria", 200_001), ("agent_id", 201), ("agent_type", 201)],
)
def test_text_has_a_length(sqlite_client: Client, field: str, length: int) -> None:
    detail = sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": "x", field: "y" * length})

    assert detail.startswith(f"{field}: ")


def test_a_method_that_a_path_does_not_take_is_405_and_names_all_that_it_takes(sqlite_client: Client) -> None:
    operations = list_operations(sqlite_client)
    for place, path in enumerate(sorted({operation.path for operation in operations})):
        example = next(operation for operation in operations if operation.path == path).at()
        allowed_methods = {operation.method for operation in operations if operation.path == path}
        others = sorted({*METHODS, "PROPFIND"} - allowed_methods)
        for method in others if place == 0 else [others[place % len(others)]]:
            answer = sqlite_client.request(method, example)
            assert answer.status_code == 405, (method, example)
            assert set(answer.headers["allow"].split(", ")) == allowed_methods
            if method != "HEAD":
                check_problem(answer, 405, "method_not_allowed")


@each_row(
    "path", ["/v1", "/v1/", "/v2/todos", "/v1/todos/", "/v1/todos/1/", "/v1/todos/1/nonsense", "/v1/todos/ready/heartbeat", "/%00"]
)
def test_a_path_that_is_not_there_is_404(sqlite_client: Client, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        sqlite_client.refused(method, path, 404, "no_such_path")


@each_row("key", ["", "x" * 256, "a\tb", "über".encode()])
def test_an_idempotency_key_is_short_printable_ascii(client: Client, key: str | bytes) -> None:
    raw = key if isinstance(key, bytes) else key.encode()
    detail = client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": "x"}, headers=[(b"Idempotency-Key", raw)])

    assert "Idempotency-Key" in detail
    assert client.subjects() == []


@each_row("number", ["0" * 19 + "1" + "9" * 20, "0" * 30, "9" * 4_420, "9223372036854775808"])
@each_row("path", ["/v1/todos/{}", "/v1/conversations/{}", "/v1/conversations/{}/events"])
def test_an_id_that_no_row_can_have_is_refused(sqlite_client: Client, path: str, number: str) -> None:
    check_problem(sqlite_client.get(path.format(number)), 422)

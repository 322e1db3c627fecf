"""/v1/todos: end times given by the caller, and ended todos that are reopened."""

import time
from typing import Any

import pytest

from tests.surfaces.server_harness import Client

LONG_AGO = 1_500_000_000
TOO_EARLY = "completed_at is only accepted with an ended status (completed or canceled); this todo is pending."


def test_an_end_is_stamped_unless_the_caller_gives_a_time(client: Client) -> None:
    """001: "any transition into completed or canceled sets completed_at = now() unless the caller passes a value explicitly"."""
    before = int(time.time())
    assert client.add(status="completed")["completed_at"] >= before
    assert client.add(status="canceled", completed_at=LONG_AGO)["completed_at"] == LONG_AGO
    assert client.change(client.add(), status="completed")["completed_at"] >= before
    changed = client.change(client.add(), status="cancelled", completed_at=LONG_AGO + 0.5)
    assert changed["completed_at"] == LONG_AGO
    assert client.change(changed, completed_at=LONG_AGO + 1)["completed_at"] == LONG_AGO + 1
    assert client.ok("GET", f"/v1/todos/{changed['id']}")["todo"]["completed_at"] == LONG_AGO + 1
    assert client.add(completed_at=None)["completed_at"] == 0


def test_batches_take_the_time_of_an_end_too(client: Client) -> None:
    rows = [{"subject": "old", "status": "completed", "completed_at": LONG_AGO}, {"subject": "open"}]
    old, open_todo = client.ok("POST", "/v1/todos", 201, json={"todos": rows})["todos"]
    assert (old["completed_at"], open_todo["completed_at"], open_todo["position"]) == (LONG_AGO, 0, 1)

    other = client.add("other")
    changes = [
        {"id": open_todo["id"], "status": "canceled", "completed_at": LONG_AGO + 1},
        {"id": other["id"], "completed_at": LONG_AGO},
        {"id": old["id"], "completed_at": "then"},
    ]
    answer = client.ok("PATCH", "/v1/todos", json=changes)
    assert (answer["ok"], answer["errors"]) == (1, 2)
    assert answer["results"][0]["todo"]["completed_at"] == LONG_AGO + 1
    assert answer["results"][1]["error"] == TOO_EARLY
    assert "completed_at" in answer["results"][2]["error"]

    bad = [{"subject": "fine"}, {"subject": "x", "completed_at": LONG_AGO}]
    assert client.refused("POST", "/v1/todos", 422, "invalid", json={"todos": bad}) == TOO_EARLY
    assert "fine" not in client.subjects()


def test_an_open_todo_takes_no_time_of_its_end(client: Client) -> None:
    todo, ended = client.add(), client.add("ended", status="completed")
    path, time_alone = f"/v1/todos/{todo['id']}", {"completed_at": LONG_AGO}

    assert client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": "x", **time_alone}) == TOO_EARLY
    assert client.refused("PATCH", path, 422, "invalid", json=time_alone) == TOO_EARLY
    detail = client.refused("PATCH", path, 422, "invalid", json={"status": "in_progress", **time_alone})
    assert detail.endswith("this todo is in_progress.")
    reopening = {"status": "pending", **time_alone}
    assert client.refused("PATCH", f"/v1/todos/{ended['id']}", 422, "invalid", json=reopening) == TOO_EARLY
    assert client.ok("GET", path)["todo"] == todo
    assert client.ok("GET", f"/v1/todos/{ended['id']}")["todo"] == ended


@pytest.mark.parametrize("bad", ["0", "-1", "0.5", "1e300", "9223372036854775808", "1700000000000", "NaN", "true", '"1700000000"'])
def test_a_time_that_cannot_be_one_is_refused_by_name(client: Client, bad: str) -> None:
    todo = client.add()
    for method, path, rest in (("POST", "/v1/todos", '"subject": "x", '), ("PATCH", f"/v1/todos/{todo['id']}", "")):
        answer = client.request(method, path, content=f'{{{rest}"status": "completed", "completed_at": {bad}}}')
        assert answer.status_code in (400, 422), answer.text
        assert bad == "NaN" or "completed_at" in answer.json()["detail"]
    assert client.subjects() == ["write it down"]


@pytest.mark.parametrize("end", ["completed", "canceled"])
def test_a_patch_to_in_progress_reopens_and_starts_an_ended_todo_in_one_move(client: Client, end: str) -> None:
    """001: "completed_at = 0 until terminal"."""
    todo = client.change(client.add(), status=end, outcome="said to be done")
    before = int(time.time())
    reopened = client.change(todo, status="in_progress")

    assert (reopened["status"], reopened["completed_at"], reopened["outcome"]) == ("in_progress", 0, None)
    assert reopened["started_at"] >= before
    client.change(reopened, status=end)
    (result,) = client.ok("PATCH", "/v1/todos", json=[{"id": todo["id"], "status": "in_progress"}])["results"]
    assert (result["ok"], result["todo"]["status"], result["todo"]["completed_at"]) == (True, "in_progress", 0)


def test_tools_and_writs_do_not_start_an_ended_todo_and_say_how_to_reopen_it(client: Client) -> None:
    todo: dict[str, Any] = client.add(status="completed")
    update = {"arguments": {"id": todo["id"], "status": "in_progress"}}
    answer = client.ok("POST", "/v1/tools/todo_update", json=update)
    assert answer["is_error"]
    assert "Reopen it first" in answer["result"]["error"]
    output = client.ok("POST", "/v1/writs", json={"text": f"/todo start {todo['id']}"})["output"]
    assert f"ERR: Todo {todo['id']} is completed and cannot be started. Reopen it first" in output
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == todo


def test_a_seeded_todo_that_has_ended_takes_no_position_among_the_open_ones(client: Client) -> None:
    """001: "append-order counter within (tenant_id, conversation_id, status='pending')"."""
    first = client.add("first")
    client.add("archived", status="completed")
    client.add("archived at the front", status="canceled", position=1)

    assert (first["position"], client.add("second")["position"]) == (1, 2)
    assert client.subjects(status="pending") == ["first", "second"]
    assert client.ok("GET", f"/v1/todos/{first['id']}")["todo"] == first

"""/v1/todos: creating, reading, changing, claiming and deleting."""

import time
from typing import Any

import pytest

from headway.actions.todos import claims
from headway.testing import TenantHarness
from tests.surfaces.server_harness import Client, Service

FIELDS = {
    "id": int,
    "conversation_id": int,
    "turn_id": str | None,
    "agent_id": str,
    "subject": str,
    "description": str,
    "completion_criteria": str,
    "agent_type": str | None,
    "status": str,
    "position": int,
    "outcome": str | None,
    "checks": list,
    "proof": str,
    "completed_by": str | None,
    "priority": str,
    "due": int | None,
    "labels": list,
    "depends_on": list,
    "created_at": int,
    "updated_at": int,
    "started_at": int,
    "completed_at": int,
}


def test_a_todo_needs_a_subject_and_nothing_else(client: Client) -> None:
    before = int(time.time())
    todo = client.ok("POST", "/v1/todos", 201, json={"subject": "  file the ticket "})["todo"]

    assert list(todo) == list(FIELDS)
    assert all(isinstance(todo[name], kind) for name, kind in FIELDS.items())
    assert before <= todo["created_at"] == todo["updated_at"] <= time.time()
    assert todo | {"id": 0, "created_at": 0, "updated_at": 0} == {
        "id": 0,
        "conversation_id": 0,
        "turn_id": None,
        "agent_id": "index",
        "subject": "file the ticket",
        "description": "",
        "completion_criteria": "",
        "agent_type": None,
        "status": "pending",
        "position": 1,
        "outcome": None,
        "checks": [],
        "proof": "none",
        "completed_by": None,
        "priority": "normal",
        "due": None,
        "labels": [],
        "depends_on": [],
        "created_at": 0,
        "updated_at": 0,
        "started_at": 0,
        "completed_at": 0,
    }


def test_a_todo_keeps_everything_it_was_given(client: Client) -> None:
    conversation = client.conversation()
    turn = client.turn(conversation)
    waits_for = [client.add()["id"], client.add()["id"]]
    fields: dict[str, Any] = {
        "subject": "naïve 😀 \u202e subject",
        "description": "lines\nand\ttabs\r\n\u2028\x85 and \x1b[31m",
        "completion_criteria": "it is done",
        "agent_type": "writer",
        "agent_id": "ada",
        "conversation_id": conversation,
        "turn_id": turn,
        "status": "in_progress",
        "position": 7,
        "depends_on": waits_for[::-1],
    }
    todo = client.add(**fields)

    assert {name: todo[name] for name in fields} == fields | {"depends_on": waits_for}
    assert todo["started_at"] == todo["created_at"]
    assert client.ok("GET", f"/v1/todos/{todo['id']}") == {"todo": todo}


def test_a_number_may_be_written_with_a_point(client: Client) -> None:
    first = client.add()
    body = f'{{"subject": "second", "position": 5.0, "depends_on": [{first["id"]}.0]}}'
    todo = client.ok("POST", "/v1/todos", 201, content=body)["todo"]

    assert (todo["position"], todo["depends_on"]) == (5, [first["id"]])


def test_several_todos_are_written_in_one_request_and_keep_their_order(client: Client) -> None:
    created = client.ok("POST", "/v1/todos", 201, json={"todos": [{"subject": f"todo {n}"} for n in range(500)]})["todos"]

    assert [todo["subject"] for todo in created] == [f"todo {n}" for n in range(500)] == client.subjects()
    assert [todo["position"] for todo in created] == list(range(1, 501))


@pytest.mark.parametrize(
    "bad", [{"subject": " "}, {"subject": "x", "depends_on": [10**15]}, {"subject": "x", "conversation_id": 10**15}]
)
def test_a_batch_with_one_bad_row_writes_and_emits_nothing(client: Client, bad: dict[str, Any]) -> None:
    answer = client.post("/v1/todos", json={"todos": [{"subject": "good"}, bad, {"subject": "good, too"}]})

    assert answer.status_code in (404, 422)
    assert (client.subjects(), client.desk.events()) == ([], [])


def test_a_taken_position_is_freed_by_moving_the_others(client: Client) -> None:
    for subject in ("first", "second"):
        client.add(subject)
    between = client.add("between", position=2)
    assert client.subjects() == ["first", "between", "second"]

    client.change(between, position=1)
    assert client.subjects() == ["between", "first", "second"]


def test_a_change_sets_the_named_fields_and_leaves_the_rest(client: Client) -> None:
    other = client.add("other")
    todo = client.add("before", description="kept", agent_type="writer")
    changed = client.change(
        todo,
        subject="after",
        completion_criteria="when it is so",
        agent_type="coder",
        status="completed",
        position=9,
        outcome="went well",
        depends_on=[other["id"]],
    )

    assert changed == todo | {
        "subject": "after",
        "completion_criteria": "when it is so",
        "agent_type": "coder",
        "status": "completed",
        "position": 9,
        "outcome": "went well",
        "depends_on": [other["id"]],
        "updated_at": changed["updated_at"],
        "completed_at": changed["completed_at"],
        "completed_by": "person",
    }
    assert changed["completed_at"] >= todo["created_at"]
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == changed


def test_null_clears_nullable_fields_and_leaves_the_rest(client: Client) -> None:
    todo = client.add("kept", description="kept", agent_type="writer")
    client.change(todo, outcome="said too soon")

    cleared = client.change(todo, agent_type=None, outcome=None, subject=None, description=None, status=None, position=None)
    assert cleared == todo | {"agent_type": None, "updated_at": cleared["updated_at"]}


def test_an_empty_change_emits_nothing(client: Client) -> None:
    todo = client.add()
    events = client.desk.events()

    assert client.change(todo) == todo
    assert client.change(todo, status="pending", subject=todo["subject"]) == todo
    assert client.desk.events() == events


def test_a_todo_moves_as_the_ledger_allows(client: Client) -> None:
    todo = client.add()
    started = client.change(todo, status="in_progress")
    canceled = client.change(todo, status="cancelled", outcome="no longer needed")

    assert (started["status"], started["started_at"] > 0, started["completed_at"]) == ("in_progress", True, 0)
    assert (canceled["status"], canceled["started_at"], canceled["completed_at"] > 0) == ("canceled", started["started_at"], True)
    assert client.change(todo, status="canceled") == canceled
    detail = client.refused("PATCH", f"/v1/todos/{todo['id']}", 409, "illegal_transition", json={"status": "completed"})
    assert "it can become pending" in detail
    reopened = client.change(todo, status="pending")
    assert (reopened["started_at"], reopened["completed_at"], reopened["outcome"]) == (0, 0, None)


def test_each_row_of_a_batch_of_changes_is_on_its_own(client: Client, service: Service) -> None:
    first, second, ended = client.add("first"), client.add("second"), client.add("ended", status="completed")
    with service.tenant() as stranger:
        foreign = stranger.add("theirs")
        rows = [
            {"id": first["id"], "status": "in_progress"},
            {"id": second["id"], "subject": " "},
            {"id": ended["id"], "status": "canceled"},
            {"id": foreign["id"], "subject": "mine now"},
            {"id": second["id"], "nonsense": 1},
            {"id": second["id"], "subject": "zweitens"},
        ]
        for body in (rows, {"todos": rows}):
            answer = client.ok("PATCH", "/v1/todos", json=body)
            assert (answer["ok"], answer["errors"]) == (2, 4)
            assert [(row["id"], row["ok"]) for row in answer["results"]] == [
                (first["id"], True),
                (second["id"], False),
                (ended["id"], False),
                (foreign["id"], False),
                (second["id"], False),
                (second["id"], True),
            ]
            good, bad = answer["results"][0], answer["results"][3]
            assert good["todo"]["status"] == "in_progress"
            assert bad == {"id": foreign["id"], "ok": False, "error": f"No todo {foreign['id']}."}
        assert stranger.subjects() == ["theirs"]
    assert client.subjects() == ["first", "zweitens", "ended"]


@pytest.mark.parametrize("field", ["subject", "position", "agent_type"])
def test_nan_in_a_row_is_refused_and_changes_nothing(client: Client, field: str) -> None:
    todo = client.add(agent_type="writer")
    answer = client.ok("PATCH", "/v1/todos", content=f'[{{"id": {todo["id"]}, "{field}": NaN}}]')

    assert (answer["ok"], answer["errors"]) == (0, 1)
    assert field in answer["results"][0]["error"]
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == todo


def test_a_deleted_todo_is_gone_and_its_dependants_are_ready(client: Client) -> None:
    todo = client.add("first")
    waiting = client.add("second", depends_on=[todo["id"]])

    assert client.ok("DELETE", f"/v1/todos/{todo['id']}") == {"deleted": True}
    for method in ("GET", "DELETE"):
        client.refused(method, f"/v1/todos/{todo['id']}", 404, "not_found")
    assert [row["id"] for row in client.ok("GET", "/v1/todos/ready")["todos"]] == [waiting["id"]]


def test_a_row_of_a_turns_plan_is_never_deleted(client: Client) -> None:
    conversation = client.conversation()
    row = client.add(conversation_id=conversation, turn_id=client.turn(conversation))

    client.refused("DELETE", f"/v1/todos/{row['id']}", 409, "turn_rows_stay")
    assert client.ok("GET", f"/v1/todos/{row['id']}")["todo"] == row


def test_a_dependant_is_not_ready_until_all_its_dependencies_have_ended(client: Client) -> None:
    first, second = client.add("first"), client.add("second")
    client.add("last", depends_on=[first["id"], second["id"]])

    def ready() -> list[str]:
        return [todo["subject"] for todo in client.ok("GET", "/v1/todos/ready")["todos"]]

    assert ready() == ["first", "second"]
    client.change(first, status="completed")
    assert ready() == ["second"]
    client.change(second, status="canceled")
    assert ready() == ["last"]
    assert client.ok("GET", "/v1/todos/ready", params={"limit": 1})["todos"][0]["subject"] == "last"


def test_todos_cannot_wait_for_each_other(client: Client) -> None:
    first = client.add()
    second = client.add(depends_on=[first["id"]])

    detail = client.refused("PATCH", f"/v1/todos/{first['id']}", 422, "dependency_cycle", json={"depends_on": [second["id"]]})
    assert f"#{first['id']}" in detail


def test_a_claim_hands_out_the_next_todo_with_a_lease_and_204_when_there_is_none(client: Client) -> None:
    todo = client.add()
    before = int(time.time())
    claimed = client.ok("POST", "/v1/todos/claim", json={"agent_id": "ada", "lease_s": 30})
    nothing = client.post("/v1/todos/claim", json={"agent_id": "bob"})

    assert claimed["todo"] | {"updated_at": 0} == todo | {
        "status": "in_progress",
        "agent_id": "ada",
        "started_at": claimed["todo"]["started_at"],
        "updated_at": 0,
    }
    assert claimed["lease"]["token"]
    assert before + 30 <= claimed["lease"]["expires_at"] <= time.time() + 31
    assert (nothing.status_code, nothing.content) == (204, b"")
    assert "content-type" not in nothing.headers


def test_a_claim_can_keep_to_a_conversation(client: Client) -> None:
    ours, theirs = client.conversation(), client.conversation()
    client.add("theirs", conversation_id=theirs)
    client.add("ours", conversation_id=ours)
    body = {"agent_id": "ada", "conversation_id": ours}

    assert client.ok("POST", "/v1/todos/claim", json=body)["todo"]["subject"] == "ours"
    assert client.post("/v1/todos/claim", json=body).status_code == 204


def test_only_the_lease_holder_or_force_deletes_a_claimed_todo(client: Client) -> None:
    paths = [f"/v1/todos/{client.add(subject)['id']}" for subject in ("first", "second")]
    token, _ = (client.ok("POST", "/v1/todos/claim", json={"agent_id": "ada"})["lease"]["token"] for _ in paths)

    client.refused("DELETE", paths[0], 409, "leased")
    client.refused("DELETE", f"{paths[0]}?force=false", 409, "leased")
    client.refused("DELETE", f"{paths[0]}?lease_token=another", 409, "lease_lost")
    client.refused("DELETE", f"{paths[0]}?force=1", 422, "invalid")

    assert client.ok("DELETE", f"{paths[0]}?lease_token={token}") == {"deleted": True}
    assert client.ok("DELETE", f"{paths[1]}?force=true") == {"deleted": True}
    for path in paths:
        client.refused("GET", path, 404, "not_found")


def test_only_the_lease_holder_or_force_changes_a_claimed_todo(client: Client) -> None:
    todo = client.add()
    token = client.ok("POST", "/v1/todos/claim", json={"agent_id": "ada"})["lease"]["token"]

    detail = client.refused("PATCH", f"/v1/todos/{todo['id']}", 409, "leased", json={"subject": "mine"})
    assert "'ada'" in detail
    client.refused("PATCH", f"/v1/todos/{todo['id']}", 409, "lease_lost", json={"subject": "mine", "lease_token": "guessed"})
    assert client.change(todo, subject="by its holder", lease_token=token)["subject"] == "by its holder"
    assert client.change(todo, subject="by force", force=True)["subject"] == "by force"
    assert client.change(todo, status="completed", lease_token=token)["status"] == "completed"
    client.refused("PATCH", f"/v1/todos/{todo['id']}", 409, "lease_lost", json={"subject": "too late", "lease_token": token})


def test_an_owner_that_was_late_is_refused_once_another_has_taken_over(client: Client, service: Service) -> None:
    todo = client.add()
    with service.ago(3600) as earlier:
        late = earlier.write(lambda tx: claims.claim(tx, client.desk.tenant.id, "late"))
    assert late is not None
    taken = client.ok("POST", "/v1/todos/claim", json={"agent_id": "next"})
    as_late = {"lease_token": late.lease.token}

    assert (taken["todo"]["id"], taken["todo"]["agent_id"]) == (todo["id"], "next")
    client.refused("PATCH", f"/v1/todos/{todo['id']}", 409, "lease_lost", json={"status": "completed"} | as_late)
    client.refused("POST", f"/v1/todos/{todo['id']}/heartbeat", 409, "lease_lost", json=as_late)
    done = client.change(todo, status="completed", lease_token=taken["lease"]["token"])
    assert (done["status"], done["agent_id"]) == ("completed", "next")


def test_a_heartbeat_keeps_the_lease_for_longer(client: Client) -> None:
    todo = client.add()
    lease = client.ok("POST", "/v1/todos/claim", json={"agent_id": "ada", "lease_s": 10})["lease"]
    renewed = client.ok("POST", f"/v1/todos/{todo['id']}/heartbeat", json={"lease_token": lease["token"], "lease_s": 1000})

    assert renewed["lease"]["token"] == lease["token"]
    assert renewed["lease"]["expires_at"] >= lease["expires_at"] + 980
    assert renewed["todo"]["id"] == todo["id"]
    client.refused("POST", f"/v1/todos/{todo['id']}/heartbeat", 409, "lease_lost", json={"lease_token": "guessed"})


def test_a_late_owner_that_was_not_replaced_may_continue(client: Client, service: Service) -> None:
    todo = client.add()
    with service.ago(3600) as earlier:
        late = earlier.write(lambda tx: claims.claim(tx, client.desk.tenant.id, "late"))
    assert late is not None
    body = {"lease_token": late.lease.token}

    assert client.ok("POST", f"/v1/todos/{todo['id']}/heartbeat", json=body)["lease"]["expires_at"] > time.time()
    assert client.change(todo, status="completed", **body)["status"] == "completed"


def test_changes_over_http_are_in_the_ledger(client: Client) -> None:
    todo = client.add()
    client.change(todo, status="in_progress")
    client.ok("DELETE", f"/v1/todos/{todo['id']}")

    assert [(change, row["status"]) for change, row in client.desk.changes()] == [
        ("created", "pending"),
        ("updated", "in_progress"),
        ("deleted", "in_progress"),
    ]


def test_a_todo_of_the_ledger_is_visible_over_http(client: Client) -> None:
    desk: TenantHarness = client.desk
    todo = desk.add("written behind the door")

    assert client.ok("GET", f"/v1/todos/{todo.id}")["todo"] == todo.as_json() | {"depends_on": []}

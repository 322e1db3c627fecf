"""Checks over REST: who writes them, what completing a todo answers, receipts, and verification."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headway.actions.installation import halts
from headway.actions.todos import proof
from headway.ledger.check import ReceiptDraft
from tests.surfaces.server_harness import Client, Service, admin_headers, run_server, wait_until
from tests.surfaces.test_http_idempotency import new_key, response_parts
from tests.tables import each_row

NUMBER = {"kind": "outcome", "schema": {"type": "integer", "minimum": 3}, "name": "a count"}
COMPLETED = {"status": "completed"}


@pytest.fixture
def operator(sqlite_service: Service) -> Iterator[Client]:
    with sqlite_service.operator() as client:
        yield client


def list_receipts(client: Client, todo: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.ok("GET", f"/v1/todos/{todo['id']}/receipts")["receipts"]
    return found


def test_a_failing_check_refuses_completion_and_a_passing_one_proves_it(client: Client) -> None:
    todo = client.add("count", checks=[NUMBER])
    assert (todo["checks"], todo["proof"]) == ([{**NUMBER, "by": "person"}], "unproven")

    refusal = client.patch(f"/v1/todos/{todo['id']}", json={**COMPLETED, "outcome": "2"})
    problem = refusal.json()
    assert (refusal.status_code, problem["code"]) == (409, "check_failed")
    assert problem["failures"] == [
        {"check": "a count", "detail": "The outcome does not fit the schema: the value: 2 is less than the minimum of 3"}
    ]
    assert "Check failed: a count" in problem["detail"]
    assert client.ok("GET", f"/v1/todos/{todo['id']}")["todo"] == todo

    done = client.change(todo, **COMPLETED, outcome="5")
    assert (done["status"], done["proof"], done["completed_by"]) == ("completed", "proven", "check")
    passed, failed = list_receipts(client, todo)
    assert (passed["ok"], failed["ok"], passed["todo_id"], passed["made_by"]) == (True, False, todo["id"], "a test")
    assert passed["checks"][0]["check"] == {**NUMBER, "by": "person"}
    assert passed["seq"] > failed["seq"]


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "file", "path": "../../etc/passwd"}, "checks[0].path leads outside the workspace."),
    ({"kind": "http", "url": "ftp://x"}, "checks[0].url must begin with http:// or https://, and name a host."),
    ({"kind": "outcome", "schema": {"type": 7}}, "checks[0].schema.type must be one of array, boolean, integer, null, number,"),
]


@each_row("check, sentence", SENSELESS)
def test_every_door_refuses_a_check_that_makes_no_sense_with_the_same_sentence(
    client: Client, operator: Client, check: dict[str, Any], sentence: str
) -> None:
    todo = client.add("count")
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/v1/todos", {"subject": "count", "checks": [check]}),
        ("PATCH", f"/v1/todos/{todo['id']}", {"checks": [check]}),
        ("POST", "/v1/goals", {"description": "Count.", "checks": [check]}),
    ]
    for method, path, body in requests:
        assert sentence in client.refused(method, path, 422, "invalid", json=body)
    tool = client.ok("POST", "/v1/tools/todo_add", json={"arguments": {"subject": "count", "checks": [check]}})
    assert tool["is_error"]
    assert sentence in tool["result"]["error"]
    assert [row["id"] for row in client.ok("GET", "/v1/todos")["todos"]] == [todo["id"]]
    client.delete(f"/v1/todos/{todo['id']}")


def test_a_person_overrides_the_checks_with_a_reason_that_is_kept(client: Client) -> None:
    todo = client.add("count", checks=[NUMBER])
    path = f"/v1/todos/{todo['id']}"
    client.refused("PATCH", path, 422, "invalid", json={**COMPLETED, "override": " "})
    client.refused("PATCH", path, 422, "invalid", json={"override": "no status"})
    overridden = client.change(todo, **COMPLETED, override="Counted by hand.")
    assert (overridden["proof"], overridden["completed_by"]) == ("overridden", "person")
    (receipt,) = list_receipts(client, todo)
    assert (receipt["ok"], receipt["override"], receipt["made_by"]) == (False, "Counted by hand.", "a test")
    verified = client.ok("POST", f"{path}/verify")["receipt"]
    assert not verified["ok"]
    assert client.ok("GET", path)["todo"]["proof"] == "overridden"  # what a person decided is not broken
    assert client.change(todo, status="pending")["proof"] == "unproven"
    assert [row["override"] for row in list_receipts(client, todo)] == [None, "Counted by hand."]


@each_row(
    ("checks", "reason"),
    [
        ([{"kind": "magic"}], "checks.0"),
        ([{"kind": "command"}], "checks.0.command.run: Field required"),
        ([{"kind": "file", "path": "a", "sha256": "x"}], "64 hexadecimal digits"),
        ([{"kind": "command", "run": "ls", "folder": "/etc"}], "only the operator may name a folder"),
        ([NUMBER] * 21, "checks"),
    ],
)
def test_invalid_checks_are_refused(sqlite_client: Client, checks: Any, reason: str) -> None:
    assert reason in sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": "x", "checks": checks})


def test_a_todo_with_checks_cannot_be_added_as_completed(sqlite_client: Client) -> None:
    body = {"subject": "x", "status": "completed", "checks": [NUMBER]}
    assert "Add it, then complete it." in sqlite_client.refused("POST", "/v1/todos", 422, "invalid", json=body)


def test_a_person_cannot_drop_a_check_of_the_operator_but_may_add_one(operator: Client, tmp_path: Path) -> None:
    file_check = {"kind": "file", "path": "report.md", "folder": str(tmp_path)}
    todo = operator.add("report", checks=[file_check])
    with operator.again() as person:
        path = f"/v1/todos/{todo['id']}"
        assert "written by the operator" in person.refused("PATCH", path, 403, "forbidden", json={"checks": []})
        both = person.change(todo, checks=[file_check, NUMBER])["checks"]
        assert [check["by"] for check in both] == ["operator", "person"]
        assert person.patch(path, json={**COMPLETED, "outcome": "5"}).json()["failures"][0]["check"] == "file report.md"
    (tmp_path / "report.md").write_text("done")
    assert operator.change(todo, **COMPLETED, outcome="5")["proof"] == "proven"
    (tmp_path / "report.md").unlink()
    assert not operator.ok("POST", f"{path}/verify")["receipt"]["ok"]
    assert operator.ok("GET", path)["todo"]["proof"] == "broken"


def test_an_administrator_of_a_tenant_reaches_nothing_outside_of_the_workspace(sqlite_client: Client, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("a key")
    headers = admin_headers(sqlite_client)
    for check in (
        {"kind": "command", "run": "cat id_rsa; echo pwned > pwned.txt", "folder": str(tmp_path)},
        {"kind": "file", "path": "id_rsa", "contains": "a key", "folder": str(tmp_path)},
    ):
        for path, body in (("/v1/todos", {"subject": "x"}), ("/v1/goals", {"description": "x"})):
            refusal = sqlite_client.refused("POST", path, 403, "operator_only", json={**body, "checks": [check]}, headers=headers)
            assert "only the installation's operator may name a folder" in refusal
    command = {"kind": "command", "run": "echo one | tr o 0", "expect": "0ne"}
    todo = sqlite_client.ok("POST", "/v1/todos", 201, json={"subject": "x", "checks": [command]}, headers=headers)["todo"]
    assert todo["checks"] == [{**command, "by": "admin"}]
    refusal = sqlite_client.refused("PATCH", f"/v1/todos/{todo['id']}", 403, "forbidden", json=COMPLETED, headers=headers)
    assert "is not allowed (HEADWAY_COMMANDS allows no program)" in refusal
    assert [path.name for path in tmp_path.iterdir()] == ["id_rsa"]


def test_a_token_cannot_evade_checks_of_a_higher_rank(sqlite_client: Client, operator: Client) -> None:
    cases = (
        (sqlite_client, admin_headers(sqlite_client), dict(sqlite_client.headers), "an administrator"),
        (operator, dict(operator.headers), admin_headers(operator), "the operator"),
    )
    for client, higher, lower, author in cases:
        body = {"subject": "x", "checks": [NUMBER], "conversation_id": client.conversation()}
        todo = client.ok("POST", "/v1/todos", 201, json=body, headers=higher)["todo"]
        path, override = f"/v1/todos/{todo['id']}", {**COMPLETED, "override": "I say so."}
        refusals = [
            client.refused("DELETE", path, 403, "forbidden", headers=lower),
            client.refused("PATCH", path, 403, "forbidden", json=override, headers=lower),
            client.refused("DELETE", f"/v1/conversations/{body['conversation_id']}", 403, "forbidden", headers=lower),
        ]
        assert refusals == [
            f"Todo {todo['id']} has checks that {author} wrote, so this token cannot {act}. Nothing was changed."
            for act in ("delete it", "complete it without them", "delete it with its conversation")
        ]
        batch = client.ok("PATCH", "/v1/todos", json=[{"id": todo["id"], **override}], headers=lower)
        assert (batch["errors"], batch["results"][0]["error"]) == (1, refusals[1])
        assert f"written by {author}" in client.refused("PATCH", path, 403, "forbidden", json={"checks": []}, headers=lower)
        assert client.ok("GET", path)["todo"] == todo
        assert client.ok("PATCH", path, json=override, headers=higher)["todo"]["proof"] == "overridden"
        assert client.delete(f"/v1/conversations/{body['conversation_id']}", headers=higher).is_success


def test_a_command_of_the_operator_runs_in_a_shell_in_the_sandbox(operator: Client, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("3 passed")
    command = {"kind": "command", "run": "cat log | tail -1", "expect": "3 passed", "folder": str(tmp_path)}
    todo = operator.add("test it", checks=[command])
    assert operator.change(todo, **COMPLETED)["proof"] == "proven"
    (receipt,) = list_receipts(operator, todo)
    assert (receipt["checks"][0]["exit_code"], receipt["versions"]["sandbox"]) == (0, "bubblewrap")
    missing = operator.add("gone", checks=[{**command, "folder": str(tmp_path / "gone")}])
    problem = operator.patch(f"/v1/todos/{missing['id']}", json=COMPLETED).json()
    assert problem["failures"][0]["detail"] == f"The folder {tmp_path / 'gone'} does not exist."
    assert not (tmp_path / "gone").exists()


def test_each_row_of_a_batch_is_checked_on_its_own(client: Client) -> None:
    first, second, third, fourth = (client.add("count", checks=checks) for checks in ([], [NUMBER], [NUMBER], []))
    rows = [
        {"id": first["id"], "status": "completed"},
        {"id": second["id"], "status": "completed", "outcome": "1"},
        {"id": third["id"], "status": "completed", "outcome": "4"},
        {"id": fourth["id"], "status": "completed"},
    ]
    answer = client.ok("PATCH", "/v1/todos", json=rows)
    assert (answer["ok"], answer["errors"]) == (3, 1)
    assert [(row["id"], row["ok"]) for row in answer["results"]] == [(row["id"], row["id"] != second["id"]) for row in rows]
    assert answer["results"][1]["failures"][0]["check"] == "a count"
    assert [row["todo"]["proof"] for row in answer["results"] if row["ok"]] == ["none", "proven", "none"]
    assert [receipt["ok"] for receipt in list_receipts(client, second)] == [False]


def test_a_verification_with_a_key_runs_the_checks_once(client: Client) -> None:
    todo = client.change(client.add("count", checks=[NUMBER]), **COMPLETED, outcome="7")
    headers, path = new_key(), f"/v1/todos/{todo['id']}/verify"
    first, again = (client.post(path, headers=headers) for _ in range(2))
    assert response_parts(first) == response_parts(again)
    assert list_receipts(client, todo)[0]["id"] == first.json()["receipt"]["id"]
    assert len(list_receipts(client, todo)) == 2
    plain = client.add("plain")
    client.refused("POST", f"/v1/todos/{plain['id']}/verify", 422, "invalid")


def test_no_check_runs_while_everything_is_halted(sqlite_service: Service, sqlite_client: Client) -> None:
    todo, plain = sqlite_client.add("count", checks=[NUMBER]), sqlite_client.add("plain")
    sqlite_service.database.write(halts.halt)
    try:
        sqlite_client.refused("PATCH", f"/v1/todos/{todo['id']}", 503, "halted", json={**COMPLETED, "outcome": "5"})
        sqlite_client.refused("POST", f"/v1/todos/{todo['id']}/verify", 503, "halted")
        assert sqlite_client.change(plain, **COMPLETED)["status"] == "completed"
        assert sqlite_client.change(todo, **COMPLETED, override="Halted.")["proof"] == "overridden"
    finally:
        sqlite_service.database.write(halts.unhalt)


def test_two_completions_at_once_complete_the_todo_once(operator: Client, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = "echo x >> runs/log; until [ $(wc -l < runs/log) -ge 2 ]; do sleep 0.01; done"
    todo = operator.add("slow", checks=[{"kind": "command", "run": run, "folder": str(tmp_path)}])
    answers: list[int] = []

    def complete() -> None:
        answers.append(operator.patch(f"/v1/todos/{todo['id']}", json=COMPLETED).status_code)

    callers = [Thread(target=complete) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == [200, 200]
    assert (tmp_path / "runs" / "log").read_text() == "x\nx\n"
    changes = [event for event in operator.desk.changes() if (event[1]["id"], event[1]["status"]) == (todo["id"], "completed")]
    assert len(changes) == 1


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [({"checks": [NUMBER]}, 409, "check_failed"), ({"status": "canceled"}, 409, "illegal_transition"), (None, 404, "not_found")],
    ids=["edited", "canceled", "deleted"],
)
def test_a_change_while_the_checks_run_counts(operator: Client, tmp_path: Path, change: Any, status: int, code: str) -> None:
    (tmp_path / "runs").mkdir()
    run = "touch runs/started; until [ -e runs/go ]; do sleep 0.01; done"
    todo = operator.add("slow", checks=[{"kind": "command", "run": run, "folder": str(tmp_path)}])
    path, answers = f"/v1/todos/{todo['id']}", []
    caller = Thread(target=lambda: answers.append(operator.patch(path, json={**COMPLETED, "outcome": "1"})))
    caller.start()
    while not (tmp_path / "runs" / "started").exists():
        assert caller.is_alive(), answers
        caller.join(0.01)
    if change is None:
        operator.ok("DELETE", path)
    else:
        operator.change(todo, **change)
    (tmp_path / "runs" / "go").touch()
    caller.join()
    assert (answers[0].status_code, answers[0].json()["code"]) == (status, code)


def test_goals_have_checks_and_receipts(client: Client) -> None:
    goal = client.ok("POST", "/v1/goals", 201, json={"description": "Count.", "checks": [NUMBER]})["goal"]
    assert (goal["checks"], goal["proof"]) == ([{**NUMBER, "by": "person"}], "unproven")
    path = f"/v1/goals/{goal['id']}/receipts"
    draft = ReceiptDraft("goal", goal["id"], (), {}, "index")
    stored = client.desk.database.write(lambda tx: proof.store(tx, client.desk.tenant.id, draft))
    listed = client.ok("GET", path)["receipts"]  # receipts of the agent that pursues the goal may be among them
    assert stored.as_json() in listed
    assert {receipt["goal_id"] for receipt in listed} == {goal["id"]}
    client.refused("GET", "/v1/goals/987654321/receipts", 404, "not_found")


def test_tools_and_writs_of_other_agents_run_checks(client: Client) -> None:
    todo = client.ok("POST", "/v1/tools/todo_add", json={"arguments": {"subject": "count", "checks": [NUMBER]}, "agent_id": "ada"})[
        "result"
    ]["todo"]
    assert todo["checks"][0]["by"] == "agent"

    def update(outcome: str, **headers: str) -> dict[str, Any]:
        arguments = {"id": todo["id"], "status": "completed", "outcome": outcome}
        answer: dict[str, Any] = client.ok(
            "POST", "/v1/tools/todo_update", json={"arguments": arguments, "agent_id": "ada"}, headers=headers
        )
        return answer

    refusal = update("1", **new_key())
    assert refusal["is_error"]
    assert "Check failed: a count" in refusal["result"]["error"]
    assert "Check failed: a count" in client.ok("POST", "/v1/writs", json={"text": f"/todo done {todo['id']}: 2"})["output"]
    assert update("3")["result"]["todo"]["proof"] == "proven"
    assert [(receipt["ok"], receipt["made_by"]) for receipt in list_receipts(client, todo)] == [
        (True, "ada"),
        (False, "index"),
        (False, "ada"),
    ]


def test_another_agent_does_not_stand_for_the_judge_but_a_person_does(sqlite_client: Client) -> None:
    todo = sqlite_client.add("write", checks=[{"kind": "judge", "rubric": "It is kind."}])
    arguments = {"id": todo["id"], "status": "completed"}
    refusal = sqlite_client.ok("POST", "/v1/tools/todo_update", json={"arguments": arguments})["result"]["error"]
    assert "A person has to complete it." in refusal
    assert sqlite_client.change(todo, **COMPLETED)["proof"] == "proven"
    assert list_receipts(sqlite_client, todo)[0]["checks"][0]["detail"] == "Not asked: a person decides."


def test_a_server_that_stops_interrupts_checks_and_changes_nothing(tmp_path: Path) -> None:
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as service, service.operator() as client:
        command = {"kind": "command", "run": "touch started; sleep 60", "folder": str(tmp_path)}
        path, answers = f"/v1/todos/{client.add('slow', checks=[command])['id']}", []
        caller = Thread(target=lambda: answers.append(client.patch(path, json=COMPLETED)))
        caller.start()
        wait_until((tmp_path / "started").exists, "the command runs")
        schema = {"items": {"anyOf": [{"const": f"number {n}"} for n in range(300)]}}
        outcome = {**COMPLETED, "outcome": json.dumps(["number 299"] * 1_500)}  # takes many seconds to validate
        slow = f"/v1/todos/{client.add('slow', checks=[{'kind': 'outcome', 'schema': schema}])['id']}"
        validators = [Thread(target=lambda: answers.append(client.patch(slow, json=outcome))) for _ in range(3)]
        for validator in validators:
            validator.start()
        # All three: a connection that the server has not accepted when it stops gets no answer.
        wait_until(lambda: count_children(service.process.pid, "json_schemas") == 3, "the schemas are being validated")
        assert service.end().code == 0
        for thread in (caller, *validators):
            thread.join()
        assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(503, "closed")}
        assert {todo["status"] for _, todo in client.desk.changes()} == {"pending"}


def count_children(parent: int, word: str) -> int:
    """Count the processes that this one started and that have the word in their command line."""
    children = " ".join(path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")).split()
    return sum(word in path.read_text() for child in children if (path := Path(f"/proc/{child}/cmdline")).exists())

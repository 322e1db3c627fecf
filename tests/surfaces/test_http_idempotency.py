"""Idempotency-Key: a repeated request gets the same response and takes effect once."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headway.actions.access import tokens
from headway.actions.engine import webhooks
from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import inbox, jobs, runs
from headway.actions.turns import turns
from headway.ledger.goal import Goal
from headway.ledger.job import Job
from headway.ledger.run import Effect
from headway.ledger.webhook import NewWebhook
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction
from tests.surfaces.openapi_routes import list_operations
from tests.surfaces.server_harness import PATIENCE_S, Client, Service, run_server


def new_key() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}


def response_parts(answer: httpx.Response) -> tuple[int, bytes, str | None]:
    return answer.status_code, answer.content, answer.headers.get("content-type")


def test_the_same_key_and_body_get_the_same_answer_byte_for_byte_and_write_one_row(client: Client) -> None:
    headers, body = new_key(), {"subject": "once", "description": "naïve 😀"}
    first = client.post("/v1/todos", json=body, headers=headers)
    client.change(first.json()["todo"], subject="renamed since")
    again = [client.post("/v1/todos", json=body, headers=headers) for _ in range(3)]

    assert first.status_code == 201
    assert {response_parts(answer) for answer in again} == {response_parts(first)}
    assert client.subjects() == ["renamed since"]


def add_sub_agent(client: Client) -> str:
    """Create a sub-agent with a delayed job, in a new conversation. Return its run id."""
    parent = client.desk.write(turns.start_turn, client.conversation(), turns.TurnRequest("look", owner="somebody"))

    def begin(tx: Transaction) -> str:
        child = runs.begin_child(tx, parent, "coder", "fix it", 10)
        job = job_store.find_job(tx, child.tenant_id, child.id)
        assert job is not None
        jobs.delay(tx, job)  # otherwise a fast server could already have run it
        return child.id

    return client.desk.database.write(begin)


def add_checked_todo(client: Client) -> int:
    return int(client.add(checks=[{"kind": "outcome", "schema": {"type": "integer"}}])["id"])


def add_approval(client: Client) -> int:
    """Create a proposed call of a sub-agent, and return the approval's id."""

    def propose(tx: Transaction) -> int:
        run = runs.get_run(tx, client.desk.tenant.id, run_id)
        effect = Effect(0, 0, "call", "run_command", "{}", "proposed")
        return inbox.propose_call(tx, run, effect, "policy.toml, line 1", tx.now + 3_600_000).id

    run_id = add_sub_agent(client)
    return client.desk.database.write(propose)


def add_question(client: Client) -> int:
    """Create an open question of a sub-agent, and return its id."""
    run_id = add_sub_agent(client)
    return client.desk.database.write(lambda tx: inbox.ask(tx, runs.get_run(tx, client.desk.tenant.id, run_id), "Which?")).id


def add_turn(client: Client) -> str | None:
    """Start a turn that another process answers, in a new conversation. Return its id."""
    return client.desk.write(turns.start_turn, client.conversation(), turns.TurnRequest("look", owner="somebody")).turn_id


def add_tool_job(client: Client) -> str:
    """Create a job that is due tomorrow, so that no worker takes it. Return its id."""

    def create(tx: Transaction, tenant_id: int) -> Job:
        job = jobs.create_job(tx, tenant_id, "tool", {"name": "now", "arguments": {}})
        return jobs.move(tx, job, "delayed", tx.now + 86_400_000)

    return client.desk.write(create).id


def add_webhook(client: Client) -> str:
    return client.desk.write(webhooks.create_webhook, NewWebhook("https://receiver.invalid/"), ("*",)).webhook.id


def add_idle_goal(tx: Transaction, tenant_id: int) -> Goal:
    """Add a goal whose job is not due, or the server would pursue it at once."""
    goal = goals.add_goal(tx, tenant_id, NewGoal("peace"))
    jobs.delay(tx, jobs.get_locked_job(tx, tenant_id, goal.run_id or ""))
    return goal


def add_goal(client: Client, verb: str) -> int:
    """Add a goal to which this can be done."""
    if verb == "pause":
        return client.desk.write(add_idle_goal).id
    proposed = client.desk.write(goals.propose, NewGoal("peace"), "it is wanted")
    return client.desk.write(goals.abandon, proposed.id).id if verb == "run-again" else proposed.id


OF_THE_INSTALLATION = ("/v1/tenants", "/v1/mcp-servers/{name}/reconnect")  # tested with the rest of it, in another file


@pytest.fixture
def somebody(service: Service) -> Iterator[None]:
    """A live process of this name. Otherwise the server would take over what it runs."""
    with service.beside("somebody"):
        yield


@pytest.mark.usefixtures("somebody")
def test_every_post_of_the_api_takes_a_key(client: Client) -> None:
    client.headers["Authorization"] = f"Bearer {client.desk.write(tokens.create_token, scope='admin').secret}"
    conversation = client.conversation()
    turn = client.turn(conversation)
    todo = client.add()
    lease = client.ok("POST", "/v1/todos/claim", json={"agent_id": "ada"})["lease"]["token"]
    forkable = client.conversation()
    client.desk.write(turns.start_turn, forkable, turns.TurnRequest("look", owner="somebody"))
    (message,) = client.desk.read(turns.list_messages, forkable, 1)
    bodies: dict[str, Any] = {
        "/v1/turns/{turn_id}/fork": {"at": 0},
        "/v1/conversations/{conversation_id}/fork": {"at": message.id},
        "/v1/conversations/{conversation_id}/restore": {},
        "/v1/goals/{goal_id}/fork": {"at": 1},
        "/v1/todos": {"subject": "once"},
        "/v1/todos/claim": {"agent_id": "ada"},
        "/v1/todos/{todo_id}/verify": None,
        "/v1/todos/{todo_id}/heartbeat": {"lease_token": lease, "lease_s": 3600},
        "/v1/conversations": {"title": "once"},
        "/v1/turns": {"conversation_id": conversation},
        "/v1/turns/{turn_id}/cancel": None,
        "/v1/turns/{turn_id}/stop": {"answer": "done"},
        "/v1/turns/{turn_id}/messages": {"content": "hello"},
        "/v1/conversations/{conversation_id}/messages": {"content": "hello"},
        "/v1/tools/{name}": {"arguments": {"subject": "once"}},
        "/v1/writs": {"text": "/todo add once"},
        "/v1/jobs/{job_id}/retry": None,
        "/v1/agents/{run_id}/cancel": None,
        "/v1/agents/{run_id}/messages": {"content": "hello"},
        "/v1/schedules/{name}/pause": None,
        "/v1/schedules/{name}/resume": None,
        "/v1/schedules/{name}/run": None,
        "/v1/goals": {"description": "once"},
        "/v1/goals/{goal_id}/pause": None,
        "/v1/goals/{goal_id}/resume": None,
        "/v1/goals/{goal_id}/decision": {"action": "continue"},
        "/v1/goals/{goal_id}/abandon": None,
        "/v1/goals/{goal_id}/run-again": None,
        "/v1/jobs/{job_id}/cancel": None,
        "/v1/notices/done": {"ids": [1]},
        "/v1/jobs/dead": {"action": "drop", "kind": "goal"},
        "/v1/inbox/{request_id}": {"decision": "reject"},
        "/v1/approvals/{approval_id}": {"decision": "reject"},
        "/v1/questions/{question_id}": {"answer": "once"},
        "/v1/memory": {"text": "once"},
        "/v1/todos/{todo_id}/comments": {"text": "once"},
        "/v1/views": {"name": "once", "filters": {}},
        "/v1/webhooks": {"url": "https://receiver.invalid/"},
        "/v1/webhooks/{webhook_id}/rotate": {},
        "/v1/webhooks/{webhook_id}/replay": {"after": 0},
        "/v1/webhooks/{webhook_id}/test": None,
        "/v1/tokens": {"label": "once"},
        "/v1/policy/test": {"tool": "now"},
        "/v1/tiers/{tier}/try": {"message": "hello"},
        "/v1/tokens/{token_id}/rotate": {},
        "/v1/ag-ui": {"threadId": "once", "runId": "1", "messages": [{"role": "user", "content": "hello"}]},
        "/v1/chat/completions": {"model": "index", "messages": [{"role": "user", "content": "hello"}]},
        "/v1/responses": {"model": "index", "input": "hello"},
        "/v1/responses/{response_id}/cancel": None,
        "/v1/ui-stream/{key}/stop": None,
        "/v1/ui-stream": {"id": "twice", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}]},
    }
    dead = client.desk.write(jobs.create_job, "tool", {"name": "now", "arguments": {}}, owner="somebody")
    client.desk.database.write(lambda tx: jobs.fail_permanently(tx, dead, "made up"))
    client.ok("PUT", "/v1/schedules/todo_add", json={"every_s": 86_400, "tool": {"name": "now"}})
    add_named: dict[str, Callable[[str], object]] = {
        "tier": lambda _verb: "strong",
        "name": lambda _verb: "todo_add",
        "todo_id": lambda verb: add_checked_todo(client) if verb == "verify" else todo["id"],
        "turn_id": lambda verb: turn if verb == "cancel" else client.turn(conversation) if verb == "stop" else add_turn(client),
        "conversation_id": lambda verb: forkable if verb == "fork" else conversation,
        "job_id": lambda verb: dead.id if verb == "retry" else add_tool_job(client),
        "key": lambda _verb: "twice",
        "response_id": lambda _verb: f"resp_{add_turn(client)}",
        "run_id": lambda _verb: add_sub_agent(client),
        "request_id": lambda _verb: add_approval(client),
        "approval_id": lambda _verb: add_approval(client),
        "question_id": lambda _verb: add_question(client),
        "token_id": lambda _verb: client.token_id,
        "webhook_id": lambda _verb: add_webhook(client),
        "goal_id": lambda verb: add_goal(client, verb),
    }
    for operation in list_operations(client):
        if operation.method == "POST" and operation.path not in OF_THE_INSTALLATION:
            verb = operation.path.rpartition("/")[2]
            path = re.sub(r"\{(.*?)\}", lambda found: str(add_named[found[1]](verb)), operation.path)  # noqa: B023  called at once
            headers = new_key()
            first, second = (client.post(path, json=bodies[operation.path], headers=headers) for _ in range(2))
            assert first.is_success, (path, first.text)
            if operation.path in ("/v1/ag-ui", "/v1/ui-stream"):  # a replay has no live text
                assert first.status_code == second.status_code
            elif operation.path.startswith(("/v1/tokens", "/v1/webhooks")) and "secret" in first.json():  # secrets are not stored
                assert first.json()["secret"].startswith(("hw_", "whsec_"))
                assert second.json() == {**first.json(), "secret": None}
            else:
                assert response_parts(first) == response_parts(second), path
            assert any(parameter["name"] == "Idempotency-Key" for parameter in operation.definition["parameters"])


def test_a_claim_that_found_nothing_finds_nothing_again(client: Client) -> None:
    headers, body = new_key(), {"agent_id": "ada"}
    first = client.post("/v1/todos/claim", json=body, headers=headers)
    client.add()

    assert response_parts(client.post("/v1/todos/claim", json=body, headers=headers)) == response_parts(first) == (204, b"", None)
    assert client.post("/v1/todos/claim", json=body, headers=new_key()).status_code == 200


def test_the_same_key_with_another_body_is_refused_and_does_nothing(client: Client) -> None:
    headers = new_key()
    first = client.post("/v1/todos", json={"subject": "first"}, headers=headers)

    client.refused("POST", "/v1/todos", 409, "key_reused", json={"subject": "second"}, headers=headers)
    assert client.subjects() == ["first"]
    assert response_parts(client.post("/v1/todos", json={"subject": "first"}, headers=headers)) == response_parts(first)


def test_a_refusal_is_given_again_even_if_it_would_no_longer_be_one(client: Client) -> None:
    later = client.add()["id"] + 1
    headers, body = new_key(), {"subject": "x", "depends_on": [later]}
    first = client.post("/v1/todos", json=body, headers=headers)
    while client.add()["id"] < later:
        pass

    assert first.status_code == 404
    assert response_parts(client.post("/v1/todos", json=body, headers=headers)) == response_parts(first)
    assert client.post("/v1/todos", json=body, headers=new_key()).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/todos", {"subject": " "}, 422),
        ("/v1/todos", {"subject": "x", "conversation_id": 10**15}, 404),
        ("/v1/conversations", {"key": "taken"}, 409),
    ],
)
def test_a_key_that_was_refused_is_used_up(client: Client, path: str, body: dict[str, Any], status: int) -> None:
    client.conversation(key="taken")
    headers = new_key()
    first, second = (client.post(path, json=body, headers=headers) for _ in range(2))
    good = {"subject": "x"} if path == "/v1/todos" else {}

    assert first.status_code == status
    assert response_parts(first) == response_parts(second)
    client.refused("POST", path, 409, "key_reused", json=good, headers=headers)


def test_a_key_means_something_else_on_another_route(client: Client) -> None:
    headers = new_key()
    conversation = client.conversation()
    body = {"conversation_id": conversation}
    todo = client.post("/v1/todos", json={"subject": "x"} | body, headers=headers)
    turn = client.post("/v1/turns", json=body, headers=headers)

    assert (todo.status_code, turn.status_code) == (201, 201)


def test_a_key_means_something_else_to_another_tenant(client: Client, service: Service) -> None:
    headers, body = new_key(), {"subject": "x"}
    with service.tenant() as other:
        ours, theirs = (caller.ok("POST", "/v1/todos", 201, json=body, headers=headers)["todo"]["id"] for caller in (client, other))

        assert ours != theirs
        assert (len(client.subjects()), len(other.subjects())) == (1, 1)


def test_a_key_means_the_same_to_every_token_of_a_tenant(client: Client) -> None:
    headers, body = new_key(), {"subject": "x"}
    with client.again() as other:
        first, second = (caller.post("/v1/todos", json=body, headers=headers) for caller in (client, other))

    assert response_parts(first) == response_parts(second)


def send_together(clients: list[Client], body: dict[str, Any], headers: dict[str, str]) -> list[tuple[int, bytes, str | None]]:
    """Send the same request from all clients at the same moment. Return their responses."""
    together = Barrier(len(clients), timeout=PATIENCE_S)

    def send(caller: Client) -> tuple[int, bytes, str | None]:
        assert caller.get("/healthz").status_code == 200  # the connection is established
        together.wait()
        return response_parts(caller.post("/v1/todos", json=body, headers=headers))

    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(send, clients))


def test_when_eight_come_at_once_one_acts_and_all_get_its_answer(client: Client) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(client.again()) for _ in range(8)]
        for n in range(5):
            answers = set(send_together(clients, {"subject": f"round {n}"}, new_key()))
            assert len(answers) == 1
            assert answers.pop()[0] == 201
            assert client.subjects().count(f"round {n}") == 1


def test_an_answer_outlives_the_server(tmp_path: Path, database_url: str) -> None:
    headers, body = new_key(), {"subject": "once"}
    with run_server(database_url, tmp_path) as service, service.tenant() as client:
        first = client.post("/v1/todos", json=body, headers=headers)
        refused = client.post("/v1/todos", json={"subject": "x", "depends_on": [999]}, headers=headers)
        service.end()
        with run_server(database_url, tmp_path) as restarted:
            client.base_url = httpx.URL(restarted.url)
            again = client.post("/v1/todos", json=body, headers=headers)
            assert response_parts(again) == response_parts(first)
            assert (first.status_code, refused.status_code) == (201, 409)
            assert client.subjects() == ["once"]


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_other_methods_ignore_a_key(sqlite_client: Client, method: str) -> None:
    todo = sqlite_client.add()
    headers = new_key()
    body = {"subject": "again"} if method == "PATCH" else None
    first, second = (sqlite_client.request(method, f"/v1/todos/{todo['id']}", json=body, headers=headers) for _ in range(2))

    assert first.status_code == 200
    assert second.status_code == (200 if method == "PATCH" else 404)

"""/v1/jobs and /v1/agents: job states, dead letters, retries, and running agents."""

from functools import partial
from typing import Any
from uuid import uuid4

from headway.actions.access import tokens
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.ledger.job import Job
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.model_server import ModelServer, Reply, Request, calls, error, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service, wait_until
from tests.tables import each_row

SHAPE = {"id", "kind", "state", "attempts", "max_attempts", "error", "errors", "payload", "result", "due_at"}
RUN_SHAPE = {"id", "parent_run_id", "conversation_id", "turn_id", "role", "task", "depth", "status", "result", "iterations"}
RUN_SHAPE |= {"goal_id", "sub_goal_id", "retry_at", "changes"}
TIMES = {"created_at", "updated_at"}
ADD = {"name": "todo_add", "arguments": {"subject": "buy milk"}, "conversation_id": 0}


def create_dead_job(tx: Transaction, tenant_id: int, payload: dict[str, Any] | None = None) -> Job:
    """Create a job that has failed permanently."""
    return jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, "tool", payload or ADD), "the shop was closed")


def add_dead_job(desk: TenantHarness, payload: dict[str, Any] | None = None) -> str:
    """Create a job that has failed permanently. Return its id."""
    return desk.write(create_dead_job, payload).id


def get_job(client: Client, job_id: str) -> dict[str, Any]:
    document: dict[str, Any] = client.ok("GET", f"/v1/jobs/{job_id}")["job"]
    return document


def list_states(client: Client, **query: Any) -> list[str]:
    return [row["state"] for row in client.ok("GET", "/v1/jobs", params=query)["jobs"]]


# Jobs


def test_a_job_shows_its_kind_state_and_attempts(client: Client) -> None:
    document = client.ok("GET", f"/v1/jobs/{add_dead_job(client.desk)}")
    assert list(document) == ["job", "links"]
    assert document["links"] is None  # no agent works on it
    job = document["job"]
    assert set(job) == SHAPE | TIMES
    assert (job["kind"], job["state"], job["payload"]) == ("tool", "dead", ADD)
    assert (job["attempts"], job["max_attempts"]) == (1, 5)
    assert (job["error"], job["errors"]) == ("the shop was closed", ["the shop was closed"])


def test_dead_letters_are_a_state_like_others(client: Client, service: Service) -> None:
    with service.ago(60) as earlier:  # the clocks of two connections may differ by more than the jobs are apart
        first, second = (earlier.write(partial(create_dead_job, tenant_id=client.desk.tenant.id)).id for _ in range(2))
    client.ok("PUT", "/v1/schedules/it", json={"every_s": 3_600, "tool": {"name": "now"}})
    client.ok("POST", "/v1/schedules/it/run")
    wait_until(lambda: list_states(client, state="completed") == ["completed"], "the third is done")

    assert {row["id"] for row in client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]} == {first, second}
    assert list_states(client) == ["completed", "dead", "dead"]  # newest first
    assert list_states(client, limit=1) == ["completed"]
    for state in ("queued", "running", "delayed", "canceled"):
        assert list_states(client, state=state) == []


def test_a_list_continues_after_its_cursor(client: Client) -> None:
    ids = {add_dead_job(client.desk) for _ in range(3)}
    first = client.ok("GET", "/v1/jobs", params={"state": "dead", "limit": 2, "cursor": ""})
    rest = client.ok("GET", "/v1/jobs", params={"state": "dead", "limit": 2, "cursor": first["next_cursor"]})

    assert (len(first["jobs"]), len(rest["jobs"]), rest["next_cursor"]) == (2, 1, None)
    assert {row["id"] for row in first["jobs"] + rest["jobs"]} == ids


def test_a_retry_runs_the_job_again_with_the_same_payload(client: Client) -> None:
    job_id = add_dead_job(client.desk)
    retried = client.ok("POST", f"/v1/jobs/{job_id}/retry")["job"]
    assert (retried["id"], retried["state"], retried["attempts"], retried["payload"]) == (job_id, "queued", 0, ADD)
    wait_until(lambda: get_job(client, job_id)["state"] == "completed", "it is done")

    assert client.subjects() == ["buy milk"]
    assert get_job(client, job_id)["result"]["todo"]["subject"] == "buy milk"
    client.refused("POST", f"/v1/jobs/{job_id}/retry", 409, "conflict")
    client.refused("DELETE", f"/v1/jobs/{job_id}", 409, "conflict")


def test_a_retry_with_a_key_is_one_retry(client: Client) -> None:
    job_id = add_dead_job(client.desk)
    answers = [client.ok("POST", f"/v1/jobs/{job_id}/retry", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0] == answers[1]
    wait_until(lambda: get_job(client, job_id)["state"] == "completed", "it is done")
    assert client.subjects() == ["buy milk"]


def test_a_canceled_job_never_starts(client: Client) -> None:
    waiting = client.desk.write(lambda tx, tenant_id: jobs.delay(tx, jobs.create_job(tx, tenant_id, "tool", ADD)))
    answers = [client.ok("POST", f"/v1/jobs/{waiting.id}/cancel", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0] == answers[1] == {"job": get_job(client, waiting.id)}
    assert answers[0]["job"]["state"] == "canceled"
    assert "canceled" in client.refused("POST", f"/v1/jobs/{waiting.id}/cancel", 409, "conflict")
    assert "dead" in client.refused("POST", f"/v1/jobs/{add_dead_job(client.desk)}/cancel", 409, "conflict")
    assert client.subjects() == []


def test_canceling_the_job_of_a_turn_refers_to_the_turn(chatter: Client, model: ModelServer) -> None:
    model.hold()
    turn_id = say(chatter, chatter.conversation())
    (running,) = chatter.ok("GET", "/v1/jobs")["jobs"]
    assert turn_id in chatter.refused("POST", f"/v1/jobs/{running['id']}/cancel", 409, "conflict")
    model.release()
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"


def test_a_dropped_job_is_gone(client: Client) -> None:
    job_id = add_dead_job(client.desk)
    assert client.ok("DELETE", f"/v1/jobs/{job_id}") == {"deleted": True}
    client.refused("GET", f"/v1/jobs/{job_id}", 404, "not_found")
    client.refused("DELETE", f"/v1/jobs/{job_id}", 404, "not_found")
    assert list_states(client) == []


def test_a_running_job_is_neither_retried_nor_dropped(chatter: Client, model: ModelServer) -> None:
    model.hold()
    turn_id = say(chatter, chatter.conversation())
    model.wait_for_requests(1)
    (running,) = chatter.ok("GET", "/v1/jobs")["jobs"]
    assert (running["kind"], running["state"], running["payload"]["turn_id"]) == ("turn", "running", turn_id)
    assert "running" in chatter.refused("POST", f"/v1/jobs/{running['id']}/retry", 409, "conflict")
    assert "running" in chatter.refused("DELETE", f"/v1/jobs/{running['id']}", 409, "conflict")
    model.release()
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"


def test_unknown_and_foreign_ids_get_the_same_answer(service: Service, client: Client) -> None:
    known, unknown = add_dead_job(client.desk), str(uuid4())
    with service.tenant() as stranger:
        for method, path in (("GET", ""), ("POST", "/retry"), ("POST", "/cancel"), ("DELETE", "")):
            foreign = stranger.refused(method, f"/v1/jobs/{known}{path}", 404, "not_found")
            missing = stranger.refused(method, f"/v1/jobs/{unknown}{path}", 404, "not_found")
            assert foreign.replace(known, unknown) == missing
        assert stranger.ok("GET", "/v1/jobs") == {"jobs": [], "next_cursor": None}
    assert get_job(client, known)["state"] == "dead"


@each_row("query", ["state=broken", "state=", "state=dead%00", "limit=0", "limit=501", "limit=x", "page=2"])
def test_filters_that_are_none(sqlite_client: Client, query: str) -> None:
    assert sqlite_client.get(f"/v1/jobs?{query}").status_code == 422


def test_ids_that_cannot_be(client: Client) -> None:
    for path in ("/v1/jobs/%00", "/v1/agents/%00", "/v1/agents?turn_id=%00"):
        client.refused("GET", path, 422, "unsafe_text")
    for method, path in (("POST", "/v1/jobs/%00/retry"), ("DELETE", "/v1/jobs/%00"), ("POST", "/v1/agents/%00/cancel")):
        client.refused(method, path, 422, "unsafe_text")
    for odd_id in ("%ED%A0%80", "'", "x" * 3_000, "..%20"):
        assert client.get(f"/v1/jobs/{odd_id}").status_code == 404
        assert client.get(f"/v1/agents/{odd_id}").status_code == 404


def test_watchers_hear_of_a_death(sqlite_client: Client) -> None:
    with sqlite_client.again() as watcher, open_stream(watcher) as stream:
        job_id = add_dead_job(sqlite_client.desk)
        (event,) = stream.take(1)
    assert (event.event, event.data["job"]) == ("job_dead", get_job(sqlite_client, job_id))


def test_a_turn_that_failed_is_a_dead_job_and_its_retry_the_same_turn(chatter: Client, model: ModelServer) -> None:
    model.script = lambda _: error(400, "I do not like this")
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation)
    assert wait_for_turn(chatter, turn_id)["status"] == "failed"
    (letter,) = chatter.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]
    assert letter["payload"]["turn_id"] == turn_id
    assert letter["error"]

    model.script = lambda _: text("Now I do.")
    chatter.ok("POST", f"/v1/jobs/{letter['id']}/retry")
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"
    assert get_job(chatter, letter["id"])["state"] == "completed"


def test_while_halted_nothing_is_retried(client: Client) -> None:
    job_id, other = add_dead_job(client.desk), add_dead_job(client.desk)
    client.desk.database.write(halts.halt)
    try:
        client.refused("POST", f"/v1/jobs/{job_id}/retry", 503, "halted")
        assert list_states(client) == ["dead", "dead"]
        client.ok("DELETE", f"/v1/jobs/{other}")
    finally:
        client.desk.database.write(halts.unhalt)
    client.ok("POST", f"/v1/jobs/{job_id}/retry")
    wait_until(lambda: get_job(client, job_id)["state"] == "completed", "it is done")


# Agents


def script_delegation(model: ModelServer) -> None:
    """Script a supervisor that spawns a researcher and waits for it. The researcher's reply is held until `model.release()`."""

    def script(request: Request) -> Reply:
        if "[DELEGATION CONTEXT]" in "".join(request.texts):
            model.hold()
            return text("Found it.")
        results = request.tool_results
        if not results:
            return calls(("spawn_agent", {"task": "find it", "role": "researcher"}))
        if len(results) == 1:
            return calls(("await_agent", {"run_id": str(results[0].content).split('"')[3]}))
        return text(f"It said: {results[1].content}")

    model.script = script


def start_turn_with_helper(client: Client, model: ModelServer) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Start a turn with a sub-agent. Return the turn's id, the main run and the sub-agent's run while the sub-agent is running."""
    script_delegation(model)
    turn_id = say(client, client.conversation())
    wait_until(lambda: len(client.ok("GET", "/v1/agents")["agents"]) == 2, "there are two")
    wait_until(lambda: any("[DELEGATION CONTEXT]" in "".join(request.texts) for request in model.requests), "the helper is at work")
    main, helper = sorted(client.ok("GET", "/v1/agents")["agents"], key=lambda run: int(run["depth"]))
    return turn_id, main, helper


def test_runs_of_main_agents_and_of_sub_agents_are_shown(chatter: Client, model: ModelServer) -> None:
    turn_id, main, helper = start_turn_with_helper(chatter, model)
    assert set(main) == set(helper) == RUN_SHAPE | {"limit", "cost_usd", "ended_at", "start_ms", "end_ms"} | TIMES
    assert (main["role"], main["depth"], main["parent_run_id"], main["turn_id"]) == ("index", 0, None, turn_id)
    assert (helper["role"], helper["depth"], helper["parent_run_id"], helper["task"]) == ("researcher", 1, main["id"], "find it")
    assert helper["status"] == "running"
    of_turn = chatter.ok("GET", "/v1/agents", params={"turn_id": turn_id})["agents"]
    assert {run["id"] for run in of_turn} == {main["id"], helper["id"]}
    assert chatter.ok("GET", "/v1/agents", params={"turn_id": str(uuid4())}) == {"agents": [], "next_cursor": None}

    model.release()
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"
    done = chatter.ok("GET", f"/v1/agents/{helper['id']}")["agent"]
    assert (done["status"], done["result"]["status"], done["result"]["summary"]) == ("completed", "completed", "Found it.")
    assert done["ended_at"] >= done["created_at"]


def test_a_sub_agent_is_canceled_and_its_parent_continues(chatter: Client, model: ModelServer) -> None:
    turn_id, main, helper = start_turn_with_helper(chatter, model)
    chatter.refused("POST", f"/v1/agents/{main['id']}/cancel", 409, "conflict")
    canceled = chatter.ok("POST", f"/v1/agents/{helper['id']}/cancel")["agent"]
    assert (canceled["id"], canceled["status"]) == (helper["id"], "canceled")
    chatter.refused("POST", f"/v1/agents/{helper['id']}/cancel", 409, "conflict")
    model.release()

    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"
    assert "canceled" in model.requests[-1].tool_results[-1].content
    assert {row["state"] for row in chatter.ok("GET", "/v1/jobs")["jobs"]} == {"completed", "canceled"}


def test_foreign_runs_are_not_found(chat_service: Service, chatter: Client, model: ModelServer) -> None:
    turn_id = say(chatter, chatter.conversation())
    wait_for_turn(chatter, turn_id)
    (run,) = chatter.ok("GET", "/v1/agents")["agents"]
    with chat_service.tenant() as stranger:
        for method, path in (("GET", ""), ("POST", "/cancel")):
            foreign = stranger.refused(method, f"/v1/agents/{run['id']}{path}", 404, "not_found")
            assert foreign.replace(run["id"], "none") == stranger.refused(method, f"/v1/agents/none{path}", 404, "not_found")
        assert stranger.ok("GET", "/v1/agents") == {"agents": [], "next_cursor": None}


def test_a_revoked_token_sees_nothing(sqlite_client: Client) -> None:
    sqlite_client.desk.write(tokens.revoke, sqlite_client.token_id)
    for path in ("/v1/jobs", "/v1/agents", "/v1/schedules", "/v1/costs", "/v1/halt"):
        assert sqlite_client.get(path).status_code == 401

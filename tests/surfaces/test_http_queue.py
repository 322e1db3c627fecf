"""/v1/queue, /v1/workers and /v1/jobs/dead: the queue as a whole, who works on it, and many dead letters at once."""

from typing import Any

from headway import __version__
from headway.actions.installation import halts
from headway.actions.runs import jobs
from headway.ledger.job import Job
from headway.storage.stores import worker_leases
from headway.storage.transaction import Transaction
from tests.model_server import ModelServer, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client, Service, admin_headers, check_problem, wait_until
from tests.surfaces.shell import Shell
from tests.surfaces.test_http_engine_jobs import add_dead_job, list_states


def add_delayed_job(client: Client, wait_ms: int) -> str:
    """Create a job of a kind that no process runs, which was due that many milliseconds ago."""

    def work(tx: Transaction, tenant_id: int) -> Job:
        return jobs.delay(tx, jobs.create_job(tx, tenant_id, "later", {}), tx.now - wait_ms)

    return client.desk.write(work).id


def change(client: Client, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.ok("POST", "/v1/jobs/dead", json=body)
    return answer


def test_the_queue_counts_jobs_by_state_and_kind_and_knows_the_longest_wait(client: Client) -> None:
    assert client.ok("GET", "/v1/queue")["queue"] == {"counts": [], "due": 0, "oldest_due_s": 0.0}
    for _ in range(2):
        add_dead_job(client.desk)
    add_delayed_job(client, 90_000)
    add_delayed_job(client, -3_600_000)

    queue = client.ok("GET", "/v1/queue")["queue"]
    assert [tuple(row.values()) for row in queue["counts"]] == [("dead", "tool", 2), ("delayed", "later", 2)]
    assert queue["due"] == 1
    assert 90 <= queue["oldest_due_s"] < 600
    assert [row["kind"] for row in client.ok("GET", "/v1/jobs", params={"kind": "later"})["jobs"]] == ["later", "later"]
    assert client.ok("GET", "/v1/jobs", params={"kind": "later", "state": "dead"})["jobs"] == []


def test_a_job_names_the_turn_that_it_answers(chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: text("Done.")
    conversation = chatter.conversation()
    turn_id = say(chatter, conversation, "hello")
    wait_for_turn(chatter, turn_id)
    (job,) = chatter.ok("GET", "/v1/jobs")["jobs"]

    links = chatter.ok("GET", f"/v1/jobs/{job['id']}")["links"]
    assert (links["turn_id"], links["conversation_id"], links["goal_id"]) == (turn_id, conversation, None)


def test_many_dead_letters_are_dropped_in_pages_and_of_one_kind_only(client: Client) -> None:
    ids = {add_dead_job(client.desk) for _ in range(3)}
    other = client.desk.write(lambda tx, tenant_id: jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, "later", {}), "no")).id

    first = change(client, action="drop", kind="tool", limit=2)
    rest = change(client, action="drop", kind="tool", limit=2, cursor=first["next_cursor"])
    assert (len(first["changed"]), len(rest["changed"]), rest["next_cursor"]) == (2, 1, None)
    assert {*first["changed"], *rest["changed"]} == ids
    assert [row["id"] for row in client.ok("GET", "/v1/jobs", params={"state": "dead"})["jobs"]] == [other]


def test_a_bulk_retry_runs_what_can_run_and_says_why_the_rest_cannot(client: Client, service: Service) -> None:
    dead, gone = add_dead_job(client.desk), add_dead_job(client.desk)
    client.ok("DELETE", f"/v1/jobs/{gone}")
    with service.tenant() as neighbour:
        foreign = add_dead_job(neighbour.desk)
        answer = change(client, action="retry", ids=[dead, gone, foreign, dead])
        assert list_states(neighbour) == ["dead"]

    assert answer["changed"] == [dead]
    assert answer["refused"] == [{"id": job_id, "detail": f"No job '{job_id}'."} for job_id in sorted([gone, foreign])]
    wait_until(lambda: list_states(client) == ["completed"], "the retried job ends")
    again = change(client, action="retry", ids=[dead])
    assert again["changed"] == []
    assert "only dead jobs can be retried" in again["refused"][0]["detail"]


def test_a_repeated_bulk_request_changes_nothing_and_gets_the_same_answer(client: Client) -> None:
    dropped = add_dead_job(client.desk)
    body, headers = {"action": "drop", "ids": [dropped]}, {"Idempotency-Key": "drop-1"}
    first = client.ok("POST", "/v1/jobs/dead", json=body, headers=headers)
    kept = add_dead_job(client.desk)

    assert client.ok("POST", "/v1/jobs/dead", json=body, headers=headers) == first
    assert [row["id"] for row in client.ok("GET", "/v1/jobs")["jobs"]] == [kept]


def test_a_bulk_request_is_bounded_and_unambiguous(client: Client) -> None:
    dead = add_dead_job(client.desk)
    for body in (
        {"action": "drop", "ids": ["x"] * 101},
        {"action": "drop", "limit": 101},
        {"action": "burn"},
        {"action": "drop", "ids": []},
    ):
        check_problem(client.post("/v1/jobs/dead", json=body), 422, "invalid")
    check_problem(client.post("/v1/jobs/dead", json={"action": "drop", "ids": [dead], "kind": "tool"}), 422, "invalid")
    assert list_states(client) == ["dead"]


def test_nothing_is_retried_during_a_halt(client: Client) -> None:
    dead = add_dead_job(client.desk)
    client.desk.database.write(lambda tx: halts.halt(tx, "a drill"))
    try:
        check_problem(client.post("/v1/jobs/dead", json={"action": "retry", "ids": [dead]}), 503, "halted")
    finally:
        client.desk.database.write(halts.unhalt)
    assert list_states(client) == ["dead"]


def test_workers_are_listed_for_operators_with_their_load(client: Client, service: Service) -> None:
    check_problem(client.get("/v1/workers", headers=admin_headers(client)), 403, "operator_only")
    facts = worker_leases.WorkerFacts(1_000, 8, "0.9")
    with service.operator() as operator, service.ago(-3_600) as later:
        later.write(lambda tx: worker_leases.record_heartbeat(tx, "box:7:aa:alone", 0, facts))  # valid for an hour
        own = operator.desk.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "later", {}, owner="box:7:aa:alone")).id
        client.desk.write(lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "later", {}, owner="box:7:aa:alone"))
        wait_until(lambda: bool(list_servers(operator)), "the server has recorded a heartbeat")
        workers, servers = list_workers(operator), list_servers(operator)
        later.write(lambda tx: worker_leases.release_owner(tx, "box:7:aa:alone"))

    (box,) = [worker for worker in workers if worker["host"] == "box"]
    assert (box["pid"], box["version"], box["slots"], box["running"], box["started_at"]) == (7, "0.9", 8, 2, 1)
    assert (box["is_alive"], box["takes_all_jobs"], [job["id"] for job in box["jobs"]]) == (True, False, [own])
    (server,) = servers
    assert server["slots"] > 0
    assert server["started_at"] > 1_600_000_000


def list_workers(operator: Client) -> list[dict[str, Any]]:
    workers: list[dict[str, Any]] = operator.ok("GET", "/v1/workers")["workers"]
    return workers


def list_servers(operator: Client) -> list[dict[str, Any]]:
    """The processes of this version that run all jobs: the server of the tests."""
    return [one for one in list_workers(operator) if one["takes_all_jobs"] and one["version"] == __version__]


def test_the_command_line_shows_the_queue_and_changes_many_dead_letters(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    assert headway.json("jobs", "stats")["queue"]["counts"] == []
    assert headway.json("workers") == {"workers": []}
    assert headway.ok("workers").strip() == "no workers"
    assert "either a job or --all-dead" in headway("jobs", "retry").err
    assert headway.json("jobs", "drop", "--all-dead", "--yes") == {"changed": [], "refused": []}
    assert headway.ok("jobs", "retry", "--all-dead", "--kind", "turn").strip() == "retried 0 jobs"
    assert headway.json("jobs", "list", "--state", "dead", "--kind", "tool")["jobs"] == []

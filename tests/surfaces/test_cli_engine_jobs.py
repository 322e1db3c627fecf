"""`headway admin job …` and `headway agent …`: the job queue, its dead letters, and the agents at work."""

import re
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from headway.actions.access import local_tenant, tokens
from headway.actions.runs import jobs, runs
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.job import Job
from headway.ledger.limits import Limits
from headway.ledger.run import Run
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row

ADD = {"name": "todo_add", "arguments": {"subject": "buy milk"}, "conversation_id": 0}


def arrange(headway: Shell, work: Callable[[Transaction, int], Any]) -> Any:
    """Set up the local tenant with this work."""
    headway.ok("todo", "list")  # creates the ledger
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        return database.write(lambda tx: work(tx, local_tenant.ensure_local(tx).id))


def create_dead_job(tx: Transaction, tenant_id: int) -> Job:
    return jobs.fail_permanently(tx, jobs.create_job(tx, tenant_id, "tool", ADD), "the shop\nwas closed \x1b[2J")


def add_dead_job(headway: Shell) -> str:
    return str(arrange(headway, create_dead_job).id)


def add_queued_job(headway: Shell) -> str:
    return str(arrange(headway, lambda tx, tenant_id: jobs.create_job(tx, tenant_id, "tool", ADD)).id)


def start_agents(headway: Shell) -> tuple[Run, Run]:
    """Start a run with a sub-agent."""

    def work(tx: Transaction, tenant_id: int) -> tuple[Run, Run]:
        conversation = conversations.add_conversation(tx, tenant_id)
        main = turns.start_turn(tx, tenant_id, conversation.id, turns.TurnRequest("do\nit"))
        return main, runs.begin_child(tx, main, "researcher", "find it", 10)

    main, helper = arrange(headway, work)
    return main, helper


# Jobs


def test_the_commands_print_text_for_people(headway: Shell) -> None:
    assert headway.ok("jobs", "list") == "no jobs\n"
    first, second = add_dead_job(headway), add_queued_job(headway)
    waiting, broken = headway.ok("jobs", "list").splitlines()
    assert waiting == f"{second}\ttool\tqueued\t0/5"
    assert broken == f"{first}\ttool\tdead\t1/5\tthe shop was closed \N{REPLACEMENT CHARACTER}[2J"
    assert headway.ok("jobs", "list", "--dead") == f"{broken}\n"
    assert headway("jobs", "list", "--limit", "1") == (0, f"{waiting}\n", "1 shown, more exist: use --limit N\n")
    assert headway("jobs", "list").err == headway("jobs", "list", "--limit", "1", "--json").err == ""
    details = headway.ok("jobs", "show", first)
    assert '{"name": "todo_add"' in details
    assert re.search(r"^created_at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", details, re.MULTILINE)
    assert all(line.isprintable() for line in details.splitlines())


def test_the_documents_are_those_of_rest(headway: Shell, sqlite_service: Service, sqlite_client: Client) -> None:
    flags = ("--database-url", sqlite_service.database_url, "--tenant", sqlite_client.desk.tenant.name)
    first, second = (sqlite_client.desk.write(create_dead_job).id for _ in range(2))
    assert headway.json("jobs", "list", *flags) == sqlite_client.ok("GET", "/v1/jobs")
    assert headway.json("jobs", "list", "--dead", *flags) == sqlite_client.ok("GET", "/v1/jobs", params={"state": "dead"})
    assert headway.json("jobs", "show", first, *flags) == sqlite_client.ok("GET", f"/v1/jobs/{first}")
    assert headway.json("jobs", "drop", first, *flags) == {"deleted": True}
    sqlite_client.refused("GET", f"/v1/jobs/{first}", 404, "not_found")
    assert headway.json("jobs", "retry", second, *flags)["job"]["id"] == second
    assert headway.json("agents", "list", *flags) == sqlite_client.ok("GET", "/v1/agents") == {"agents": [], "next_cursor": None}


def test_a_retry_queues_it_again(headway: Shell) -> None:
    job_id = add_dead_job(headway)
    assert headway.ok("jobs", "retry", job_id).startswith(f"{job_id}\ttool\tqueued\t0/5")
    assert "queued" in get_error_line(headway("jobs", "retry", job_id), 4)
    assert "queued" in get_error_line(headway("jobs", "drop", job_id, "--yes"), 4)


def test_a_job_waiting_for_its_model_shows_until_when_and_can_be_retried_sooner(headway: Shell) -> None:
    main, helper = start_agents(headway)

    def fail(tx: Transaction, tenant_id: int) -> Job:
        return jobs.retry_later(tx, jobs.get_job(tx, tenant_id, main.id), "The model is rate\nlimited.", Limits(), 1_800)

    retry_at = arrange(headway, fail).retry_at
    clock = time.strftime("%H:%M:%S", time.localtime(retry_at))
    for family in ("jobs", "agents"):
        (waits,) = re.findall("^waits +(.*)$", headway.ok(family, "show", main.id), re.MULTILINE)
        assert waits.startswith("waiting to retry until ")
        assert waits.endswith(f"{clock}: The model is rate limited.")
    assert headway.json("agents", "show", main.id)["agent"]["retry_at"] == retry_at
    # Both runs started in one transaction, so their order is not defined.
    retry_times = {agent["id"]: agent["retry_at"] for agent in headway.json("agents", "list")["agents"]}
    assert retry_times == {main.id: retry_at, helper.id: 0}
    assert headway.json("jobs", "show", main.id)["job"]["due_at"] == retry_at
    assert headway.ok("jobs", "retry", main.id).startswith(f"{main.id}\tturn\tqueued\t1/5")
    assert "waits" not in headway.ok("jobs", "show", main.id)


def test_a_canceled_job_has_ended(headway: Shell) -> None:
    job_id = add_queued_job(headway)
    assert headway.ok("jobs", "cancel", job_id).startswith(f"{job_id}\ttool\tcanceled")
    assert "canceled" in get_error_line(headway("jobs", "cancel", job_id), 4)
    main, helper = start_agents(headway)
    refusal = get_error_line(headway("jobs", "cancel", main.id), 4)
    assert refusal.endswith(f"turn {main.turn_id}: cancel the turn instead. Use `headway turn cancel {main.turn_id}`.")
    assert f"sub-agent {helper.id}: cancel the agent" in get_error_line(headway("jobs", "cancel", helper.id), 4)


def test_dropping_on_a_terminal_asks_first(headway: Shell) -> None:
    job_id = add_dead_job(headway)
    declined = headway.terminal("jobs", "drop", job_id, question="for good?", answer="n\n")
    assert (declined.code, "Nothing was changed." in declined.out) == (1, True)
    assert headway.json("jobs", "show", job_id)["job"]["state"] == "dead"
    dropped = headway.terminal("jobs", "drop", job_id, question="for good?", answer="y\n")
    assert (dropped.code, f"dropped {job_id}" in dropped.out) == (0, True)
    get_error_line(headway("jobs", "show", job_id), 3)


def test_dropping_with_yes_or_without_a_terminal_does_not_ask(headway: Shell) -> None:
    job_id = add_dead_job(headway)
    assert "for good?" not in headway.terminal("jobs", "drop", job_id, "--yes").out
    job_id = add_dead_job(headway)
    assert headway.ok("jobs", "drop", job_id) == f"dropped {job_id}\n"


def test_a_job_that_cannot_be_dropped_is_refused_without_a_question(headway: Shell) -> None:
    job_id = add_queued_job(headway)
    ran = headway.terminal("jobs", "drop", job_id)
    assert (ran.code, "for good?" in ran.out) == (4, False)


@pytest.mark.parametrize("verb", ["show", "retry", "drop"])
def test_a_job_that_is_not_there_is_exit_3(headway: Shell, verb: str) -> None:
    for job_id in (str(uuid4()), "x" * 5_000, "\x1b[2J", "'; DROP TABLE jobs"):
        assert len(get_error_line(headway("jobs", verb, job_id), 3)) < 200
    get_error_line(headway("jobs", verb), 2)


def test_a_foreign_job_is_not_there(headway: Shell) -> None:
    job_id = add_dead_job(headway)
    headway.ok("tenant", "add", "other")
    for verb in ("show", "retry", "drop"):
        get_error_line(headway("jobs", verb, job_id, "--tenant", "other"), 3)
    assert headway.json("jobs", "list", "--tenant", "other") == {"jobs": [], "next_cursor": None}


def test_while_halted_a_retry_is_exit_5(headway: Shell) -> None:
    job_id = add_dead_job(headway)
    headway.ok("halt")
    get_error_line(headway("jobs", "retry", job_id), 5)
    assert headway.json("jobs", "show", job_id)["job"]["state"] == "dead"


@each_row("command", [["jobs", "list"], ["agents", "list"]])
@each_row("limit", ["0", "501", "x", "9" * 30])
def test_a_limit_that_is_none_is_exit_2(headway: Shell, command: list[str], limit: str) -> None:
    get_error_line(headway(*command, "--limit", limit), 2)


# Agents


def test_runs_are_shown_with_their_helpers(headway: Shell) -> None:
    assert headway.ok("agents", "list") == "no agents\n"
    main, helper = start_agents(headway)
    lines = sorted(headway.ok("agents", "list").splitlines(), key=len)
    assert {line.split()[0] for line in lines} == {main.id, helper.id}
    assert any("index" in line and "running" in line and "do it" in line for line in lines)
    assert any("  researcher" in line and "queued" in line and "find it" in line for line in lines)
    assert headway.json("agents", "list", "--turn", str(uuid4())) == {"agents": [], "next_cursor": None}
    assert len(headway.json("agents", "list", "--turn", str(main.turn_id))["agents"]) == 2
    agent = headway.json("agents", "show", helper.id)["agent"]
    assert (agent["id"], agent["parent_run_id"], agent["role"]) == (helper.id, main.id, "researcher")
    assert f"id              {helper.id}\n" in headway.ok("agents", "show", helper.id)


def test_a_helper_is_canceled(headway: Shell) -> None:
    main, helper = start_agents(headway)
    assert "canceled" in headway.ok("agents", "cancel", helper.id)
    assert headway.json("agents", "show", helper.id)["agent"]["status"] == "canceled"
    assert headway.json("jobs", "show", helper.id)["job"]["state"] == "canceled"
    assert "already ended" in get_error_line(headway("agents", "cancel", helper.id), 4)
    refusal = get_error_line(headway("agents", "cancel", main.id), 4)
    assert refusal.endswith(f"cancel the turn instead. Use `headway turn cancel {main.turn_id}`.")
    assert headway.json("agents", "show", main.id)["agent"]["status"] == "running"


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_a_run_that_is_not_there_is_exit_3(headway: Shell, verb: str) -> None:
    _main, helper = start_agents(headway)
    headway.ok("tenant", "add", "other")
    get_error_line(headway("agents", verb, helper.id, "--tenant", "other"), 3)
    get_error_line(headway("agents", verb, "\x1b[2J"), 3)
    get_error_line(headway("agents", verb), 2)


# Operators


def test_a_token_may_be_an_operators(headway: Shell) -> None:
    plain, operator = headway.json("token", "new"), headway.json("token", "new", "--operator", "--label", "ops")
    assert operator["token"].startswith("hw_")
    with DirectDatabase(f"sqlite:///{headway.ledger}") as database:
        admitted = database.read(lambda tx: tokens.authenticate_for("halt")(tx, tokens.hash_secret(operator["token"])))
        assert admitted.id == operator["id"]
        assert not database.read(lambda tx: tokens.authenticate(tx, tokens.hash_secret(plain["token"]))).operator


# Turns


def test_a_turn_is_canceled_with_its_sub_agents_without_a_running_worker(headway: Shell) -> None:
    main, helper = start_agents(headway)
    turn_id = str(main.turn_id)
    headway.ok("tenant", "add", "other")
    get_error_line(headway("turn", "cancel", turn_id, "--tenant", "other"), 3)
    assert headway.ok("turn", "cancel", turn_id) == f"{turn_id}\tcanceled\tdo it\n"
    assert {run["status"] for run in headway.json("agents", "list")["agents"]} == {"canceled"}
    assert {headway.json("jobs", "show", run.id)["job"]["state"] for run in (main, helper)} == {"canceled"}
    assert "already ended: canceled" in get_error_line(headway("turn", "cancel", turn_id), 4)
    assert "already ended" not in get_error_line(headway("agents", "cancel", main.id), 4)
    get_error_line(headway("turn", "cancel", str(uuid4())), 3)
    get_error_line(headway("turn", "cancel"), 2)


def test_a_canceled_turn_is_the_document_of_rest(headway: Shell, sqlite_service: Service, sqlite_client: Client) -> None:
    flags = ("--database-url", sqlite_service.database_url, "--tenant", sqlite_client.desk.tenant.name)
    turn_id = sqlite_client.turn(sqlite_client.conversation())
    document = headway.json("turn", "cancel", turn_id, *flags)
    assert document["turn"]["status"] == "canceled"
    assert document == sqlite_client.ok("GET", f"/v1/turns/{turn_id}")

"""/v1/halt and /v1/costs: every token may read, and only operators and administrators may write."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.actions.access import spending, tokens
from headway.actions.installation import halts
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.tenancy import LOCAL_TENANT
from headway.testing import TenantHarness
from tests.model_server import MODEL, ModelServer, Reply, Request, calls, environment, text
from tests.surfaces.conversation_client import get_turn, list_messages, messages_path, say, wait_for_turn
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service, admin_headers, client_options, operator_headers, run_server, wait_until

PRICED = "openai-chat:gpt-4o"


@contextmanager
def halted(client: Client) -> Iterator[None]:
    client.ok("PUT", "/v1/halt", json={"why": "lunch"}, headers=operator_headers(client))
    try:
        yield
    finally:
        client.desk.database.write(halts.unhalt)


# The kill switch


def test_thrown_and_lifted(client: Client) -> None:
    assert client.ok("GET", "/v1/halt") == {"halt": {"halted": False, "why": "", "since": 0, "by": ""}}
    before = int(time.time())
    with halted(client):
        halt = client.ok("GET", "/v1/halt")["halt"]
        assert (halt["halted"], halt["why"], halt["by"]) == (True, "lunch", "operator")
        assert before <= halt["since"] <= time.time()
        again = client.ok("PUT", "/v1/halt", json={"why": "something else"}, headers=operator_headers(client))
        assert again == {"halt": halt}
        lifted = client.ok("DELETE", "/v1/halt", headers=operator_headers(client))
    assert lifted == client.ok("GET", "/v1/halt") == {"halt": {"halted": False, "why": "", "since": 0, "by": ""}}
    assert client.ok("DELETE", "/v1/halt", headers=operator_headers(client)) == lifted


def test_a_reason_need_not_be_given(sqlite_client: Client) -> None:
    headers = operator_headers(sqlite_client)
    try:
        assert sqlite_client.ok("PUT", "/v1/halt", json={}, headers=headers)["halt"]["why"] == ""
    finally:
        sqlite_client.ok("DELETE", "/v1/halt", headers=headers)


def test_a_token_without_operator_rights_changes_nothing(client: Client) -> None:
    for headers in (dict(client.headers), admin_headers(client)):
        assert "--operator" in client.refused("PUT", "/v1/halt", 403, "operator_only", json={"why": "me"}, headers=headers)
        client.refused("DELETE", "/v1/halt", 403, "operator_only", headers=headers)
    assert "--admin" in client.refused("PUT", "/v1/costs", 403, "forbidden", json={"limit_usd": 1})
    above = {"limit_usd": 5.01}
    assert "--operator" in client.refused("PUT", "/v1/costs", 403, "operator_only", json=above, headers=admin_headers(client))
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False
    assert client.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 5.0
    with halted(client):
        client.refused("DELETE", "/v1/halt", 403, "operator_only", headers=admin_headers(client))
        assert client.ok("GET", "/v1/halt")["halt"]["halted"] is True


def test_the_audit_log_shows_an_administrator_the_tenant_and_the_operator_the_installation(client: Client) -> None:
    client.refused("GET", "/v1/audit", 403, "forbidden")
    token = client.desk.write(tokens.create_token, "ci", scope="admin")
    headers = {"Authorization": f"Bearer {token.secret}"}
    client.ok("PUT", "/v1/costs", json={"limit_usd": 4}, headers=headers)
    other = TenantHarness(client.desk.database, f"other {token.token.id}")
    other.write(spending.set_limit, 1)

    page = client.ok("GET", "/v1/audit?limit=2", headers=headers)
    limit, created = page["entries"]
    assert (limit["who"], limit["tenant"], limit["action"]) == (
        f"ci (token {token.token.id})",
        client.desk.tenant.name,
        "limit.set",
    )
    assert limit["new"] == {"limit_usd": 4}
    assert (created["target"], created["seq"] < limit["seq"]) == (f"token:{token.token.id}", True)
    more = client.ok("GET", "/v1/audit", params={"cursor": page["next_cursor"]}, headers=headers)["entries"]
    assert more
    assert all(entry["seq"] < created["seq"] and entry["tenant"] == client.desk.tenant.name for entry in more)
    assert other.tenant.name not in json.dumps([page, more])
    entries = client.ok("GET", "/v1/audit", params={"action": "tenant", "limit": 50}, headers=operator_headers(client))["entries"]
    assert (None, {"name": other.tenant.name}) in [(entry["tenant"], entry["new"]) for entry in entries]
    assert {entry["tenant"] for entry in entries} == {None}
    chosen = client.ok("GET", "/v1/audit", params={"action": "limit", "since": limit["at"]}, headers=headers)["entries"]
    assert limit in chosen
    assert {entry["action"] for entry in chosen} == {"limit.set"}
    for query in ({"limit": 501}, {"since": -1}, {"since": "x"}, {"action": "x" * 201}, {"who": "x" * 201}, {"whom": "x"}):
        client.refused("GET", "/v1/audit", 422, "invalid", params=query, headers=headers)
    client.refused("GET", "/v1/audit", 422, "bad_cursor", params={"cursor": "x"}, headers=headers)


def test_a_revoked_operator_token_is_refused(sqlite_client: Client) -> None:
    local = TenantHarness(sqlite_client.desk.database, LOCAL_TENANT)
    created = local.write(tokens.create_token, "operator", scope="operator")
    local.write(tokens.revoke, created.token.id)
    headers = {"Authorization": f"Bearer {created.secret}"}
    sqlite_client.refused("PUT", "/v1/halt", 401, "unauthorized", json={}, headers=headers)


def test_bad_input_halts_nothing(client: Client) -> None:
    headers = operator_headers(client)
    bodies: tuple[Any, ...] = ({"why": "x" * 1_001}, {"why": "\0"}, {"why": 1}, {"reason": "x"}, [])
    for body in bodies:
        assert client.put("/v1/halt", json=body, headers=headers).status_code == 422, body
    for limit in (-1, 1e9, "5", None, True):
        assert client.put("/v1/costs", json={"limit_usd": limit}, headers=headers).status_code == 422, limit
    for raw in ('{"limit_usd": NaN}', '{"limit_usd": 1e999}', '{"limit_usd": '):
        answer = client.put("/v1/costs", content=raw, headers={**headers, "Content-Type": "application/json"})
        assert answer.status_code in (400, 422), raw
    assert client.ok("GET", "/v1/halt")["halt"]["halted"] is False
    assert client.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 5.0


def test_the_local_login_is_an_operator_from_its_own_page(tmp_path: Path) -> None:
    with (
        run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as local,
        httpx.Client(**client_options(local.url)) as browser,
    ):
        assert browser.get(local.announced["login_url"]).status_code == 303
        assert browser.put("/v1/halt", json={"why": "a forgery"}).status_code == 403
        origin = {"Origin": local.url}
        assert browser.put("/v1/halt", json={"why": "lunch"}, headers=origin).json()["halt"]["why"] == "lunch"
        assert browser.get("/v1/halt").json()["halt"]["halted"] is True
        assert browser.delete("/v1/halt", headers=origin).json()["halt"]["halted"] is False
        assert browser.put("/v1/costs", json={"limit_usd": 7}, headers=origin).json()["costs"]["limit_usd"] == 7


def test_during_a_halt_new_work_is_refused_and_reads_continue(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    with halted(chatter):
        answer = chatter.post(messages_path(conversation), json={"content": "hi"})
        assert answer.headers["retry-after"]
        for headers in ({}, {"Accept": "text/event-stream"}, {"Idempotency-Key": "k"}):
            detail = chatter.refused("POST", messages_path(conversation), 503, "halted", json={"content": "hi"}, headers=headers)
            assert "lunch" in detail
        assert list_messages(chatter, conversation) == []
        for path in ("/v1/jobs", "/v1/agents", "/v1/schedules", "/v1/todos", "/v1/conversations", "/v1/costs", "/v1/tools"):
            chatter.ok("GET", path)
        chatter.add("by hand")
    assert model.requests == []
    turn_id = say(chatter, conversation, headers={"Idempotency-Key": "k"})  # transient refusals are not stored under the key
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"


def test_a_running_turn_stops_at_a_halt_and_continues_where_it_stopped(chatter: Client, model: ModelServer) -> None:
    model.script = lambda request: text("Late.") if request.tool_results else calls(("now", {}))
    conversation = chatter.conversation()
    model.hold()
    turn_id = say(chatter, conversation)
    model.wait_for_requests(1)
    with halted(chatter):
        model.release()
        wait_until(lambda: chatter.ok("GET", "/v1/jobs")["jobs"][0]["state"] == "queued", "it rests")
        assert get_turn(chatter, turn_id)["status"] == "running"
        assert len(model.requests) == 1
    assert wait_for_turn(chatter, turn_id)["outcome"] == "answered"
    assert list_messages(chatter, conversation)[-1] == ("assistant", "Late.")


def test_every_tenant_gets_the_halt_event(service: Service, client: Client) -> None:
    with service.tenant() as neighbour, open_stream(neighbour) as stream:
        with halted(client):
            pass
        events = stream.take(2)
    assert [(event.event, event.data["why"]) for event in events] == [("halted", "lunch"), ("unhalted", "lunch")]


# Costs


def test_the_costs_of_a_turn_are_reported(chatter: Client, model: ModelServer) -> None:
    empty = chatter.ok("GET", "/v1/costs")
    unpriced = [f"openai-chat:{MODEL}"]
    none = {"spent_usd": 0.0, "limit_usd": 5.0, "window_s": 86_400, "by_model": [], "by_run": [], "unpriced": unpriced}
    assert empty == {"costs": none}
    model.script = lambda _: replace(text("hello", usage=(120, 7)), cached=96)
    wait_for_turn(chatter, say(chatter, chatter.conversation()))
    (run,) = chatter.ok("GET", "/v1/agents")["agents"]
    costs = chatter.ok("GET", "/v1/costs")["costs"]

    tokens = {"input_tokens": 120, "cached_tokens": 96, "cache_write_tokens": 0, "output_tokens": 7}
    used = {"calls": 1, **tokens, "cost_usd": 0.0}
    assert costs["by_model"] == [{"model": f"openai-chat:{MODEL}", **used}]
    assert costs["by_run"] == [{"run_id": run["id"], **used}]


def test_a_turn_reports_the_usage_of_its_agents(chatter: Client, model: ModelServer) -> None:
    def script(request: Request) -> Reply:
        if request.tool_results:
            return replace(text("Many.", usage=(2_000, 30)), cached=900)
        if any("count the stars" in said for said in request.texts):  # the sub-agent
            return replace(text("Many.", usage=(300, 20)), cached=200)
        return replace(calls(("delegate", {"agent": "researcher", "task": "count the stars"}), usage=(1_000, 10)), cached=900)

    model.script = script
    turn = wait_for_turn(chatter, say(chatter, chatter.conversation()))
    assert turn["usage"] == {"input_tokens": 3_300, "cached_tokens": 2_000, "output_tokens": 60, "cost_usd": 0.0}
    model.script = lambda _: text("hello", usage=(5, 1))
    other = wait_for_turn(chatter, say(chatter, chatter.conversation()))
    assert other["usage"] == {"input_tokens": 5, "cached_tokens": 0, "output_tokens": 1, "cost_usd": 0.0}
    opened = chatter.ok("POST", "/v1/turns", 201, json={"conversation_id": chatter.conversation()})["turn"]
    assert opened["usage"] == {"input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}


def test_each_tenant_has_a_limit_of_its_own(service: Service, client: Client) -> None:
    with service.tenant() as neighbour:
        changed = client.ok("PUT", "/v1/costs", json={"limit_usd": 2.5}, headers=admin_headers(client))
        assert changed["costs"]["limit_usd"] == client.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 2.5
        assert neighbour.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 5.0
    assert client.ok("PUT", "/v1/costs", json={"limit_usd": 5}, headers=admin_headers(client))["costs"]["limit_usd"] == 5
    assert client.ok("PUT", "/v1/costs", json={"limit_usd": 0}, headers=admin_headers(client))["costs"]["limit_usd"] == 0


def test_an_administrator_cannot_raise_the_limit_above_the_one_that_the_operator_set(client: Client) -> None:
    def set_limit(dollars: float) -> float:
        changed = client.ok("PUT", "/v1/costs", json={"limit_usd": dollars}, headers=admin_headers(client))
        return float(changed["costs"]["limit_usd"])

    client.desk.write(spending.set_limit, 2 * NANOS_PER_DOLLAR)
    assert [set_limit(1), set_limit(2)] == [1, 2]
    for dollars in (2.01, 5, 1_000_000):
        refusal = client.refused(
            "PUT", "/v1/costs", 403, "operator_only", json={"limit_usd": dollars}, headers=admin_headers(client)
        )
        assert "above $2.00" in refusal
    assert client.ok("GET", "/v1/costs")["costs"]["limit_usd"] == 2

    client.desk.write(spending.set_limit, 9 * NANOS_PER_DOLLAR)
    assert [set_limit(3), set_limit(9)] == [3, 9]


@pytest.fixture
def poor(tmp_path: Path, model: ModelServer) -> Iterator[Client]:
    """A tenant whose pool cannot pay for a single call."""
    settings = {**environment(model), "HEADWAY_MODEL": PRICED, "HEADWAY_BUDGET_USD": "0.000001"}
    with (
        run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path, environment=settings) as service,
        service.tenant() as client,
    ):
        yield client


def test_models_with_a_price_are_not_reported_as_unpriced(poor: Client) -> None:
    assert poor.ok("GET", "/v1/costs")["costs"]["unpriced"] == []
    changed = poor.ok("PUT", "/v1/costs", json={"limit_usd": 0}, headers=admin_headers(poor))
    assert changed["costs"]["unpriced"] == []


def test_a_turn_waiting_for_money_continues_when_the_limit_is_raised(poor: Client, model: ModelServer) -> None:
    model.script = lambda _: text("hello", usage=(1_000, 500))
    conversation = poor.conversation()
    turn_id = say(poor, conversation)
    wait_until(lambda: get_turn(poor, turn_id)["status"] == "paused", "it waits")
    (waiting,) = [job for job in poor.ok("GET", "/v1/jobs")["jobs"] if job["kind"] == "turn"]
    assert waiting["state"] == "delayed"
    assert model.requests == []
    pauses = [json.loads(data) for kind, data in poor.desk.events() if kind == "turn_paused"]
    assert [pause["turn_id"] for pause in pauses] == [turn_id]

    poor.desk.write(spending.set_limit, 5 * NANOS_PER_DOLLAR)
    assert poor.ok("GET", "/v1/costs")["costs"]["spent_usd"] == 0
    poor.desk.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0"))  # retry now, not some seconds later
    assert wait_for_turn(poor, turn_id)["outcome"] == "answered"
    costs = poor.ok("GET", "/v1/costs")["costs"]
    assert costs["spent_usd"] > 0
    assert costs["by_model"][0]["cost_usd"] == costs["by_run"][0]["cost_usd"] == costs["spent_usd"]
    assert list_messages(poor, conversation)[-1] == ("assistant", "hello")


def test_a_first_message_while_halted_leaves_no_conversation(client: Client) -> None:
    body = {"message": {"content": "Hello!"}}
    with halted(client):
        client.refused("POST", "/v1/conversations", 503, "halted", json=body)
        assert client.ok("GET", "/v1/conversations")["conversations"] == []
    started = client.ok("POST", "/v1/conversations", 201, json=body)
    (listed,) = client.ok("GET", "/v1/conversations")["conversations"]
    assert (listed["id"], listed["title"]) == (started["conversation"]["id"], "Hello!")
    assert client.ok("GET", f"/v1/turns/{started['turn_id']}")["turn"]["request"] == "Hello!"

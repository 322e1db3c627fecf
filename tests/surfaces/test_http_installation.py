"""/v1/tenants, /v1/settings, /v1/tiers and /v1/mcp-servers: what those who run the installation see and do."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway.actions.access import spending
from headway.actions.installation import halts
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.settings.declarations import SETTINGS
from tests.model_server import ModelServer, drop, environment, error, text, to_script
from tests.surfaces.server_harness import Client, Service, admin_headers, operator_headers, run_server
from tests.warm_start import build_command

KEY = "sk-the-secret-of-the-sample-server"
PASSWORD = "a-password-of-postgres"
SAMPLE = Path(__file__).parent.parent / "agents" / "sample_mcp_server.py"
HOST_ROUTES = (
    ("GET", "/v1/tenants", None),
    ("POST", "/v1/tenants", {"name": "mine"}),
    ("GET", "/v1/settings", None),
    ("GET", "/v1/workers", None),
    ("GET", "/v1/mcp-servers", None),
    ("POST", "/v1/mcp-servers/sample/reconnect", None),
)


@pytest.fixture(scope="module")
def answering_model() -> Iterator[ModelServer]:
    with ModelServer(text("I am here.", usage=(12, 3))) as server:
        yield server


@pytest.fixture(scope="module")
def configured(answering_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server with a priced model, MCP servers and secrets in its settings."""
    folder = tmp_path_factory.mktemp("configured")
    home = folder / ".headway"
    home.mkdir()
    (home / "prices.toml").write_text('["openai-chat:fake-1"]\ninput = 1000\noutput = 2000\n')
    (home / "models.toml").write_text('[cheap]\nmodel = "openai-chat:fake-2"\n')
    command, *arguments = build_command(str(SAMPLE))
    servers = {
        "sample": {"command": command, "args": [*arguments, str(folder / "calls")], "env": {"API_KEY": KEY}},
        "absent": {"url": f"http://user:{KEY}@127.0.0.1:9/mcp?key={KEY}", "headers": {"Authorization": f"Bearer {KEY}"}},
    }
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    settings = {
        **environment(answering_model),
        "HEADWAY_MODEL_RETRIES": "0",
        "HEADWAY_NOTIFY": f"json://user:{PASSWORD}@127.0.0.1:9/hook",
        "HEADWAY_DIRECTORY_URL": f"postgresql://user:{PASSWORD}@127.0.0.1:9/headway",
        "ANTHROPIC_API_KEY": KEY,
    }
    with run_server(f"sqlite:///{folder / 'headway.db'}", folder, environment=settings) as service:
        yield service


@pytest.fixture
def model(answering_model: ModelServer) -> Iterator[ModelServer]:
    """The model of the configured server. It answers "I am here." unless a test sets a script."""
    answering_model.script = to_script(text("I am here.", usage=(12, 3)))
    answering_model.forget()
    yield answering_model
    answering_model.script = to_script(text("I am here.", usage=(12, 3)))


@pytest.fixture
def tenant(configured: Service) -> Iterator[Client]:
    with configured.tenant() as opened:
        yield opened


# Who may ask


def test_an_administrator_of_a_tenant_does_not_run_the_installation(tenant: Client) -> None:
    for method, path, body in HOST_ROUTES:
        for headers in (dict(tenant.headers), admin_headers(tenant)):
            assert "--operator" in tenant.refused(method, path, 403, "operator_only", json=body, headers=headers)
    assert tenant.desk.database.read(lambda tx: tx.all("SELECT 1 FROM tenants WHERE name = 'mine'")) == []


# Tenants


def test_a_tenant_is_created_with_a_token_that_manages_it(service: Service) -> None:
    name = f"customer {uuid4().hex}"
    with service.tenant() as other:
        headers = operator_headers(other)
        other.add("some text that is stored")
        idempotent = headers | {"Idempotency-Key": uuid4().hex}
        created = other.ok("POST", "/v1/tenants", 201, json={"name": name}, headers=idempotent)
        again = other.ok("POST", "/v1/tenants", 201, json={"name": name}, headers=idempotent)
        other.refused("POST", "/v1/tenants", 409, "name_taken", json={"name": name}, headers=headers)
        other.refused("POST", "/v1/tenants", 422, "invalid", json={"name": " "}, headers=headers)

        customer = {"Authorization": f"Bearer {created['secret']}"}
        session = other.ok("GET", "/v1/session", headers=customer)["session"]
        (first,) = other.ok("GET", "/v1/tokens", headers=customer)["tokens"]
        rows: dict[str, Any] = {}
        cursor = None
        while True:
            page = other.ok("GET", "/v1/tenants", params={"limit": 3} | ({"cursor": cursor} if cursor else {}), headers=headers)
            rows |= {row["name"]: row for row in page["tenants"]}
            if (cursor := page["next_cursor"]) is None:
                break
        stored = other.desk.database.read(lambda tx: tx.all("SELECT answer FROM idempotency_keys"))
        entries = other.ok("GET", "/v1/audit", params={"action": "tenant.add", "limit": 3}, headers=headers)["entries"]

    assert again == {**created, "secret": None}
    assert created["secret"] not in str(stored)
    assert (session["tenant"], session["scopes"]) == (name, ["read", "write", "admin"])
    assert (session["admin"], session["operator"], session["host"]) == (True, False, False)
    assert (first["id"], first["current"], first["label"]) == (created["token"]["id"], True, "first token")
    assert (rows[name]["tokens"], rows[name]["usage"]["webhooks"], rows[name]["spent_usd"]) == (1, 0, 0)
    assert rows[other.desk.tenant.name]["usage"]["storage"] > 0
    assert page["quotas"]["turns"] == 1000
    assert [entry["new"]["name"] for entry in entries if entry["target"] == f"tenant:{created['tenant']['id']}"] == [name]
    assert next(entry["who"] for entry in entries if entry["new"]["name"] == name).startswith("operator (token ")


def test_a_tenant_sees_what_it_uses_of_its_quotas(client: Client) -> None:
    before = client.ok("GET", "/v1/quotas")
    client.turn(client.conversation())
    client.add("some text that is stored")
    after = client.ok("GET", "/v1/quotas")

    assert before["usage"] == {"turns": 0, "jobs": 0, "storage": before["usage"]["storage"], "webhooks": 0}
    assert after["usage"]["storage"] > before["usage"]["storage"]
    assert after["quotas"] == {"turns": 1000, "jobs": 256, "streams": 1000, "storage": 20 * 2**30, "webhooks": 50}


# Settings


def test_settings_name_their_sources_and_hide_every_secret(configured: Service, tenant: Client) -> None:
    answer = tenant.get("/v1/settings", headers=operator_headers(tenant))
    rows = {row["name"]: row for row in answer.json()["settings"]}
    shown = {name: (row["value"], row["source"]) for name, row in rows.items()}

    assert KEY not in answer.text
    assert PASSWORD not in answer.text
    assert [name.removeprefix("HEADWAY_").lower() for name in rows if name.startswith("HEADWAY_")] == list(SETTINGS)
    assert all(row["description"] and row["group"] for row in rows.values())
    assert shown["HEADWAY_MODEL"] == ("openai-chat:fake-1", "environment")
    assert shown["HEADWAY_MODEL_CHEAP"] == ("openai-chat:fake-2", "models.toml")
    assert shown["HEADWAY_MAX_ITERATIONS"] == ("10", "default")
    assert shown["HEADWAY_NOTIFY"] == ("1 channel", "environment")
    assert shown["HEADWAY_DIRECTORY_URL"] == ("postgresql://user:…@127.0.0.1:9/headway", "environment")
    assert shown["HEADWAY_PORT"] == (configured.url.rpartition(":")[2], "flag")
    assert shown["ANTHROPIC_API_KEY"] == ("set", "environment")
    assert shown["OPENROUTER_API_KEY"] == ("", "default")
    assert rows["ANTHROPIC_API_KEY"]["secret"]
    assert not rows["HEADWAY_CONTEXT_TOKENS"]["secret"]


# Tiers


def test_a_tier_is_described_and_tried_at_the_cost_of_the_pool(tenant: Client, model: ModelServer) -> None:
    headers = admin_headers(tenant)
    tenant.refused("GET", "/v1/tiers", 403, "forbidden")
    tenant.refused("POST", "/v1/tiers/strong/try", 403, "forbidden", json={})
    tenant.refused("POST", "/v1/tiers/best/try", 404, "not_found", json={}, headers=headers)
    tenant.refused("POST", "/v1/tiers/strong/try", 422, "invalid", json={"message": "x" * 2_001}, headers=headers)
    tiers = {row["tier"]: row for row in tenant.ok("GET", "/v1/tiers", headers=headers)["tiers"]}
    keyed = headers | {"Idempotency-Key": "once"}
    first, second = (
        tenant.ok("POST", "/v1/tiers/strong/try", json={"message": "Are you there?"}, headers=keyed)["trial"] for _ in range(2)
    )
    costs = tenant.ok("GET", "/v1/costs")["costs"]
    (run,) = tenant.ok("GET", "/v1/agents")["agents"]

    assert (tiers["strong"]["model"], tiers["cheap"]["model"]) == ("openai-chat:fake-1", "openai-chat:fake-2")
    assert (tiers["strong"]["priced"], tiers["cheap"]["priced"], tiers["strong"]["error"]) == (True, False, "")
    assert tiers["strong"]["host"].startswith("127.0.0.1:")
    assert first == second
    assert (first["ok"], first["answer"], first["model"]) == (True, "I am here.", "openai-chat:fake-1")
    assert (first["input_tokens"], first["output_tokens"], first["cost_usd"]) == (12, 3, 0.018)
    assert [request.texts[-1] for request in model.requests] == ["Are you there?"], "asked once"
    assert costs["spent_usd"] == 0.018
    assert [(row["model"], row["calls"]) for row in costs["by_model"]] == [("openai-chat:fake-1", 1)]
    assert (run["role"], run["status"], run["cost_usd"]) == ("trial", "completed", 0.018)
    assert "Are you there?" not in json.dumps(run), "what was asked is not stored"


def test_a_trial_that_breaks_off_is_paid_for(tenant: Client, model: ModelServer) -> None:
    model.script = to_script(drop("An answer that breaks off."))
    trial = tenant.ok("POST", "/v1/tiers/strong/try", json={"message": "Are you there?"}, headers=admin_headers(tenant))["trial"]
    costs = tenant.ok("GET", "/v1/costs")["costs"]

    assert (trial["ok"], trial["answer"]) == (False, "")
    assert costs["spent_usd"] > 0
    assert [row["calls"] for row in costs["by_model"]] == [1]


def test_a_model_that_does_not_answer_says_why(tenant: Client, model: ModelServer) -> None:
    headers = admin_headers(tenant)
    model.script = to_script(error(401, f"the key {KEY} is wrong"))
    trial = tenant.ok("POST", "/v1/tiers/cheap/try", json={}, headers=headers)["trial"]

    assert (trial["ok"], trial["answer"]) == (False, "")
    assert "HTTP 401" in trial["error"]
    assert KEY not in trial["error"]
    assert tenant.ok("GET", "/v1/agents")["agents"] == []


def test_no_model_is_asked_while_halted_or_without_money(tenant: Client, model: ModelServer) -> None:
    headers = admin_headers(tenant)
    tenant.desk.write(spending.set_limit, 0)
    poor = tenant.refused("POST", "/v1/tiers/strong/try", 409, "conflict", json={}, headers=headers)
    tenant.desk.write(spending.set_limit, NANOS_PER_DOLLAR)
    tenant.desk.database.write(lambda tx: halts.halt(tx, "lunch"))
    try:
        tenant.refused("POST", "/v1/tiers/strong/try", 503, "halted", json={}, headers=headers)
    finally:
        tenant.desk.database.write(halts.unhalt)

    assert "spent" in poor
    assert model.requests == []


# MCP servers


def test_mcp_servers_show_their_state_and_no_secret(configured: Service, tenant: Client) -> None:
    headers = operator_headers(tenant)
    before = tenant.ok("GET", "/v1/mcp-servers", headers=headers)["servers"]
    connected = tenant.ok("POST", "/v1/mcp-servers/sample/reconnect", headers=headers)["server"]
    keyed = headers | {"Idempotency-Key": "once"}
    again, repeated = (tenant.ok("POST", "/v1/mcp-servers/sample/reconnect", headers=keyed)["server"] for _ in range(2))
    failed = tenant.post("/v1/mcp-servers/absent/reconnect", headers=headers)
    listed = tenant.get("/v1/mcp-servers", headers=headers)
    tenant.refused("POST", "/v1/mcp-servers/other/reconnect", 404, "not_found", headers=headers)

    assert [(server["name"], server["status"], server["checked_at"]) for server in before] == [
        ("sample", "not_started", 0),
        ("absent", "not_started", 0),
    ]
    assert (connected["status"], connected["transport"], connected["error"]) == ("ready", "stdio", "")
    assert connected["location"] == Path(sys.executable).name
    assert connected["checked_at"] > 0
    tools = {tool["name"]: tool for tool in connected["tools"]}
    assert (tools["sample__add"]["read_only"], tools["sample__add"]["needs_approval"]) == (True, False)
    assert (tools["sample__erase"]["read_only"], tools["sample__erase"]["needs_approval"]) == (None, True)
    assert tools["sample__show_key"]["destructive"] is False
    assert again["tools"] == connected["tools"]
    assert repeated == again
    down = failed.json()["server"]
    assert (down["status"], down["transport"], down["location"]) == ("down", "http", "http://127.0.0.1:9")
    assert "is not available" in down["error"]
    assert {server["name"]: server["status"] for server in listed.json()["servers"]} == {"sample": "ready", "absent": "down"}
    assert KEY not in listed.text + failed.text

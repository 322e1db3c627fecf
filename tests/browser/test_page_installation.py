"""Operations: access, the audit log, models and settings, tools and policy."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.access import audit, local_tenant, spending, tokens
from headway.actions.installation import tenants
from headway.storage.transaction import Transaction, within_tenant
from tests.browser.page_harness import Profiles, Visit, look_at
from tests.model_server import ModelServer, environment, error, text, to_script
from tests.surfaces.conversation_client import wait_for_turn
from tests.surfaces.server_harness import Client, Service, run_server
from tests.surfaces.waiting_turns import SUM, add_rule, begin_waiting_turn, call_then_answer

SAMPLE = Path(__file__).parent.parent / "agents" / "plain_mcp_server.py"
SLOW_MS = 60_000  # a server in Python takes seconds to start
KEY = "sk-the-secret-of-the-sample-server"


def dialog(page: Visit, title: str | re.Pattern[str]) -> Locator:
    return page.page.get_by_role("dialog", name=title)


def read_secret(page: Visit, look: str = "") -> str:
    """Read the secret in the dialog, close it, and check that the page does not have it any more. `look`: the name of a picture."""
    secret = page.page.get_by_role("textbox", name="The token")
    expect(secret).to_have_text(re.compile("^hw_"))
    if look:
        look_at(page, look)
    found = secret.inner_text()
    page.page.keyboard.press("Escape")
    expect(secret).to_be_visible()
    page.button("I have stored it").click()
    page.page.wait_for_function("found => !document.documentElement.outerHTML.includes(found)", arg=found)
    return found


# Tokens


def manage_tokens(page: Visit, client: Client) -> None:
    page.go("/operations/access")
    card = page.region("Tokens")
    expect(card.get_by_role("listitem").filter(has_text="somebody at a browser")).to_contain_text("you are signed in with it")
    page.button("New token", within=card).click()
    new = dialog(page, "New token")
    new.get_by_label("Name").fill("dashboard <b>")
    new.get_by_label("Scope").select_option("Read only")
    new.get_by_label("Expires").select_option("7 days")
    look_at(page, "token-new")
    page.button("Create it", within=new).click()
    first = read_secret(page, "token-secret")
    row = card.get_by_role("listitem").filter(has_text="dashboard <b>")
    expect(row).to_contain_text("Read only · never used · expires in 7d")
    session = client.ok("GET", "/v1/session", headers={"Authorization": f"Bearer {first}"})["session"]
    assert session["scopes"] == ["read"]

    page.button("Rotate dashboard <b>").click()
    rotation = dialog(page, "Rotate dashboard <b>")
    rotation.get_by_label("The old one keeps working for").select_option("10 minutes")
    page.button("Rotate it", within=rotation).click()
    second = read_secret(page)
    expect(row.filter(has_text="replaced by token")).to_contain_text("expires in")
    for secret in (first, second):
        assert client.get("/v1/session", headers={"Authorization": f"Bearer {secret}"}).status_code == 200

    page.button("Revoke dashboard <b>").first.click()
    page.button("Revoke it").click()
    expect(row).to_have_count(1)
    assert client.get("/v1/session", headers={"Authorization": f"Bearer {second}"}).status_code == 401
    page.button("All", within=card).click()
    expect(row).to_have_count(2)
    expect(row.filter(has_text=re.compile(r"revoked (just now|\d+s ago)"))).to_have_count(1)

    row.first.get_by_role("link", name="history").click()
    entries = page.region("Audit log").get_by_role("list", name="Entries")
    expect(entries).to_contain_text("token.revoke")
    expect(page.page).to_have_url(re.compile("/operations/audit.target=token:"))

    # Revoking one's own token says so, and signs out.
    page.go("/operations/access")
    page.forgiven = ("401",)
    sessions = page.region("Browser sessions")
    expect(sessions.get_by_role("listitem")).to_contain_text("this one")
    row = page.region("Tokens").get_by_role("listitem").filter(has_text="you are signed in with it")
    row.get_by_role("button", name=re.compile("^Revoke")).click()
    question = dialog(page, re.compile("^Revoke somebody"))
    expect(question).to_contain_text("you will be signed out at once")
    page.button("Revoke it and sign out", within=question).click()
    expect(page.page.get_by_label("Token", exact=True)).to_be_visible()
    assert client.token_id in [token.id for token in client.desk.read(tokens.list_all_tokens) if not token.revoked_at]
    assert "somebody at a browser" not in [
        token.label for token in client.desk.read(tokens.list_all_tokens) if not token.revoked_at
    ]


def search_the_audit_log(page: Visit, client: Client) -> None:
    def fill(tx: Transaction) -> None:
        for number in range(60):
            tx.actor = "ci" if number % 2 else "Ada"
            audit.record_in_audit(tx, client.desk.tenant.id, "limit.set", "costs", {"limit_usd": number}, {"limit_usd": number + 1})
        tx.actor = "Ada"
        audit.record_in_audit(tx, client.desk.tenant.id, "policy.allow", "approval:7", None, {"rule": "<img src=x>"})

    client.desk.database.write(within_tenant(client.desk.tenant.id, fill))
    page.go("/operations/audit?action=limit&who=ada")
    card = page.region("Audit log")
    entries = card.get_by_role("list", name="Entries").locator(":scope > li")
    expect(entries).to_have_count(30)
    expect(card.get_by_label("Who")).to_have_value("ada")
    expect(entries.first).to_contain_text(re.compile("limit.set.*costs.*limit_usd.*58.*59.*Ada", re.DOTALL))
    with page.page.expect_download() as download:
        page.button("Export as JSON").click()
    exported = json.loads(Path(download.value.path()).read_text())
    assert [entry["new"]["limit_usd"] for entry in exported["entries"]] == list(range(59, 0, -2))
    page.button("Clear").click()
    expect(page.page).to_have_url(re.compile("/operations/audit$"))
    expect(entries).to_have_count(50)
    page.button("Show more").click()
    expect(entries.nth(60)).to_be_visible()
    card.get_by_label("Action").fill("policy")
    expect(entries.first).to_contain_text("<img src=x>")
    expect(page.page).to_have_url(re.compile("action=policy"))
    card.get_by_label("From").fill("2020-01-01")
    card.get_by_label("To").fill("2020-01-31")
    expect(card).to_contain_text("No entries.")
    assert "from=2020-01-01" in page.page.url
    page.button("Clear").click()
    expect(entries).to_have_count(50)
    look_at(page, "audit")


# Tools, policy and models


@pytest.mark.proof
def test_an_administrator_of_a_tenant_sees_policy_models_audit_log_and_tokens(
    page: Visit, client: Client, service: Service, model: ModelServer
) -> None:
    tenant = client.desk.tenant.name
    add_rule(service, "calculate", tenant)
    add_rule(service, "write_file", tenant, 'deny"\nrole = "coder"\narguments = {path = "secrets/*"}\n#"')
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(client, client.conversation())
    approval = turn["waiting_for"]["id"]
    client.ok("POST", f"/v1/approvals/{approval}", json={"decision": "approve", "always": True})
    wait_for_turn(client, turn["id"])
    page.open("/operations/tools").live()
    card = page.region("Policy")
    rules = card.get_by_role("list", name="Rules in order").get_by_role("listitem")
    expect(rules).to_have_count(3)
    expect(rules.nth(0)).to_contain_text(re.compile(f"allow.*calculate.*approval {approval}", re.DOTALL))
    expect(rules.nth(2)).to_contain_text(re.compile("deny.*write_file.*coder.*path =.*….*policy.toml, line", re.DOTALL))
    card.get_by_label("Tool").fill("write_file")
    card.get_by_label("Role").select_option("coder")
    card.get_by_label("Arguments").fill("{path")
    page.button("Test it").click()
    expect(card.get_by_role("alert")).to_contain_text("not JSON")
    card.get_by_label("Arguments").fill('{"path": "secrets/x"}')
    page.button("Test it").click()
    verdict = card.get_by_role("status")
    expect(verdict).to_contain_text("It would be refused.")
    expect(verdict).to_contain_text("would refuse these arguments: ")
    expect(rules.nth(2)).to_contain_text("decides the call below")
    look_at(page, "policy-ruling")

    expect(page.button("Remove", within=card, exact=False)).to_have_count(1)
    page.button(f"Remove the rule of approval {approval}").click()
    page.button("Remove the rule", within=dialog(page, "Ask about such calls again?")).click()
    expect(rules).to_have_count(2)
    call = {"tool": "calculate", "arguments": SUM}
    assert client.ok("POST", "/v1/policy/test", json=call)["decision"] == "ask"
    expect(page.region("MCP servers")).to_have_count(0)

    # An administrator of a tenant tries its models, and sees no settings.
    page.page.keyboard.press("Control+k")
    page.page.get_by_label("Search pages, conversations, goals, todos and actions").fill("models and settings")
    page.page.keyboard.press("Enter")
    expect(page.page).to_have_url(re.compile("/operations/settings$"))
    expect(page.region("Settings in force")).to_contain_text("Only the operator, who runs the installation, sees its settings.")
    expect(page.region("Limits of this tenant")).to_contain_text("Turns that have not ended0 of 1,000")
    page.button("Try it: strong").click()
    trial = dialog(page, re.compile("^Try openai-chat"))
    trial.get_by_label("Message").fill("Who are you?")
    model.script = to_script(text("I am <b>the model</b>.", usage=(9, 4)))
    page.button("Ask it", within=trial).click()
    expect(trial).to_contain_text("I am <b>the model</b>.")
    expect(trial).to_contain_text("9 tokens in · 4 out · $0.00")
    assert model.requests[-1].texts[-1] == "Who are you?"
    look_at(page, "trial")
    model.script = to_script(error(401, "no such key"))
    page.button("Ask it", within=trial).click()
    expect(trial).to_contain_text("It did not answer")
    expect(trial).to_contain_text("HTTP 401")
    page.button("Close", within=trial).click()
    assert "trial" in [run["role"] for run in client.ok("GET", "/v1/agents")["agents"]]
    search_the_audit_log(page, client)
    manage_tokens(page, client)


# The installation


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server with MCP servers, whose operator is the tenant `local`."""
    folder = tmp_path_factory.mktemp("installation")
    home = folder / ".headway"
    home.mkdir()
    servers = {
        "sample": {
            "command": sys.executable,
            "args": ["-IS", str(SAMPLE), str(folder / "calls"), "erase"],
            "env": {"API_KEY": KEY},
        },
        "absent": {"url": f"http://127.0.0.1:9/mcp?key={KEY}"},
    }
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with (
        ModelServer(text("hello")) as model,
        run_server(f"sqlite:///{folder / 'headway.db'}", folder, environment=environment(model)) as service,
    ):
        yield service


@pytest.fixture
def host_page(installation: Service, profiles: Profiles, pytestconfig: pytest.Config) -> Iterator[Visit]:
    """A window in which an operator of the tenant `local` is signed in."""

    def create(tx: Transaction) -> str:
        local = local_tenant.ensure_local(tx)
        return within_tenant(local.id, lambda tx: tokens.create_token(tx, local.id, "host", scope="operator"))(tx).secret

    url = installation.url.rstrip("/")
    with profiles.take() as context:
        answer = context.request.post(f"{url}/login", data={"token": installation.database.write(create)}, headers={"Origin": url})
        assert answer.status == 204
        visit = Visit(context.pages[0], url, is_thorough=pytestconfig.getoption("torture"))
        yield visit
        visit.stop_listening()
    visit.check()


@pytest.mark.proof
def test_the_host_sees_tenants_settings_and_mcp_servers(host_page: Visit, installation: Service) -> None:
    with installation.tenant() as other:
        other.desk.write(spending.set_limit, 2_000_000_000)
    host_page.open("/operations/access").live()
    card = host_page.region("Tenants")
    expect(card.get_by_role("row").filter(has_text=other.desk.tenant.name)).to_contain_text("$0.00 of $2.00")
    host_page.button("New tenant", within=card).click()
    new = dialog(host_page, "New tenant")
    new.get_by_label("Name").fill("acme")
    host_page.button("Create it", within=new).click()
    secret = read_secret(host_page)
    expect(card.get_by_role("row").filter(has_text="acme")).to_contain_text(re.compile(r"created (just now|\d+s ago)"))
    token = installation.database.read(lambda tx: tokens.authenticate(tx, tokens.hash_secret(secret)))
    assert token.scope == "admin"
    assert installation.database.read(lambda tx: tenants.get_by_name(tx, "acme")).id == token.tenant_id
    look_at(host_page, "tenants")

    # Settings are searched, and name their sources.
    host_page.go("/operations/settings")
    card = host_page.region("Settings in force")
    expect(card.get_by_role("row", name=re.compile("^HEADWAY_MODEL "))).to_contain_text(
        re.compile("openai-chat:fake-1.*environment", re.DOTALL)
    )
    expect(card.get_by_role("row").filter(has_text="OPENAI_API_KEY")).to_contain_text("set")
    host_page.button("Changed", within=card).click()
    expect(card.get_by_role("row").filter(has_text="HEADWAY_SANDBOX_READ")).to_have_count(0)
    host_page.button("All", within=card).click()
    card.get_by_label("Search the settings").fill("sandbox")
    expect(card.get_by_role("row").filter(has_text="HEADWAY_MODEL")).to_have_count(0)
    expect(card.get_by_role("row").filter(has_text="HEADWAY_SANDBOX_READ")).to_contain_text("not set")
    look_at(host_page, "settings")

    # MCP servers are connected, and show their tools.
    host_page.go("/operations/tools")
    card = host_page.region("MCP servers")
    sample, absent = (card.get_by_role("listitem").filter(has_text=name).first for name in ("sample", "absent"))
    expect(sample).to_contain_text("not used yet")
    host_page.button("Connect sample").click()
    expect(sample).to_contain_text("connected", timeout=SLOW_MS)
    sample.get_by_text(re.compile("tools$")).click()
    expect(card.get_by_role("list", name="Tools of sample")).to_contain_text(re.compile("sample__erase.*needs approval", re.DOTALL))
    host_page.button("Reconnect sample").click()
    host_page.button("Reconnect", within=dialog(host_page, "Reconnect to sample?")).click()
    expect(sample).to_contain_text("connected", timeout=SLOW_MS)
    host_page.button("Connect absent").click()
    expect(absent).to_contain_text("is not available", timeout=SLOW_MS)
    assert KEY not in host_page.page.content()
    look_at(host_page, "mcp-servers")

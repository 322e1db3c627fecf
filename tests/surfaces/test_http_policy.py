"""/v1/policy: what the policy would decide about a call, and rules that a person's decision added."""

import json
from pathlib import Path

from tests.model_server import ModelServer
from tests.surfaces.conversation_client import wait_for_turn
from tests.surfaces.server_harness import Client, Service, admin_headers, operator_headers, run_server
from tests.surfaces.waiting_turns import SUM, add_rule, begin_waiting_turn, call_then_answer


def test_the_policy_says_what_it_would_decide_and_why(sqlite_client: Client, sqlite_service: Service) -> None:
    tenant = sqlite_client.desk.tenant.name
    add_rule(sqlite_service, "write_file", tenant, 'deny"\nrole = "coder"\narguments = {path = "secrets/*"}\n#"')

    def ask(tool: str, role: str = "coder", **arguments: object) -> dict[str, object]:
        body = {"tool": tool, "role": role, "arguments": arguments}
        answer: dict[str, object] = sqlite_client.ok("POST", "/v1/policy/test", json=body)
        return answer

    denied = ask("write_file", path="x/../secrets/key", content="x")
    (rule,) = sqlite_client.ok("GET", "/v1/policy", headers=admin_headers(sqlite_client))["rules"]
    assert (denied["decision"], denied["rule"], denied["problem"]) == ("deny", rule, "")
    assert denied["why"] == f"policy.toml, line {rule['line']}"
    incomplete = ask("write_file", path="secrets/key")
    assert (incomplete["decision"], "content" in str(incomplete["problem"])) == ("deny", True)
    assert ask("write_file", path="open/key", content="x")["decision"] == "allow"
    assert ask("write_file", "writer", path="secrets/key", content="x")["rule"] is None
    default = ask("set_goal", "index", description="x")
    assert (default["decision"], default["rule"]) == ("ask", None)
    assert "set_goal needs approval" in str(default["why"])
    sqlite_client.refused("POST", "/v1/policy/test", 404, "not_found", json={"tool": "no_such_tool"})
    sqlite_client.refused("POST", "/v1/policy/test", 422, "unknown_role", json={"tool": "now", "role": "cook"})
    sqlite_client.refused("POST", "/v1/policy/test", 422, "invalid", json={"tool": "now", "arguments": "x"})
    with sqlite_service.tenant() as other:
        body = {"tool": "write_file", "role": "coder", "arguments": {"path": "secrets/key", "content": "x"}}
        assert other.ok("POST", "/v1/policy/test", json=body)["decision"] == "allow", "the rule is for one tenant"


def test_only_the_operator_sees_the_patterns_of_rules(sqlite_client: Client, sqlite_service: Service) -> None:
    """A pattern may name files that a tenant must not know of, and the tenants that the rule is for."""
    tenant = sqlite_client.desk.tenant.name
    add_rule(sqlite_service, "write_file", f"{tenant[:-1]}*", 'deny"\narguments = {path = "the-secret-plan/*"}\n#"')
    add_rule(sqlite_service, "write_file", "local", 'deny"\narguments = {path = "the-secret-plan/*"}\n#"')
    sqlite_client.refused("GET", "/v1/policy", 403, "forbidden")
    (rule,) = sqlite_client.ok("GET", "/v1/policy", headers=admin_headers(sqlite_client))["rules"]
    call = {"tool": "write_file", "arguments": {"path": "the-secret-plan/a", "content": "x"}}
    tried = sqlite_client.ok("POST", "/v1/policy/test", json=call)

    assert (rule["decision"], rule["tenant"], rule["arguments"]) == ("deny", tenant, {"path": "…"})
    assert tried["rule"] == rule
    seen = sqlite_client.ok("GET", "/v1/policy", headers=operator_headers(sqlite_client))["rules"]
    assert {"path": "the-secret-plan/*"} in [rule["arguments"] for rule in seen]


def test_a_decision_for_always_can_be_taken_back(chatter: Client, chat_service: Service, model: ModelServer) -> None:
    tenant = chatter.desk.tenant.name
    add_rule(chat_service, "calculate", tenant)
    model.script = call_then_answer("calculate", SUM)
    turn = begin_waiting_turn(chatter, chatter.conversation())
    approval_id = turn["waiting_for"]["id"]
    chatter.ok("POST", f"/v1/approvals/{approval_id}", json={"decision": "approve", "always": True})
    wait_for_turn(chatter, turn["id"])
    call, path = {"tool": "calculate", "role": "index", "arguments": SUM}, f"/v1/policy/always/{approval_id}"
    allowed = chatter.ok("POST", "/v1/policy/test", json=call)
    headers = admin_headers(chatter)
    with chat_service.tenant() as other:
        other.refused("DELETE", path, 404, "not_found", headers=admin_headers(other))
    chatter.refused("DELETE", path, 403, "forbidden")
    removed = chatter.ok("DELETE", path, headers=headers)["rules"]
    asked = chatter.ok("POST", "/v1/policy/test", json=call)
    chatter.refused("DELETE", path, 404, "not_found", headers=headers)
    chatter.refused("DELETE", "/v1/policy/always/0", 422, "invalid", headers=headers)
    (entry,) = chatter.ok("GET", "/v1/audit", params={"action": "policy.forget", "limit": 1}, headers=headers)["entries"]

    assert (allowed["decision"], allowed["rule"]["approval"]) == ("allow", approval_id)
    assert [(rule["tool"], rule["tenant"], rule["approval"]) for rule in removed] == [("calculate", tenant, approval_id)]
    assert asked["decision"] == "ask"
    assert [(rule["decision"], rule["approval"]) for rule in chatter.ok("GET", "/v1/policy", headers=headers)["rules"]] == [
        ("ask", 0)
    ]
    assert (entry["target"], entry["old"]["rules"], entry["who"].startswith("admin (token")) == (
        f"approval:{approval_id}",
        removed,
        True,
    )


def test_the_last_rule_goes_without_a_restart_and_a_broken_file_is_reported(sqlite_url: str, tmp_path: Path) -> None:
    home = tmp_path / ".headway"
    home.mkdir()
    policy = home / "policy.toml"
    policy.write_text('[[rule]]  # always, by approval 7\ntool = "set_goal"\ntenant = "acme"\ndecision = "allow"\n')
    with run_server(sqlite_url, tmp_path) as service, service.tenant() as client:
        desk_name = client.desk.tenant.name
        policy.write_text(policy.read_text().replace("acme", desk_name))
        call = {"tool": "set_goal", "arguments": {"description": "x"}}
        before = client.ok("POST", "/v1/policy/test", json=call)["decision"]
        headers = admin_headers(client)
        client.ok("DELETE", "/v1/policy/always/7", headers=headers)
        after = client.ok("POST", "/v1/policy/test", json=call)["decision"]
        policy.write_text('[[rule]]\ntool = "now"\ndecision = "deny"\n')
        client.ok("GET", "/v1/policy", headers=headers)
        policy.write_text("[[rule]]\n")
        broken = client.ok("GET", "/v1/policy", headers=headers)
        errors = [line for line in service.lines() if line["level"] == "error"]
        service.log.write_text("")

    assert (before, after) == ("allow", "ask")
    assert [rule["decision"] for rule in broken["rules"]] == ["deny"], "the last one stays in force"
    assert "policy.toml, line 1" in broken["problem"]
    assert str(tmp_path) not in json.dumps(broken)
    assert len(errors) == 1

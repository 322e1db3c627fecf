"""Calls that a person must approve: the run waits without a process, and exactly the approved call is made."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from headway.actions.access import audit
from headway.ledger.errors import Conflict, Invalid, NotFound
from headway.ledger.inbox import compute_digest
from headway.ledger.tenancy import AuditFilter
from tests.agents.person_harness import (
    BOB,
    answer_question,
    cancel_turn,
    decide,
    decide_and_finish,
    list_approvals,
    list_questions,
    run_command,
    write_policy,
)
from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, list_sub_agents, wait_for_end
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import calls, text

DONE = text("Done.")
OWN = '''
from pathlib import Path
from headway import tool

@tool(destructive=True)
def erase(name: str) -> str:
    """Erases a thing."""
    return f"erased {name}"
'''


def get_id(talk: Talk, index: int = 0) -> int:
    """Return the id of an approval, counted from the oldest."""
    approval_id: int = list_approvals(talk)[index]["id"]
    return approval_id


def get_last_result(talk: Talk) -> str:
    return talk.requests[-1].tool_results[-1].content


def test_a_command_waits_for_a_person_and_then_runs(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(run_command("echo", "hello"), DONE), commands="echo", sandbox="off") as talk:
        turn = talk.say()
        (approval,) = list_approvals(talk)
        assert (turn["status"], turn["waiting_for"]) == ("waiting", {"kind": "approval", "id": approval["id"]})
        assert (approval["tool"], approval["arguments"], approval["state"]) == (
            "run_command",
            {"command": ["echo", "hello"]},
            "proposed",
        )
        assert approval["digest"] == compute_digest("run_command", json.dumps(approval["arguments"]))
        assert [effect.state for effect in talk.effects()] == ["proposed"]
        assert (talk.job().state, talk.job().owner, talk.run_row().status) == ("delayed", "", "waiting")
        assert talk.pool().reserved == 0
        assert [kind for kind, _ in talk.notices()] == ["approval"]
        assert len(talk.requests) == 1

        assert decide_and_finish(talk, approval["id"], "approve")["outcome"] == "answered"
        (effect,) = talk.effects()
        assert (effect.state, json.loads(effect.result)) == ("succeeded", {"exit_code": 0, "output": "hello\n"})
        kinds = [kind for kind, _ in talk.events("tool_call", "approval_requested", "approval_decided", "tool_result")]
        assert kinds == ["tool_call", "approval_requested", "approval_decided", "tool_result"]
        (decided,) = list_approvals(talk)
        assert (decided["state"], decided["decided_by"]) == ("approved", BOB)
        assert talk.list_event_data("approval_decided")[0]["approval"] == decided
        assert talk.turn()["waiting_for"] is None


def list_audit(talk: Talk, action: str) -> list[dict[str, Any]]:
    """Return the entries of the audit log, oldest first."""
    page = talk.database.read(lambda tx: audit.list_audit_entries(tx, talk.tenant_id, AuditFilter(action)))
    return list(reversed(page["entries"]))


def test_a_rejected_call_is_an_error_with_the_reason(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(run_command("echo", "x"), DONE), commands="echo", sandbox="off") as talk:
        talk.say()
        decide_and_finish(talk, get_id(talk), "reject", reason="Not on a Friday.")
        assert json.loads(get_last_result(talk)) == {"error": "A person rejected this call: Not on a Friday. It was not made."}
        assert [effect.state for effect in talk.effects()] == ["failed"]


def test_edited_arguments_are_what_runs_and_the_model_is_told(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(run_command("echo", "rm"), DONE), commands="echo", sandbox="off") as talk:
        talk.say()
        with pytest.raises(Invalid, match="command"):
            decide(talk, get_id(talk), "approve", arguments='{"command": []}')
        decide_and_finish(talk, get_id(talk), "approve", arguments='{"command": ["echo", "safe"]}')
        (entry,) = list_audit(talk, "approval")
        assert (entry["who"], entry["action"], entry["target"]) == (BOB, "approval.approve", f"approval:{get_id(talk)}")
        assert (entry["old"]["state"], entry["old"]["arguments"]) == ("proposed", '{"command": ["echo", "rm"]}')
        assert (entry["new"]["state"], entry["new"]["arguments"]) == ("approved", '{"command": ["echo", "safe"]}')
        result = get_last_result(talk)
        assert '"output": "safe\\n"' in result
        assert 'A person changed the arguments before the call was made: {"command": ["echo", "safe"]}' in result
        (effect,) = talk.effects()
        assert effect.arguments == '{"command": ["echo", "safe"]}'


def test_the_same_decision_changes_nothing_and_another_one_conflicts(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(run_command("echo", "x"), DONE), commands="echo", sandbox="off") as talk:
        talk.say()
        first = decide(talk, get_id(talk), "approve")
        assert decide(talk, get_id(talk), "approve") == first
        with pytest.raises(Conflict, match=r"is already approved by bob\."):
            decide(talk, get_id(talk), "reject")
        with pytest.raises(Conflict):
            decide(talk, get_id(talk), "approve", arguments='{"command": ["echo", "other"]}')
        with pytest.raises(NotFound):
            decide(talk, get_id(talk) + 1, "approve")
        wait_for_end(talk)
        assert len(talk.list_event_data("approval_decided")) == 1


def test_always_adds_a_rule_for_the_same_call_only(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(run_command("echo", "a*"), run_command("echo", "a*"), run_command("echo", "ab"), DONE)
    write_policy(tmp_path, 'tool = "run_command"\ndecision = "ask"')
    with open_talk(sqlite_url, tmp_path, script, commands="echo", sandbox="required") as talk:
        talk.say()
        decide(talk, get_id(talk), "approve", always=True)
        talk.wait(talk.until(lambda: len(list_approvals(talk)) == 2))
        (_, other) = list_approvals(talk)
        assert other["arguments"] == {"command": ["echo", "ab"]}
        assert [effect.state for effect in talk.effects()] == ["succeeded", "succeeded", "proposed"]
        assert (tmp_path / "policy.toml").read_text() == (
            '[[rule]]  # always, by approval 1\ntool = "run_command"\nrole = "index"\ntenant = "acme"\n'
            'arguments = {"command" = "echo \'a[*]\'"}\ndecision = "allow"\n'
            '\n[[rule]]\ntool = "run_command"\ndecision = "ask"\n'
        )
        decide_and_finish(talk, get_id(talk, 1), "reject", reason="no")
        assert [entry["action"] for entry in list_audit(talk, "approval")] == ["approval.approve", "approval.reject"]
        (allowed,) = list_audit(talk, "policy.allow")
        assert (allowed["who"], allowed["new"]["rule"]["arguments"]) == (BOB, {"command": "echo 'a[*]'"})
        talk.wait(talk.until(lambda: len(list_audit(talk, "policy.change")) == 2))
        first, second = (entry["new"] for entry in list_audit(talk, "policy.change"))
        digest = hashlib.sha256((tmp_path / "policy.toml").read_bytes()).hexdigest()
        assert (first["rules"], second) == (1, {"sha256": digest, "rules": 2})


def test_always_goes_ahead_of_the_rule_that_asks_and_below_the_others(sqlite_url: str, tmp_path: Path) -> None:
    write_policy(
        tmp_path,
        'tool = "write_file"\narguments = {content = "*secret*"}\ndecision = "deny"',
        'tool = "write_file"  # ask about the rest\ndecision = "ask"',
    )
    script = in_order(
        calls(("write_file", {"path": "a.txt", "content": "one"})),
        calls(("write_file", {"path": "./a.txt", "content": "two"}), ("write_file", {"path": "a.txt", "content": "a secret"})),
        DONE,
    )
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        decide_and_finish(talk, get_id(talk), "approve", always=True)
        assert [effect.state for effect in talk.effects()] == ["succeeded", "succeeded", "failed"]
        assert "The policy does not allow this call (policy.toml, line 1)" in get_last_result(talk)
        lines = (tmp_path / "policy.toml").read_text().splitlines()
        assert [line for line in lines if line.startswith("decision")] == [
            'decision = "deny"',
            'decision = "allow"',
            'decision = "ask"',
        ]
        assert 'tool = "write_file"  # ask about the rest' in lines


def test_all_calls_of_an_answer_are_proposed_at_once_and_made_in_order(sqlite_url: str, tmp_path: Path) -> None:
    first = calls(
        ("run_command", {"command": ["echo", "1"]}),
        ("calculate", {"expression": "1+1"}),
        ("use_tool", {"name": "run_command", "arguments": {"command": ["echo", "2"]}}),
        ("run_command", {"command": ["ls"]}),
    )
    with open_talk(sqlite_url, tmp_path, in_order(first, DONE), commands="echo", sandbox="off") as talk:
        talk.say()
        assert [approval["arguments"]["command"][-1] for approval in list_approvals(talk)] == ["1", "2"]
        assert len(talk.notices()) == 1
        decide(talk, get_id(talk, 1), "approve")
        assert talk.open_notices() == ["approval"]  # until the last call of the answer is decided
        assert talk.turn()["waiting_for"] == {"kind": "approval", "id": get_id(talk)}
        decide_and_finish(talk, get_id(talk), "approve")
        assert talk.open_notices() == []
        results = [result.content for result in talk.requests[-1].tool_results]
        assert [json.loads(result).get("output") for result in results] == ["1\n", None, "2\n", None]
        assert "is not an allowed command" in results[3]


def test_a_call_that_nobody_decides_about_expires(database_url: str, tmp_path: Path) -> None:
    script = in_order(run_command("echo", "x"), DONE)
    with open_talk(database_url, tmp_path, script, commands="echo", sandbox="off", approval_timeout_s="1") as talk:
        talk.say()
        assert wait_for_end(talk)["outcome"] == "answered"
        assert list_approvals(talk)[0]["state"] == "expired"
        assert talk.open_notices() == []
        assert "No person decided about this call in time" in get_last_result(talk)
        with pytest.raises(Conflict, match="is already expired"):
            decide(talk, get_id(talk), "approve")


def test_an_approval_behind_a_call_that_waits_expires_in_time(database_url: str, tmp_path: Path) -> None:
    ask = ("ask_person", {"question": "Which colour?"})
    script = in_order(calls(ask, ("run_command", {"command": ["echo", "x"]})), DONE)
    with open_talk(database_url, tmp_path, script, commands="echo", sandbox="off", approval_timeout_s="1") as talk:
        talk.say()
        assert [approval["state"] for approval in list_approvals(talk)] == ["proposed"]
        talk.wait(talk.until(lambda: list_approvals(talk)[0]["state"] == "expired"))
        assert (talk.turn()["waiting_for"]["kind"], talk.open_notices()) == ("question", ["question"])
        answer_question(talk, list_questions(talk)[0]["id"], "blue")
        assert wait_for_end(talk)["outcome"] == "answered"
        assert "No person decided about this call in time" in get_last_result(talk)


def test_canceling_the_turn_cancels_its_approvals(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, run_command("echo", "x"), commands="echo", sandbox="off") as talk:
        talk.say()
        cancel_turn(talk)
        (approval,) = list_approvals(talk)
        assert (approval["state"], talk.turn()["status"]) == ("canceled", "canceled")
        assert talk.open_notices() == []
        with pytest.raises(Conflict, match="is already canceled"):
            decide(talk, get_id(talk), "approve")


def test_a_sub_agent_waits_and_its_supervisor_with_it(database_url: str, tmp_path: Path) -> None:
    script = by_role(
        index=by_transcript(delegate_call("dig"), text("Dug.")),
        researcher=by_transcript(run_command("echo", "dig"), text("A hole.")),
    )
    with open_talk(database_url, tmp_path, script, commands="echo", sandbox="off") as talk:
        talk.say()
        (child,) = list_sub_agents(talk).values()
        (approval,) = list_approvals(talk)
        assert (approval["run_id"], approval["role"], approval["turn_id"]) == (child.id, "researcher", talk.turn()["id"])
        talk.wait(talk.until(lambda: not talk.headway.engine.tasks))
        assert decide_and_finish(talk, approval["id"], "approve")["outcome"] == "answered"


def test_a_destructive_tool_of_ones_own_asks_unless_the_policy_allows_it(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.py").write_text(OWN)
    script = in_order(calls(("erase", {"name": "disk"})), DONE, calls(("erase", {"name": "disk"})), DONE)
    with open_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        decide_and_finish(talk, get_id(talk), "approve")
        assert get_last_result(talk) == "erased disk"
        write_policy(tmp_path, 'tool = "era*"\nrole = "index"\ndecision = "allow"')
        assert talk.say()["status"] == "finished"
        assert len(list_approvals(talk)) == 1


@pytest.mark.parametrize("path", ["secrets/key", "./secrets//key", "a/../secrets/key", "link/key", "{workspace}/secrets/key"])
def test_a_rule_about_a_path_holds_however_the_path_is_written(sqlite_url: str, tmp_path: Path, path: str) -> None:
    write_policy(tmp_path, 'tool = "read_file"\narguments = {path = "secrets/*"}\ndecision = "deny"')
    script = in_order(calls(("read_file", {"path": "other"})), DONE)
    with open_talk(sqlite_url, tmp_path, script) as talk:
        workspace = Path(talk.headway.settings.get_workspace(talk.tenant_id))
        (workspace / "secrets").mkdir(parents=True)
        (workspace / "secrets" / "key").write_text("k")
        (workspace / "link").symlink_to("secrets")
        written = path.format(workspace=workspace)
        talk.server.script = in_order(calls(("read_file", {"path": written})), DONE)
        talk.say()
        assert "The policy does not allow this call" in get_last_result(talk)


def test_a_rule_that_allows_a_path_does_not_allow_a_link_out_of_it(sqlite_url: str, tmp_path: Path) -> None:
    write_policy(
        tmp_path,
        'tool = "read_file"\narguments = {path = "open/*"}\ndecision = "allow"',
        'tool = "read_file"\ndecision = "deny"',
    )
    reads = calls(("read_file", {"path": "open/note"}), ("read_file", {"path": "open/link"}))
    with open_talk(sqlite_url, tmp_path, in_order(reads, DONE)) as talk:
        workspace = Path(talk.headway.settings.get_workspace(talk.tenant_id))
        (workspace / "open").mkdir(parents=True)
        (workspace / "open" / "note").write_text("n")
        (workspace / "key").write_text("k")
        (workspace / "open" / "link").symlink_to("../key")
        talk.say()
        assert [effect.state for effect in talk.effects()] == ["succeeded", "failed"]


def test_an_approved_call_that_the_policy_denies_in_the_meantime_is_not_made(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(run_command("echo", "x"), DONE), commands="echo", sandbox="off") as talk:
        talk.say()
        write_policy(tmp_path, 'tool = "run_command"\ndecision = "deny"')
        decide_and_finish(talk, get_id(talk), "approve")
        assert "The policy does not allow this call (policy.toml, line 1)" in get_last_result(talk)


def test_an_agent_that_headway_does_not_run_cannot_wait(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, DONE, commands="echo", sandbox="off") as talk:
        loop = talk.wait(talk.headway.own_loop(tenant="acme"))
        loop = loop.only("builtin", "turn_plan")
        result = talk.wait(loop.call("run_command", {"command": ["echo", "x"]}))
        assert result.is_error
        assert "needs a person's approval, which this agent cannot wait for" in result.error
        write_policy(tmp_path, 'tool = "run_command"\ndecision = "allow"', 'tool = "create_todo"\ndecision = "deny"')
        assert not talk.wait(loop.call("run_command", {"command": ["echo", "x"]})).is_error
        assert "does not allow" in talk.wait(loop.call("create_todo", {"items": [{"title": "a"}]})).error


def test_a_writ_follows_the_policy_and_cannot_wait(sqlite_url: str, tmp_path: Path) -> None:
    write_policy(
        tmp_path,
        'tool = "/schedule"\ndecision = "deny"',
        'tool = "/todo"\narguments = {text = "cancel *"}\ndecision = "ask"',
        'tool = "/agent"\ndecision = "deny"',
    )
    said = text("/todo add Dig\n/todo cancel Dig\n/schedule x every 1h: hello\n/agent coder dig")
    with open_talk(sqlite_url, tmp_path, in_order(said, DONE)) as talk:
        talk.say()
        (answer,) = [line for line in talk.requests[-1].texts if "END TODO" in line]
        assert "added" in answer
        assert "ERR: a writ cannot wait for a person's approval (policy.toml, line 5); call the tool instead" in answer
        assert "ERR: the policy does not allow this (policy.toml, line 1)" in answer
        assert "ERR: the policy does not allow this (policy.toml, line 10)" in answer
        assert list_sub_agents(talk) == {}

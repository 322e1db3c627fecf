"""Tools of MCP servers: every call is an effect, a server that dies is started again, and no secret gets out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.agents.mcp.config import load_servers
from headway.ledger.errors import SettingsError
from tests.agents.person_harness import cancel_turn, decide, decide_and_finish, list_approvals
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Reply, Script, calls, text
from tests.tables import each_row
from tests.warm_start import build_command

DONE = text("Done.")
SERVER = Path(__file__).with_name("sample_mcp_server.py")
KEY = "k3y-of-the-sample-server"


def build_sample() -> dict[str, Any]:
    command, *args = build_command(str(SERVER))
    return {"command": command, "args": [*args, "${LOG}"], "env": {"API_KEY": KEY}, "start_timeout_s": 60}


@contextmanager
def open_mcp_talk(url: str, home: Path, script: Script | Reply, **servers: Any) -> Iterator[Talk]:
    """Open a talk whose agents may use the sample server, and others."""
    sample = build_sample()
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"sample": sample, **servers}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOG", str(home / "calls.log"))
        with open_talk(url, home, script) as talk:
            talk.wait(talk.headway.prepare_tools(talk.headway.roles.find("index"), 60))
            yield talk


def use(*names: str, **arguments: Any) -> Reply:
    return calls(*((f"sample__{name}", arguments) for name in names))


def list_calls(home: Path) -> list[str]:
    log = home / "calls.log"
    return log.read_text().splitlines() if log.exists() else []


def get_last_result(talk: Talk) -> str:
    return talk.requests[-1].tool_results[-1].content


def test_a_model_calls_a_tool_of_a_server(database_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(database_url, tmp_path, in_order(use("add", a=2, b="3"), use("fail"), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.state for effect in talk.effects()] == ["succeeded", "failed"]
        assert talk.requests[-1].tool_results[0].content == "5"
        assert "a bad thing" in get_last_result(talk)
        (definition,) = [tool for tool in talk.requests[0].body["tools"] if tool["function"]["name"] == "sample__add"]
        assert definition["function"]["parameters"]["required"] == ["a", "b"]


def test_a_tool_that_may_destroy_asks_and_the_others_do_not(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("erase", name="x"), DONE)) as talk:
        talk.say()
        (approval,) = list_approvals(talk)
        assert (approval["tool"], list_calls(tmp_path)) == ("sample__erase", [])
        decide_and_finish(talk, approval["id"], "approve")
        assert list_calls(tmp_path) == ["erase x"]


def test_always_allows_the_same_arguments_only(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(use("erase", name="x"), use("erase", name="x"), use("erase", name="y"), DONE)
    with open_mcp_talk(sqlite_url, tmp_path, script) as talk:
        talk.say()
        decide(talk, list_approvals(talk)[0]["id"], "approve", always=True)
        talk.wait(talk.until(lambda: len(list_approvals(talk)) == 2))
        assert list_approvals(talk)[1]["arguments"] == {"name": "y"}
        assert list_calls(tmp_path) == ["erase x", "erase x"]
        cancel_turn(talk)


def test_a_rule_can_name_a_server(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[rule]]\nserver = "sam*"\ndecision = "deny"\n')
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("add", a=1, b=1), DONE)) as talk:
        talk.say()
        assert "The policy does not allow this call" in get_last_result(talk)
        assert list_calls(tmp_path) == []


def test_secrets_of_a_server_reach_neither_the_model_nor_the_rows(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("show_key"), DONE)) as talk:
        talk.say()
        assert get_last_result(talk) == "…"
        assert KEY not in str([request.body for request in talk.requests])
        assert KEY not in str(talk.effects()) + str(talk.events())


def test_an_image_is_shown_to_a_model_that_looks_at_images(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("paint"), DONE)) as talk:
        talk.say()
        assert get_last_result(talk) == "[image 1: image/png, 70 bytes]"
        parts = [part for part in talk.requests[-1].messages[-1]["content"] if part["type"] == "image_url"]
        assert parts[0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


def test_a_read_is_repeated_by_a_new_server_after_the_old_one_died(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("read_once_dead"), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert get_last_result(talk) == "alive"
        assert list_calls(tmp_path) == ["read", "read"]


def test_a_write_is_not_repeated_and_its_outcome_is_unknown(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("die"), use("add", a=1, b=1), DONE)) as talk:
        assert talk.say()["outcome"] == "answered"
        assert [effect.state for effect in talk.effects()] == ["unknown", "succeeded"]
        assert "It may have taken effect" in talk.requests[1].tool_results[-1].content
        assert list_calls(tmp_path) == ["die", "add"]


def test_a_read_that_a_crash_interrupted_is_repeated(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("wait"), DONE)) as talk:

        async def crash_during_call() -> None:
            task = await talk.begin()
            await talk.until(lambda: list_calls(tmp_path) == ["wait"])
            await talk.crash(task)

        talk.wait(crash_during_call())
        (tmp_path / "go").touch()
        assert talk.resume_turn()["outcome"] == "answered"
        assert list_calls(tmp_path) == ["wait", "wait"]
        assert get_last_result(talk) == "waited"


def test_a_changed_list_of_tools_is_offered_in_the_next_request(sqlite_url: str, tmp_path: Path) -> None:
    with open_mcp_talk(sqlite_url, tmp_path, in_order(use("learn"), DONE, DONE)) as talk:
        talk.say()
        talk.wait(talk.until(lambda: "sample__learned" in talk.headway.toolbox.tools))
        talk.say()
        assert "sample__learned" in talk.requests[-1].tools


def test_a_server_that_does_not_start_leaves_the_turn_alone(sqlite_url: str, tmp_path: Path) -> None:
    broken = {"command": "sh", "args": ["-c", "echo out of order >&2; exit 1"]}
    with open_mcp_talk(sqlite_url, tmp_path, DONE, broken=broken, absent={"command": "no-such-program"}) as talk:
        assert talk.say()["outcome"] == "answered"
        assert "out of order" in talk.headway.mcp.servers["broken"].error
        assert "no-such-program" in talk.headway.mcp.servers["absent"].error


def test_a_role_may_name_the_servers_that_it_uses(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text('tools = ["turn_plan", "mcp:other"]\n')
    with open_mcp_talk(sqlite_url, tmp_path, DONE) as talk:
        talk.say()
        assert not [name for name in talk.requests[0].tools if name.startswith("sample__")]
        assert talk.headway.mcp.servers["sample"].client is None, "a server that nobody may use is not started"


def test_many_tools_are_called_on_demand(sqlite_url: str, tmp_path: Path) -> None:
    add = calls(("use_tool", {"name": "other__add", "arguments": {"a": 1, "b": 2}}))
    with open_mcp_talk(sqlite_url, tmp_path, in_order(add, DONE), other=build_sample()) as talk:
        talk.say()
        assert not [name for name in talk.requests[0].tools if "__" in name]
        assert get_last_result(talk) == "3"


# mcp.json


@each_row(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must have an object mcpServers"),
        ('{"mcpServers": {"a b": {"command": "x"}}}', "a name has at most 32 letters"),
        ('{"mcpServers": {"a__b": {"command": "x"}}}', "a name has at most 32 letters"),
        ('{"mcpServers": {"a": 1}}', "must be an object"),
        ('{"mcpServers": {"a": {}}}', "needs either a command or a url"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}', "needs either a command or a url"),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "url must begin with http"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args must be a list of texts"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}', "env must be text"),
        ('{"mcpServers": {"a": {"command": "${MISSING}"}}}', "needs the environment variable MISSING"),
        ('{"mcpServers": {"a": {"command": "x", "port": 1}}}', "cannot have 'port'"),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_write(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(content)
    with pytest.raises(SettingsError) as caught:
        load_servers(path, {})
    assert message in str(caught.value)


def test_a_wrong_server_of_a_program_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^mcp, server 'a' must be an object\.$"):
        load_servers(tmp_path / "mcp.json", {}, {"a": 1})


def test_variables_are_replaced_and_disabled_servers_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    entry = {"url": "https://${HOST:-example.com}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    path.write_text(json.dumps({"mcpServers": {"a": entry, "b": {"command": "x", "disabled": True}}}))
    (server,) = load_servers(path, {"TOKEN": "t"}, {"c": {"command": "${TOKEN}", "disabled": True}})
    assert (server.url, server.headers) == ("https://example.com/mcp", (("Authorization", "Bearer t"),))

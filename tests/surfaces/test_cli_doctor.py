"""`headway doctor`: shows the active configuration and how to fix problems."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model_server import ModelServer, calls, environment, error, text, to_script
from tests.pooler import run_pooler
from tests.surfaces.shell import CommandResult, Shell


def test_a_healthy_installation_lists_its_parts(headway: Shell, database_url: str) -> None:
    report = headway.json("doctor", "--database-url", database_url)

    assert report["ok"] is True
    checks = {check["name"]: check for check in report["checks"]}
    assert all(check["ok"] for check in checks.values())
    assert checks["home"]["detail"] == str(headway.folder / ".headway")
    assert ("SQLite " in checks["database"]["detail"]) != ("PostgreSQL " in checks["database"]["detail"])
    assert "not an LLM" in checks["model"]["detail"]


def test_each_check_is_a_line_for_people(headway: Shell) -> None:
    lines = headway.ok("doctor").splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["✔", name] for name in ("home", "trust", "database", "engine", "model", "operator", "policy", "sandbox", "retention")
    ]


def test_a_variable_that_is_almost_a_setting_is_named(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("HEADWAY_BUDGET=2\nHEADWAY_PORT=8485\n")
    headway.ok("trust", "--yes")
    for name in ("HEADWAY_MODLE", "HEADWAY_TOKEN", "HEADWAY_TEST_POSTGRES_URL", "MODLE"):
        monkeypatch.setenv(name, "x")
    assert [line for line in headway.ok("doctor").splitlines() if line.startswith("!")] == [
        "! setting   HEADWAY_BUDGET is no setting and has no effect. Did you mean HEADWAY_BUDGET_USD?",
        "! setting   HEADWAY_MODLE is no setting and has no effect. Did you mean HEADWAY_MODEL?",
    ]


def test_a_halt_is_reported_and_is_no_fault(headway: Shell) -> None:
    headway.ok("halt", "--why", "lunch\nbreak")
    (line,) = (line for line in headway.ok("doctor").splitlines() if not line.startswith("✔"))
    assert re.fullmatch(r"! halt +halted since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: lunch break\. .*unhalt.*", line)
    report = headway.json("doctor")
    assert report["ok"] is True
    assert [check["name"] for check in report["checks"] if check["warning"]] == ["halt"]
    headway.ok("unhalt")
    assert all(line.startswith("✔") for line in headway.ok("doctor").splitlines())


def test_a_pooler_that_keeps_no_sessions_is_reported(headway: Shell, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def list_details(database_url: str) -> list[str]:
        report = headway.json("doctor", "--database-url", database_url)
        return [check["detail"] for check in report["checks"] if check["name"] == "database"][1:]

    with run_pooler(postgres_url, rotates=False) as pooler_url:
        (warning,) = list_details(pooler_url)
        assert warning == (
            "HEADWAY_DATABASE_URL leads to a pooler that does not keep sessions. Set HEADWAY_DATABASE_DIRECT_URL to the address of "
            "the server itself. Until then, events of other processes are found by polling, and a killed process is noticed after "
            "5 seconds."
        )
        monkeypatch.setenv("HEADWAY_DATABASE_DIRECT_URL", postgres_url)
        (direct,) = list_details(pooler_url)
        assert direct.endswith(" (direct)")
        monkeypatch.setenv("HEADWAY_DATABASE_DIRECT_URL", "postgresql://me:hunter2@127.0.0.1:1/x")
        ran = headway("doctor", "--database-url", pooler_url)
    assert ran.code == 1
    assert "✕ database  postgresql://me:…@127.0.0.1:1/x (direct): Postgres cannot be reached: " in ran.out
    assert "hunter2" not in ran.out + ran.err
    assert "! database  HEADWAY_DATABASE_DIRECT_URL is ignored, because the database is SQLite" in headway.ok("doctor")


def test_channels_are_checked_and_never_shown(headway: Shell) -> None:
    ran = headway.process("doctor", env={"HEADWAY_NOTIFY": "json://user:hunter2@localhost/x,nonsense://hunter2"})
    assert ran.code == 1
    assert "✔ operator  channel 1: JSON" in ran.out
    assert "✕ operator  channel 2: this entry of HEADWAY_NOTIFY is not the URL of a known service" in ran.out
    assert "hunter2" not in ran.out + ran.err


def test_discord_is_a_channel(headway: Shell) -> None:
    """004: "On crash recovery: Discord DM alert"."""
    ran = headway.process("doctor", env={"HEADWAY_NOTIFY": "discord://4711/a-token-of-a-webhook"})
    assert "✔ operator  channel 1: Discord" in ran.out


def test_a_damaged_database_is_named_and_the_exit_is_1(headway: Shell) -> None:
    headway.ledger.parent.mkdir()
    headway.ledger.write_bytes(b"not a database, " * 1_000)
    headway.trust()
    ran = headway("doctor")

    assert (ran.code, ran.err) == (1, "")
    (broken,) = (line for line in ran.out.splitlines() if line.startswith("✕"))
    assert str(headway.ledger) in broken
    assert "restore a backup" in broken
    assert headway("doctor", "--json").code == 1


def test_a_page_that_was_overwritten_is_found(headway: Shell) -> None:
    for number in range(50):
        headway.ok("todo", "add", f"todo {number}", "-d", "x" * 2_000)
    raw = bytearray(headway.ledger.read_bytes())
    for start in range(4096 * 30, len(raw), 4096):
        raw[start : start + 100] = b"\xa5" * 100
    headway.ledger.write_bytes(raw)
    ran = headway("doctor")

    assert ran.code == 1
    assert "damaged" in ran.out


KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OLLAMA_BASE_URL", "OLLAMA_API_KEY")


@pytest.fixture
def keyless(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    return headway


def read_checks(ran: CommandResult) -> dict[str, tuple[bool, str]]:
    return {check["name"]: (check["ok"], check["detail"]) for check in json.loads(ran.out)["checks"]}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("openai-chat:gpt-5-mini", "OPENAI_API_KEY"),
        ("openrouter:some/model", "OPENROUTER_API_KEY"),
        ("nobody:model", "nobody"),
        ("no-colon", "no-colon"),
    ],
)
def test_an_unusable_model_is_named_with_the_setting_to_change(
    keyless: Shell, name: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_MODEL", name)
    ran = keyless("doctor", "--json")
    ok, detail = read_checks(ran)["model"]

    assert (ran.code, ran.err, ok) == (1, "", False)
    assert wanted in detail
    assert name in detail
    (broken,) = (line for line in keyless("doctor").out.splitlines() if line.startswith("✕"))
    assert wanted in broken
    assert "headway doctor" not in broken


def test_a_library_that_is_not_there_is_named(keyless: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL", "groq:llama")
    ok, detail = read_checks(keyless("doctor", "--json"))["model"]

    assert not ok
    assert "pydantic-ai-slim[groq]" in detail


def test_every_tier_that_differs_is_looked_at(keyless: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown-0123456789")
    monkeypatch.setenv("HEADWAY_MODEL", "openai-chat:strong")
    monkeypatch.setenv("HEADWAY_MODEL_CHEAP", "nobody:cheap")
    ran = keyless("doctor", "--json")
    checks = read_checks(ran)

    assert ran.code == 1
    assert checks["model"] == (True, "openai-chat:strong")
    assert checks["cheap"][0] is False
    assert "mid" not in checks
    assert "sk-never" not in ran.out


def test_a_model_with_its_key_is_fine_and_is_not_called(keyless: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(text("never asked")) as server:
        for variable, value in environment(server).items():
            monkeypatch.setenv(variable, value)
        ran = keyless("doctor", "--json")
        requests = server.requests

    assert ran.code == 0
    assert read_checks(ran)["model"] == (True, "openai-chat:fake-1")
    assert requests == []


def test_ollama_needs_no_key_but_a_server(keyless: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL", "ollama:llama3")
    with ModelServer(text("never asked")) as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
        assert read_checks(keyless("doctor", "--json"))["model"] == (True, "ollama:llama3")
    ran = keyless("doctor", "--json")
    assert ran.code == 1
    assert read_checks(ran)["model"] == (
        False,
        f"ollama:llama3: no server is running at {server.url}. Start it, or change the address.",
    )


def test_the_rehearsal_says_that_it_is_no_llm(keyless: Shell) -> None:
    (line,) = (line for line in keyless.ok("doctor").splitlines() if "model" in line.split()[:2])
    assert "not an LLM" in line
    assert "HEADWAY_MODEL" in line


# --call


@pytest.fixture
def calling(keyless: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(calls(("ping", {}), usage=(120, 9))) as server:
        for variable, value in environment(server).items():
            monkeypatch.setenv(variable, value)
        yield server


def test_each_model_is_tried_with_one_small_request(keyless: Shell, calling: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL_CHEAP", "openai-chat:gpt-4o-mini")
    keyless.ledger.parent.mkdir()
    (keyless.ledger.parent / "models.toml").write_text('[strong]\nfallback = ["openai-chat:spare-1"]\n')
    keyless.trust()
    ran = keyless("doctor", "--call")

    lines = [line for line in ran.out.splitlines() if "answered in" in line]
    assert [line.split()[:3] for line in lines] == [
        ["✔", "model", "openai-chat:fake-1:"],
        ["✔", "fallback", "openai-chat:spare-1:"],
        ["✔", "cheap", "openai-chat:gpt-4o-mini:"],
    ]
    assert re.search(r"answered in \d+\.\d s, calls tools, 120 \+ 9 tokens, no known price", lines[0])
    assert re.search(r"120 \+ 9 tokens, \$0\.0000\d\d", lines[2])
    assert [request.model for request in calling.requests] == ["fake-1", "spare-1", "gpt-4o-mini"]
    assert all(request.tools == ["ping"] and request.body["max_tokens"] <= 512 for request in calling.requests)


def test_a_fallback_without_a_price_is_named_too(keyless: Shell, calling: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL", "openai-chat:gpt-4o")
    keyless.ledger.parent.mkdir()
    (keyless.ledger.parent / "models.toml").write_text('[strong]\nfallback = ["openai-chat:spare-1"]\n')
    keyless.trust()
    (line,) = (line for line in keyless.ok("doctor").splitlines() if line.startswith("! price"))
    assert "openai-chat:spare-1" in line


def test_a_call_is_reported_in_numbers(keyless: Shell, calling: ModelServer) -> None:
    report = json.loads(keyless("doctor", "--call", "--json").out)
    (check,) = (check for check in report["checks"] if "call" in check)
    assert check["call"].pop("seconds") >= 0
    assert check["call"] == {
        "model": "openai-chat:fake-1",
        "address": calling.url,
        "tools": True,
        "input_tokens": 120,
        "output_tokens": 9,
        "cost_usd": 0.0,
    }


def test_a_model_that_ignores_the_tool_is_a_warning(keyless: Shell, calling: ModelServer) -> None:
    calling.script = to_script(text("I am here."))
    ran = keyless("doctor", "--call")
    assert ran.code == 0
    assert re.search(r"^! model +openai-chat:fake-1: answered in .* s, did not call the tool that it was offered, ", ran.out, re.M)


def test_a_model_without_function_calling_is_asked_without_a_tool(keyless: Shell, calling: ModelServer) -> None:
    calling.script = lambda request: error(400, "fake-1 does not support tools") if request.tools else text("pong")
    ran = keyless("doctor", "--call")
    assert ran.code == 0
    assert re.search(r"^! model +openai-chat:fake-1: answered in .* s, has no function calling, ", ran.out, re.M)
    assert [request.tools for request in calling.requests] == [["ping"], []]


def test_a_failed_call_is_one_sentence_with_the_address(keyless: Shell, calling: ModelServer) -> None:
    calling.script = to_script(error(401, "Incorrect API key provided: test-key."))
    ran = keyless("doctor", "--call")
    (line,) = (line for line in ran.out.splitlines() if line.startswith("✕"))
    assert ran.code == 1
    assert "The model openai-chat:fake-1 failed (HTTP 401): Incorrect API key provided" in line
    assert calling.url in line
    assert "test-key" not in line
    assert len(calling.requests) == 1


def test_the_rehearsal_is_not_called(keyless: Shell) -> None:
    assert "not an LLM" in keyless.ok("doctor", "--call")


def list_policy_lines(ran: CommandResult) -> list[str]:
    return [line for line in ran.out.splitlines() if line.split()[1] == "policy"]


def test_the_policy_in_force_is_shown_rule_by_rule(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    without = list_policy_lines(headway("doctor"))
    monkeypatch.setenv("HEADWAY_COMMANDS", "echo")
    monkeypatch.setenv("HEADWAY_SANDBOX", "off")
    path = headway.folder / ".headway" / "policy.toml"
    path.write_text(
        '[[rule]]\ntool = "write_file"\narguments = {path = "secrets/*"}\nrole = "worker"\ndecision = "deny"\n'
        '\n[[rule]]\ntool = "*"\ndecision = "allow"\n'
    )
    headway.trust()
    shown = list_policy_lines(headway("doctor"))

    assert without == [
        f"✔ policy    no {path}. Without a matching rule, approval is needed for edit_checks, set_goal; other tools are allowed."
    ]
    assert shown == [
        f"✔ policy    {path}, 2 rules. "
        "Without a matching rule, approval is needed for edit_checks, set_goal, run_command; other tools are allowed.",
        "✔ policy    line 1: deny write_file, path = secrets/*, role = worker",
        "✔ policy    line 7: allow *",
    ]


def list_sandbox_lines(ran: CommandResult) -> list[str]:
    return [line for line in ran.out.splitlines() if line.split()[1] == "sandbox"]


def test_the_sandbox_in_force_is_shown_with_the_programs_that_it_lacks(
    headway: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "programs" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("HEADWAY_COMMANDS", "greet")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HEADWAY_SANDBOX", "off")
    without = headway("doctor")
    monkeypatch.setenv("HEADWAY_SANDBOX", "required")
    within = headway("doctor")
    bwrap = program.with_name("bwrap")
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    broken = headway.process("doctor")  # a process finds out once

    assert list_sandbox_lines(without) == [
        "! sandbox   none: HEADWAY_SANDBOX is off. The programs of agents run as this user, and each call needs approval."
    ]
    assert list_sandbox_lines(within) == [
        "✔ sandbox   bubblewrap: programs see the system read-only and their workspace, without other files; limits are counted, "
        "without a cgroup",
        f"! sandbox   greet is {program}, which the sandbox does not show. Add its folder to HEADWAY_SANDBOX_READ.",
    ]
    assert list_sandbox_lines(broken) == [
        "✕ sandbox   none: bubblewrap does not work here: bwrap: No permissions to create new namespace. "
        "The programs of agents are refused."
    ]
    assert (without.code, within.code, broken.code) == (0, 0, 1)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('[[rule]]\ntool = "x"\ndecision = "perhaps"\n', ", line 1: decision must be allow, ask or deny, not 'perhaps'."),
        ('[[rule]]\ntool = "x"\ndecision = allow\n', " cannot be read: Invalid value (at line 3, column 12)."),
    ],
)
def test_a_policy_that_cannot_be_read_stops_every_process_with_a_sentence(headway: Shell, written: str, expected: str) -> None:
    path = headway.folder / ".headway" / "policy.toml"
    path.parent.mkdir()
    path.write_text(written)
    headway.trust()
    ran = headway("doctor")
    assert (ran.code, list_policy_lines(ran)) == (1, [f"✕ policy    {path}{expected}"])

    for command in (["serve", "--port", "0"], ["worker"], ["chat", "hello"], ["mcp"]):
        stopped = headway.loaded(*command)
        assert (stopped.code, stopped.out, stopped.err) == (2, "", f"headway: {path}{expected}\n"), command


def test_skills_are_listed_and_broken_ones_named(headway: Shell) -> None:
    for path, content in {
        "skills/deploy": "---\nname: deploy\ndescription: How to deploy.\n---\n",
        "skills/mail": "Dear all,",
        "tenants/3/skills/audit": "---\nname: audit\ndescription: How to audit.\n---\n",
    }.items():
        folder = headway.folder / ".headway" / path
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(content)
    assert ".headway/tenants/3/skills/audit/SKILL.md" in headway("doctor").out  # not trusted yet
    headway.trust()
    lines = [line for line in headway.ok("doctor").splitlines() if " skills " in line]
    mail = headway.folder / ".headway" / "skills" / "mail" / "SKILL.md"
    assert lines == [
        "✔ skills    1: deploy",
        f"! skills    skipped: {mail}: The file must begin with its name and description, between two lines ---.",
        "✔ skills    1 of tenant 3: audit",
    ]

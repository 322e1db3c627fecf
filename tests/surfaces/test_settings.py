"""Settings: flags override the environment, which overrides .env, which overrides the defaults. Passwords are never shown."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import settings, trust
from headway.ledger.tiers import TIERS, TierParameters
from headway.settings import redact_database_url
from tests.surfaces.shell import Shell, get_error_line

NAMES = ("home", "database_url", "model", "host", "port")
FLAG = {"home": "/flag", "database_url": "sqlite:////flag", "model": "test:flag", "host": "flag", "port": "1"}
VARIABLE = {"home": "/variable", "database_url": "sqlite:////variable", "model": "test:variable", "host": "variable", "port": "2"}
STORED = {"home": "/stored", "database_url": "sqlite:////stored", "model": "test:stored", "host": "stored", "port": "3"}


def dotenv(values: dict[str, str]) -> None:
    write_env("".join(f"HEADWAY_{name.upper()}={value}\n" for name, value in values.items()))


def write_env(content: str) -> None:
    Path(".env").write_text(content)
    trust.record_trust(trust.inspect("."))


def as_text(chosen: settings.Settings) -> dict[str, str]:
    return {name: str(value) for name, value in chosen._asdict().items() if name in NAMES}


def test_the_defaults_need_nothing(headway: Shell) -> None:
    home = headway.folder / ".headway"
    assert as_text(settings.load()) == {
        "home": str(home),
        "database_url": f"sqlite:///{home}/headway.db",
        "model": "rehearsal",
        "host": "127.0.0.1",
        "port": "8484",
    }


@pytest.mark.parametrize("name", NAMES)
def test_flags_win_over_the_environment_and_that_over_a_file(headway: Shell, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dotenv(STORED)
    assert as_text(settings.load()) == STORED
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", VARIABLE[name])
    assert as_text(settings.load()) == STORED | {name: VARIABLE[name]}
    assert as_text(settings.load({name: FLAG[name]})) == STORED | {name: FLAG[name]}
    assert as_text(settings.load({name: None})) == STORED | {name: VARIABLE[name]}


def test_an_empty_variable_is_not_set(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(f"HEADWAY_{name.upper()}", "")
    assert settings.load().port == 8484
    dotenv({"port": ""})
    assert settings.load().port == 8484


def test_commands_heed_the_flag_then_the_environment_then_the_file(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    dotenv({"home": "stored"})
    headway.ok("todo", "add", "stored")
    monkeypatch.setenv("HEADWAY_HOME", "variable")
    headway.ok("todo", "add", "variable")
    headway.ok("--home", "flag", "todo", "add", "flag")

    for home in ("stored", "variable", "flag"):
        assert headway.ok("todo", "list", "--home", home) == f"#1 [pending] {home}\n"
    assert sorted(os.listdir()) == [".env", "flag", "stored", "variable"]


def test_the_home_of_a_person_can_be_written_with_a_tilde(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(headway.folder / "me"))
    assert settings.load({"home": "~/work"}).home == str(headway.folder / "me" / "work")


def test_a_file_is_taken_word_for_word(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody")
    write_env("# ours\nexport HEADWAY_MODEL='openai-chat:${USER}'\nOTHER=1\nHEADWAY_HOST\n")
    chosen = settings.load()
    assert (chosen.model, chosen.host) == ("openai-chat:${USER}", "127.0.0.1")


AGENTS = {
    "model_mid": "rehearsal",
    "model_cheap": "rehearsal",
    "model_timeout_s": 120.0,
    "model_retries": 5,
    "max_iterations": 10,
    "max_iterations_with_plan": 50,
    "subagent_max_iterations": 20,
    "max_resubmissions": 5,
    "budget_usd": 5.0,
    "subagents_per_parent": 4,
    "agent_depth": 2,
    "retry_delay_s": 1.0,
    "retry_after_max_s": 3600.0,
    "restart_stagger_s": 2.0,
    "http_allow": (),
    "webhook_hosts": ("*",),
    "commands": (),
    "sandbox": "auto",
    "sandbox_read": (),
    "sandbox_memory_mib": 2048,
    "sandbox_processes": 256,
}


def agent_settings(chosen: settings.Settings) -> dict[str, object]:
    """Return the settings of agents, by name."""
    limits = chosen.limits
    return {name: getattr(chosen, name) for name in AGENTS if hasattr(chosen, name)} | {
        "max_iterations": limits.iterations,
        "max_iterations_with_plan": limits.iterations_with_plan,
        "subagent_max_iterations": limits.sub_agent_iterations,
        "max_resubmissions": limits.resubmissions,
        "budget_usd": limits.budget / 1_000_000_000,
        "model_retries": limits.attempts,
        "subagents_per_parent": limits.per_parent,
        "agent_depth": limits.depth,
        "retry_delay_s": limits.retry_delay_ms / 1000,
        "retry_after_max_s": limits.retry_after_max_ms / 1000,
        "sandbox": chosen.sandbox.mode,
        "sandbox_read": chosen.sandbox.readable,
        "sandbox_memory_mib": chosen.sandbox.memory / 2**20,
        "sandbox_processes": chosen.sandbox.processes,
    }


def test_the_defaults_of_agents(headway: Shell) -> None:
    assert agent_settings(settings.load()) == AGENTS
    assert settings.load().workspace == str(headway.folder / ".headway" / "workspace")


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("model_mid", "test:mid", "test:mid"),
        ("model_cheap", "test:cheap", "test:cheap"),
        ("model_timeout_s", "0.5", 0.5),
        ("model_retries", "0", 1),  # at least one attempt
        ("model_retries", "3", 3),
        ("subagents_per_parent", "2", 2),
        ("agent_depth", "0", 0),
        ("retry_delay_s", "0.5", 0.5),
        ("retry_after_max_s", "90", 90.0),
        ("restart_stagger_s", "0", 0.0),
        ("max_iterations", "3", 3),
        ("max_iterations_with_plan", "20", 20),
        ("subagent_max_iterations", "7", 7),
        ("max_resubmissions", "0", 0),
        ("budget_usd", "0.25", 0.25),
        ("budget_usd", "0", 0.0),
        ("http_allow", " example.com , *.example.org,, ", ("example.com", "*.example.org")),
        ("commands", "ls,git", ("ls", "git")),
        ("sandbox_read", "/opt/node/, /srv", ("/opt/node", "/srv")),
        ("sandbox_memory_mib", "512", 512),
        ("sandbox_processes", "9", 9),
    ],
)
def test_every_setting_of_agents_comes_from_the_file_and_the_environment(
    headway: Shell, name: str, written: str, meant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    dotenv({name: written})
    assert agent_settings(settings.load()) == AGENTS | {name: meant}
    dotenv({name: "7"})
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", written)
    assert agent_settings(settings.load()) == AGENTS | {name: meant}


def test_the_other_tiers_are_the_strong_one_unless_they_are_named(headway: Shell) -> None:
    chosen = settings.load({"model": "test:strong", "model_mid": "test:mid"})
    assert (chosen.model, chosen.model_mid, chosen.model_cheap) == ("test:strong", "test:mid", "test:strong")


def test_the_sizes_of_requests_and_answers_apply_to_every_tier(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(settings.load().model_parameters.values()) == {TierParameters(None, 8_192)}
    monkeypatch.setenv("HEADWAY_CONTEXT_TOKENS", "2048")
    monkeypatch.setenv("HEADWAY_MAX_OUTPUT_TOKENS", "500")
    assert settings.load().model_parameters == dict.fromkeys(TIERS, TierParameters(2_048, 500))


@pytest.mark.parametrize("written", ["2047", "much", "4096.5", "-1", "1e30"])
def test_a_context_window_that_cannot_be_used_is_an_error(headway: Shell, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CONTEXT_TOKENS", written)
    line = get_error_line(headway("chat", "hello"), 2)
    assert "HEADWAY_CONTEXT_TOKENS must be a whole number from 2048 to 100000000" in line


def test_a_plan_never_shortens_a_turn(headway: Shell) -> None:
    limits = settings.load({"max_iterations": "60"}).limits
    assert (limits.iterations, limits.iterations_with_plan) == (60, 60)


def test_the_workspace_can_be_elsewhere(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(headway.folder / "me"))
    assert settings.load({"workspace": "~/work"}).workspace == str(headway.folder / "me" / "work")
    assert settings.load({"workspace": "here"}).workspace == str(headway.folder / "here")
    monkeypatch.setenv("HEADWAY_WORKSPACE", "~nobody-at-all/x")
    assert "HEADWAY_WORKSPACE='~nobody-at-all/x'" in get_error_line(headway("chat", "hello"), 2)


# Goals, links and the operator's channels

GOALS: dict[str, object] = {
    "replan_limit": 5,
    "goal_discovery": "ask",
    "check_in_s": 30.0,
    "stuck_after_s": 600.0,
    "url": "http://127.0.0.1:8484",
    "notify": (),
}


def goal_settings(chosen: settings.Settings) -> dict[str, object]:
    return {
        "replan_limit": chosen.goals.replans,
        "goal_discovery": chosen.goals.discovery,
        "check_in_s": chosen.goals.check_in_ms / 1000,
        "stuck_after_s": chosen.goals.stuck_after_ms / 1000,
        "url": chosen.url,
        "notify": chosen.notify,
    }


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("replan_limit", "0", 0),
        ("replan_limit", "12", 12),
        ("goal_discovery", "auto", "auto"),
        ("check_in_s", "0.1", 0.1),
        ("stuck_after_s", "90", 90.0),
        ("url", "https://headway.example.org/", "https://headway.example.org"),
        (
            "notify",
            " https://hooks.example/x?token=s , mailto://me:secret@example.org,",
            ("https://hooks.example/x?token=s", "mailto://me:secret@example.org"),
        ),
    ],
)
def test_every_setting_of_goals_has_a_default_and_a_variable(
    headway: Shell, name: str, written: str, meant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert goal_settings(settings.load()) == GOALS
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", written)
    assert goal_settings(settings.load()) == GOALS | {name: meant}


def test_links_lead_to_the_servers_address_by_default(headway: Shell) -> None:
    assert settings.load({"host": "::1", "port": "80"}).url == "http://[::1]:80"
    assert settings.load({"host": "0.0.0.0", "port": "80"}).url == "http://127.0.0.1:80"
    assert settings.load({"host": "::", "port": "80"}).url == "http://[::1]:80"
    assert settings.load({"host": "::", "url": "http://10.0.0.1"}).url == "http://10.0.0.1"


@pytest.mark.parametrize(
    ("name", "written", "told"),
    [
        ("goal_discovery", "maybe", "HEADWAY_GOAL_DISCOVERY must be ask or auto, not 'maybe'."),
        (
            "http_allow",
            "*.example.com, https://example.org",
            "such as example.org, without https:// and ports; 'https://example.org'",
        ),
        ("webhook_hosts", "n8n.internal:5678", "HEADWAY_WEBHOOK_HOSTS must be a comma-separated list of hosts"),
        ("url", "headway.example.org", "HEADWAY_URL must be a URL like https://headway.example.org"),
        ("database_direct_url", "me:hunter2@db", "HEADWAY_DATABASE_DIRECT_URL must start with postgresql://."),
        ("url", "https://", "HEADWAY_URL must be a URL like https://headway.example.org"),
        ("url", "ftp://ada:hunter2@headway.example.org", "not 'ftp://…@headway.example.org'."),
        (
            "notify",
            "https://good.example/hunter2,hunter2",
            "HEADWAY_NOTIFY must be a comma-separated list of URLs; entry 2 is not a URL.",
        ),
    ],
)
def test_an_impossible_goal_setting_is_one_error(
    headway: Shell, name: str, written: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", written)
    line = get_error_line(headway("todo", "list"), 2)
    assert told in line
    assert "hunter2" not in line


def test_settings_can_be_printed_without_giving_away_a_secret(headway: Shell) -> None:
    urls = {"database_url": "postgresql://me:hunter2@db/x", "database_direct_url": "postgresql://me@db/x?password=hunter2"}
    chosen = settings.load({**urls, "notify": "https://hooks.example/hunter2"})
    for printed in (repr(chosen), str(chosen), f"{chosen}", f"{[chosen]}"):
        assert "hunter2" not in printed
    assert "notify='1 channels'" in repr(chosen)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("replan_limit", "-1"),
        ("replan_limit", "1.5"),
        ("check_in_s", "0"),
        ("stuck_after_s", "long"),
        ("model_timeout_s", "-1"),
        ("model_timeout_s", "0"),
        ("model_timeout_s", "soon"),
        ("model_timeout_s", "nan"),
        ("model_timeout_s", "inf"),
        ("model_retries", "-1"),
        ("model_retries", "1.5"),
        ("max_iterations", "0"),
        ("max_iterations", "1001"),
        ("subagent_max_iterations", "0"),
        ("max_iterations_with_plan", "many"),
        ("max_resubmissions", "-1"),
        ("budget_usd", "-0.01"),
        ("budget_usd", "$5"),
        ("budget_usd", "9" * 400),
    ],
)
def test_an_impossible_number_is_one_error(headway: Shell, name: str, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", written)
    line = get_error_line(headway("chat", "hello"), 2)
    assert f"HEADWAY_{name.upper()} must be a" in line
    assert len(line) < 200
    assert os.listdir() == []


def test_providers_find_their_variables_of_the_file_in_the_environment(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "to be deleted")  # so that monkeypatch restores it after the test
    monkeypatch.delenv("OPENAI_BASE_URL")
    write_env("OPENAI_API_KEY=from the file\nOPENAI_BASE_URL=http://from.the.file/v1\nHEADWAY_MODEL=test:x\n")
    settings.load()

    assert os.environ["OPENAI_API_KEY"] == "from the environment"
    assert os.environ["OPENAI_BASE_URL"] == "http://from.the.file/v1"
    assert "HEADWAY_MODEL" not in os.environ


@pytest.mark.parametrize("port", ["0", "80", "65535"])
def test_a_port_is_a_number(headway: Shell, port: str) -> None:
    assert settings.load({"port": port}).port == int(port)


@pytest.mark.parametrize("port", ["65536", "-1", "http", "80.0", "٨٠", "9" * 5_000, " "])
def test_a_wrong_port_is_one_error(headway: Shell, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_PORT", port)
    line = get_error_line(headway("todo", "list"), 2)
    assert "HEADWAY_PORT must be a port number" in line
    assert len(line) < 150


@pytest.mark.parametrize(
    "url",
    ["mysql://me:hunter2@db/x", "headway.db", "sqlite://headway.db", "SQLITE:///x", "hunter2", "sqlite:///", "sqlite:///:memory:"],
)
def test_a_database_of_another_kind_is_one_error(headway: Shell, url: str) -> None:
    line = get_error_line(headway("todo", "list", "--database-url", url), 2)
    assert "sqlite:///" in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"HEADWAY_MODEL=\xff\n", ".env"), (b"HEADWAY_HOME=nul\0\n", "HEADWAY_HOME"), (b"HEADWAY_PORT=x\n", "HEADWAY_PORT")],
)
def test_a_file_that_is_wrong_is_one_error(headway: Shell, content: bytes, word: str) -> None:
    Path(".env").write_bytes(content)
    headway.trust()
    assert word in get_error_line(headway("todo", "list"), 2)


@pytest.mark.parametrize("home", ["~nobody-at-all/x", b"caf\xe9"])
def test_an_impossible_home_is_one_error(headway: Shell, home: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_HOME", os.fsdecode(home))
    assert "HEADWAY_HOME" in get_error_line(headway("todo", "list"), 2)
    assert os.listdir() == []


def test_a_folder_that_is_gone_is_one_error(headway: Shell) -> None:
    headway.folder.rmdir()
    assert "HEADWAY_HOME" in get_error_line(headway("todo", "list"), 2)
    headway.folder.mkdir()


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("sqlite:////var/a:b@c?/x.db", "sqlite:////var/a:b@c?/x.db"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("postgresql://me@db:5432/x", "postgresql://me@db:5432/x"),
        ("postgresql://me:hunter2@db:5432/x", "postgresql://me:…@db:5432/x"),
        ("postgresql://:hunter2@db/x", "postgresql://:…@db/x"),
        ("postgresql://me:hun@ter2@db/x", "postgresql://me:…@db/x"),
        ("postgresql://me@db/x?password=hunter2", "postgresql://me@db/x?…"),
        ("postgresql://db?password=hunter2@", "postgresql://…"),
        ("postgresql://me:hunt?er2@db/x", "postgresql://…"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, seen: str) -> None:
    assert redact_database_url(url) == seen


parts = st.text("abc:/?@#&=%-.", max_size=6)


@given(parts, parts, parts)
def test_no_unusual_password_is_shown(before: str, middle: str, after: str) -> None:
    secret = f"{before}HUNTER{middle}TWO{after}"
    for url in (
        f"postgresql://me:{secret}@db/x",
        f"postgresql://me@db/x?password={secret}",
        f"postgresql://db/x?password={secret}",
    ):
        redacted = redact_database_url(url)
        assert "HUNTER" not in redacted
        assert "TWO" not in redacted


def test_a_password_is_shown_by_no_command(headway: Shell, postgres_url: str) -> None:
    head, _, options = postgres_url.partition("?")
    user, _, place = head.removeprefix("postgresql://").rpartition("@")
    right = [
        f"postgresql://{user.split(':')[0]}:hunter2@{place}?{options}",
        f"{postgres_url}{'&' if options else '?'}password=hunter2",
    ]
    wrong = [
        "postgresql://me:hunter2@127.0.0.1:1/x",
        "postgresql://me:hunter2%zz@127.0.0.1:1/x",
        "postgresql://me:hunter2@[::1/x",
        "postgresql://me:hunter2@127.0.0.1:port/x",
    ]
    for url in right + wrong:
        ran = headway("doctor", "--database-url", url)
        assert ran.code == (0 if url in right else 1)
        assert "hunter2" not in ran.out + ran.err


def test_an_unreadable_line_is_reported_with_its_file(headway: Shell) -> None:
    write_env("what is this\nHEADWAY_MODEL=test:x\n")
    ran = headway.process("goal", "add", "reach it", "--no-wait")  # this command loads its settings more than once
    assert ran.code == 0
    assert re.fullmatch(rf"headway: {re.escape(str(headway.folder))}/\.env: .* line 1", ran.err.splitlines()[0])
    assert ran.err.count(".env") == 1

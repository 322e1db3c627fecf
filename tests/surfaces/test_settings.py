"""Settings: flags win, then the environment, then .env, then the defaults; a password is never shown."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shell import Shell, one_error

from headway import settings

NAMES = ("home", "database_url", "model", "host", "port")
FLAG = {"home": "/flag", "database_url": "sqlite:////flag", "model": "test:flag", "host": "flag", "port": "1"}
VARIABLE = {"home": "/variable", "database_url": "sqlite:////variable", "model": "test:variable", "host": "variable", "port": "2"}
STORED = {"home": "/stored", "database_url": "sqlite:////stored", "model": "test:stored", "host": "stored", "port": "3"}


def dotenv(values: dict[str, str]) -> None:
    Path(".env").write_text("".join(f"HEADWAY_{name.upper()}={value}\n" for name, value in values.items()))


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
    assert settings.load({"home": "~/work"}).home == headway.folder / "me" / "work"


def test_a_file_is_taken_word_for_word(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody")
    Path(".env").write_text("# ours\nexport HEADWAY_MODEL='openai-chat:${USER}'\nOTHER=1\nHEADWAY_HOST\n")
    chosen = settings.load()
    assert (chosen.model, chosen.host) == ("openai-chat:${USER}", "127.0.0.1")


@pytest.mark.parametrize("port", ["0", "80", "65535"])
def test_a_port_is_a_number(headway: Shell, port: str) -> None:
    assert settings.load({"port": port}).port == int(port)


@pytest.mark.parametrize("port", ["65536", "-1", "http", "80.0", "٨٠", "9" * 5_000, " "])
def test_a_wrong_port_is_one_error(headway: Shell, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_PORT", port)
    line = one_error(headway("todo", "list"), 2)
    assert "HEADWAY_PORT must be a port number" in line
    assert len(line) < 150


@pytest.mark.parametrize(
    "url",
    ["mysql://me:hunter2@db/x", "headway.db", "sqlite://headway.db", "SQLITE:///x", "hunter2", "sqlite:///", "sqlite:///:memory:"],
)
def test_a_database_of_another_kind_is_one_error(headway: Shell, url: str) -> None:
    line = one_error(headway("todo", "list", "--database-url", url), 2)
    assert "sqlite:///" in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"HEADWAY_MODEL=\xff\n", ".env"), (b"HEADWAY_HOME=nul\0\n", "HEADWAY_HOME"), (b"HEADWAY_PORT=x\n", "HEADWAY_PORT")],
)
def test_a_file_that_is_wrong_is_one_error(headway: Shell, content: bytes, word: str) -> None:
    Path(".env").write_bytes(content)
    assert word in one_error(headway("todo", "list"), 2)


@pytest.mark.parametrize("home", ["~nobody-at-all/x", b"caf\xe9"])
def test_a_home_that_cannot_be_is_one_error(headway: Shell, home: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_HOME", os.fsdecode(home))
    assert "HEADWAY_HOME" in one_error(headway("todo", "list"), 2)
    assert os.listdir() == []


def test_a_folder_that_is_gone_is_one_error(headway: Shell) -> None:
    headway.folder.rmdir()
    assert "HEADWAY_HOME" in one_error(headway("todo", "list"), 2)
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
    assert settings.shown(url) == seen


parts = st.text("abc:/?@#&=%-.", max_size=6)


@given(parts, parts, parts)
def test_no_odd_password_is_shown(before: str, middle: str, after: str) -> None:
    secret = f"{before}HUNTER{middle}TWO{after}"
    for url in (
        f"postgresql://me:{secret}@db/x",
        f"postgresql://me@db/x?password={secret}",
        f"postgresql://db/x?password={secret}",
    ):
        shown = settings.shown(url)
        assert "HUNTER" not in shown
        assert "TWO" not in shown


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

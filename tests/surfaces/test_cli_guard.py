"""`headway guard`: installation into the settings of assistants, rules, and the page of what is open."""

import json
from pathlib import Path

import pytest

from tests.surfaces.shell import Shell
from tests.tables import each_row

FILES = {
    "claude-code": ".claude/settings.local.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".opencode/plugin/headway-guard.js",
    "cursor": ".cursor/hooks.json",
}
OTHERS = """{
  // what somebody else has written
  "model": "large",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "notify-send done"}]}
    ],
    "PostToolUse": [{"matcher": "Edit", "hooks": []}], "AfterAgent": [{"hooks": []}],
    "stop": [{"command": "say done"}]
  }
}
"""


@each_row(("client", "file"), FILES.items())
def test_the_guard_is_installed_once_and_removed_without_a_trace(headway: Shell, client: str, file: str) -> None:
    path = headway.folder / file
    printed = headway.json("guard", "install", client, "--print")
    assert not path.exists()
    installed = headway.json("guard", "install", client)
    assert (installed["changed"], installed["file"]) == (True, str(path))
    assert path.read_text() == printed["content"]
    assert headway.json("guard", "install", client)["changed"] is False
    assert path.read_text() == printed["content"]
    assert headway.json("guard", "uninstall", client)["changed"] is True
    assert not path.exists()
    assert headway.json("guard", "uninstall", client)["changed"] is False


@each_row("client", ["claude-code", "codex", "gemini", "cursor"])
def test_other_peoples_hooks_are_kept_byte_for_byte(headway: Shell, client: str) -> None:
    path = headway.folder / FILES[client]
    path.parent.mkdir(exist_ok=True)
    path.write_text(OTHERS)
    headway.ok("guard", "install", client)
    text = path.read_text()
    assert "notify-send done" in text
    assert f"guard hook {client}" in text
    headway.ok("guard", "uninstall", client)
    assert path.read_text() == OTHERS


def test_a_file_that_somebody_changed_meanwhile_keeps_the_change(headway: Shell) -> None:
    path = headway.folder / FILES["claude-code"]
    headway.ok("guard", "install", "claude-code")
    document = json.loads(path.read_text())
    document["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "true"}]})
    path.write_text(json.dumps(document))
    headway.ok("guard", "uninstall", "claude-code")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}


def test_a_settings_file_that_cannot_be_read_is_left_alone(headway: Shell) -> None:
    path = headway.folder / FILES["claude-code"]
    path.parent.mkdir()
    path.write_text("{ this is not JSON")
    ran = headway("guard", "install", "claude-code")
    assert (ran.code, "Nothing was changed." in ran.err) == (2, True)
    assert path.read_text() == "{ this is not JSON"


def test_the_users_own_settings_use_the_home_in_the_users_folder(
    headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    headway.ok("guard", "install", "claude-code", "--user")
    assert (user / ".claude" / "settings.json").exists()
    assert (user / ".headway" / "headway.db").exists()
    assert not (headway.folder / ".headway").exists()


def test_rules_belong_to_a_project_and_need_a_check(headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (headway.folder / ".git").mkdir()
    inner = headway.folder / "src"
    inner.mkdir()
    headway.ok("guard", "install", "claude-code")
    assert headway("guard", "add", "the tests pass").code == 2
    monkeypatch.chdir(inner)
    rule = headway.json("guard", "add", "the tests pass", "--check-command", "true", "--yes")["rule"]
    assert (rule["folder"], rule["checks"][0]["folder"]) == (str(headway.folder), str(inner))
    monkeypatch.chdir(headway.folder)
    assert headway.json("guard", "list")["rules"] == [rule]
    assert headway("guard", "rm", "77").code == 3
    assert headway.ok("guard", "status") == "No session in this project has planned anything yet.\n"


def test_a_named_home_is_the_home_of_the_hooks(headway: Shell, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    content = headway.json("guard", "install", "claude-code", "--home", str(home))["content"]
    command = json.loads(content)["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert command.startswith(f"env HEADWAY_HOME={home} ")
    assert (home / "headway.db").exists()
    assert not (headway.folder / ".headway").exists()
    assert headway("guard", "list", "--tenant", "acme").code == 2

"""`headway guard`: installation into the settings of assistants, rules, and the page of what is open."""

import json
import subprocess
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


ORIGINALS = {
    "other people's hooks": OTHERS,
    "an empty object": "{}",
    "an empty file": "",
    "an empty list of hooks": '{"version": 1, "hooks":{"Stop":[],"stop":[]}}\r\n',
    "the variable that the guard sets": '{ "env": {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "0"} }',
}


@each_row(
    ("client", "original"),
    [(client, "other people's hooks") for client in ("codex", "gemini", "cursor")]
    + [("claude-code", original) for original in ORIGINALS],
)
def test_a_file_is_byte_for_byte_what_it_was_before(headway: Shell, client: str, original: str) -> None:
    path, text = headway.folder / FILES[client], ORIGINALS[original].encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    headway.ok("guard", "install", client)
    assert f"guard hook {client}".encode() in path.read_bytes()
    assert (b"notify-send done" in path.read_bytes()) == (b"notify-send done" in text)
    headway.ok("guard", "uninstall", client)
    assert path.read_bytes() == text


def test_hooks_of_another_installation_are_replaced(headway: Shell) -> None:
    path = headway.folder / FILES["codex"]
    headway.ok("guard", "install", "codex")
    text = path.read_text()
    path.write_text(text.replace(" guard hook codex", "-moved guard hook codex"))
    assert headway.json("guard", "install", "codex")["changed"] is True
    assert path.read_text() == text


def test_a_file_that_somebody_changed_meanwhile_keeps_the_change(headway: Shell) -> None:
    path = headway.folder / FILES["claude-code"]
    headway.ok("guard", "install", "claude-code")
    document = json.loads(path.read_text())
    assert document["env"] == {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}  # else newer models would have no list
    document["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "true"}]})
    document["env"]["MINE"] = "yes"
    path.write_text(json.dumps(document))
    headway.ok("guard", "uninstall", "claude-code")
    assert json.loads(path.read_text()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
        "env": {"MINE": "yes"},
    }


def test_a_missing_program_is_one_line_for_the_person(headway: Shell) -> None:
    headway.ok("guard", "install", "gemini")
    hooks = json.loads((headway.folder / FILES["gemini"]).read_text())["hooks"]
    command = hooks["AfterAgent"][0]["hooks"][0]["command"]
    moved = f"/nowhere/headway {command[command.index('guard hook') :]}"
    ran = subprocess.run(["/bin/sh", "-c", moved], input=b"{}", capture_output=True, check=True)
    assert list(json.loads(ran.stdout)) == ["systemMessage"]
    assert json.loads(ran.stdout)["systemMessage"].startswith("Headway's guard is off: its program did not run.")


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
    installed = headway.ok("guard", "install", "claude-code", "--user")
    assert installed.endswith("Undo: headway guard uninstall claude-code --user\n")
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

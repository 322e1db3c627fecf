"""`headway mcp install`: the entry in the settings of each MCP client, and nothing else in them changes."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.shell import Shell, get_error_line

FILES = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "qwen": (".qwen/settings.json", "mcpServers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}
JSON_TEXTS = {
    "plain": '{\n  "theme": "dark",\n  "SECTION": {\n    "other": {"command": "x", "args": []}\n  }\n}\n',
    "without the section": '{\n    "theme": "dark"\n}',
    "one line": '{"SECTION": {"other": {"command": "x"}}, "theme": "dark"}',
    "comments and trailing commas": (
        '// mine\n{\n\t/* a { in a comment */\n\t"theme": "d\\"ark // no comment", // last\n'
        '\t"SECTION": {\n\t\t"other": {"command": "x",}, // keep\n\t},\n}\n'
    ),
    "Windows line ends": '{\r\n  "SECTION": {\r\n    "other": {"command": "x"}\r\n  },\r\n  "größe": 1\r\n}\r\n',
}
TOML_TEXTS = {
    "a table after": '# mine\nmodel = "gpt" # good\n\n[mcp_servers.other]\ncommand = "x"\nargs = []\n\n[tui]\ntheme = "dark"\n',
    "no line end": 'model = "gpt"',
}


@pytest.fixture(autouse=True)
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "OPENCODE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def read_entry(client: str, home: Path) -> Any:
    place, section = FILES[client]
    text = (home / place).read_text()
    return (tomllib.loads(text) if client == "codex" else json.loads(text))[section]["headway"]


@pytest.mark.parametrize("client", FILES)
def test_the_entry_has_absolute_paths_and_can_be_removed(headway: Shell, user_home: Path, client: str) -> None:
    printed = headway.ok("mcp", "install", client, "--print", "--tools", "all")
    path = user_home / FILES[client][0]
    assert str(path) in printed
    assert not path.exists(), "--print changes nothing"

    shown = headway.json("mcp", "install", client, "--tools", "all")
    entry = read_entry(client, user_home)
    assert shown == {"client": client, "file": str(path), "section": FILES[client][1], "entry": entry, "changed": True}
    command = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert os.path.isabs(command[0])
    home = ["--home", str(headway.folder / ".headway")]
    assert command[command.index("mcp") :] == ["mcp", *home, "--agent", client, "--tools", "all"]
    assert path.stat().st_mode & 0o077 == 0

    assert headway.json("mcp", "install", client, "--tools", "all")["changed"] is False
    assert "another entry" in get_error_line(headway("mcp", "install", client), 4)
    assert read_entry(client, user_home) == entry
    assert headway.json("mcp", "uninstall", client)["changed"] is True
    assert not path.exists(), "nothing else was in it"
    assert headway.json("mcp", "uninstall", client)["changed"] is False


def list_texts() -> list[Any]:
    texts = [(client, name, text) for client in ("cursor", "zed") for name, text in JSON_TEXTS.items()]
    texts += [("codex", name, text) for name, text in TOML_TEXTS.items()]
    return [pytest.param(client, text, id=f"{client}, {name}") for client, name, text in texts]


@pytest.mark.parametrize(("client", "text"), list_texts())
def test_the_rest_of_the_file_stays_and_undo_restores_it(headway: Shell, user_home: Path, client: str, text: str) -> None:
    place, section = FILES[client]
    kept_elsewhere = user_home / "dotfiles"
    original = text.replace("SECTION", section).encode()
    kept_elsewhere.write_bytes(original)
    kept_elsewhere.chmod(0o640)
    path = user_home / place
    path.parent.mkdir(parents=True)
    path.symlink_to(kept_elsewhere)

    headway.ok("mcp", "install", client)
    changed = path.read_bytes()
    assert b"headway" in changed
    assert path.is_symlink()
    assert kept_elsewhere.stat().st_mode & 0o777 == 0o640
    for comment in (b"// mine", b"/* a { in a comment */", b"// last", b'"x",}, // keep\n', b"# mine", b"# good"):
        assert (comment in original) == (comment in changed)
    headway.ok("mcp", "uninstall", client)
    assert path.read_bytes() == original
    assert [file.name for file in path.parent.iterdir()] == [path.name], "no draft is left"


@pytest.mark.parametrize(
    ("client", "text", "said"),
    [
        ("cursor", '{"mcpServers": {', "not valid JSON at line 1"),
        ("cursor", '{"mcpServers": []}', "not an object"),
        ("cursor", "[]", "does not contain an object"),
        ("cursor", "\\", "not valid JSON"),
        ("codex", "[mcp_servers", "not valid TOML"),
        ("codex", 'mcp_servers = {other = {command = "x"}}\n', "Edit it by hand"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(
    headway: Shell, user_home: Path, client: str, text: str, said: str
) -> None:
    path = user_home / FILES[client][0]
    path.parent.mkdir(parents=True)
    path.write_text(text)

    result = headway("mcp", "install", client)
    assert result.code != 0
    assert said in result.err
    assert path.read_text() == text


def test_clients_that_keep_their_settings_elsewhere_get_them_there(
    headway: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME", "zed": "XDG_CONFIG_HOME"}
    for client, variable in places.items():
        monkeypatch.setenv(variable, str(tmp_path / client))
        assert headway.json("mcp", "install", client, "--print")["file"].startswith(f"{tmp_path / client}/")

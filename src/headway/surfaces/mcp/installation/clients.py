"""The MCP clients that Headway can be added to: where each keeps its settings, and how it writes an entry."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

Environment = Mapping[str, str]


class LaunchCommand(NamedTuple):
    """How a client starts the server. The paths are absolute: programs of a desktop have another PATH and another folder."""

    program: str
    arguments: tuple[str, ...]

    def as_entry(self) -> dict[str, Any]:
        return {"command": self.program, "args": list(self.arguments)}


class McpClient(NamedTuple):
    title: str
    find_file: Callable[[Path, Environment], Path]  # by the user's home folder and the environment
    section: str
    build_entry: Callable[[LaunchCommand], dict[str, Any]]
    check: str  # how to see that it works

    @property
    def is_toml(self) -> bool:
        return self.section == "mcp_servers"


def find_config_folder(home: Path, environment: Environment) -> Path:
    """Return the folder in which programs of a desktop keep their settings."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return find_xdg_folder(home, environment)


def find_xdg_folder(home: Path, environment: Environment) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config")


def find_opencode_file(home: Path, environment: Environment) -> Path:
    if chosen := environment.get("OPENCODE_CONFIG"):
        return Path(chosen)
    folder = find_xdg_folder(home, environment) / "opencode"
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


def build_opencode_entry(command: LaunchCommand) -> dict[str, Any]:
    return {"type": "local", "command": [command.program, *command.arguments], "enabled": True}


CLIENTS: Final = {
    "claude-code": McpClient(
        "Claude Code",
        lambda home, environment: Path(environment.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        "mcpServers",
        lambda command: {"type": "stdio", **command.as_entry(), "env": {}},
        "`claude mcp list` shows it, and /mcp in a session.",
    ),
    "claude-desktop": McpClient(
        "Claude Desktop",
        lambda home, environment: find_config_folder(home, environment) / "Claude" / "claude_desktop_config.json",
        "mcpServers",
        LaunchCommand.as_entry,
        "Quit Claude Desktop and start it again.",
    ),
    "codex": McpClient(
        "Codex",
        lambda home, environment: Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml",
        "mcp_servers",
        LaunchCommand.as_entry,
        "`codex mcp list` shows it.",
    ),
    "gemini": McpClient(
        "Gemini CLI",
        lambda home, environment: Path(environment.get("GEMINI_CLI_HOME") or home) / ".gemini" / "settings.json",
        "mcpServers",
        LaunchCommand.as_entry,
        "`gemini mcp list` shows it.",
    ),
    "qwen": McpClient(
        "Qwen Code",
        lambda home, environment: Path(environment.get("QWEN_HOME") or home / ".qwen") / "settings.json",
        "mcpServers",
        LaunchCommand.as_entry,
        "`qwen mcp list` shows it.",
    ),
    "opencode": McpClient("opencode", find_opencode_file, "mcp", build_opencode_entry, "`opencode mcp list` shows it."),
    "cursor": McpClient(
        "Cursor",
        lambda home, _environment: home / ".cursor" / "mcp.json",
        "mcpServers",
        LaunchCommand.as_entry,
        "Switch it on in Cursor's settings, under MCP.",
    ),
    "vscode": McpClient(
        "VS Code",
        lambda home, environment: find_config_folder(home, environment) / "Code" / "User" / "mcp.json",
        "servers",
        lambda command: {"type": "stdio", **command.as_entry()},
        "MCP: List Servers shows it.",
    ),
    "zed": McpClient(
        "Zed",
        lambda home, environment: find_xdg_folder(home, environment) / "zed" / "settings.json",
        "context_servers",
        lambda command: {**command.as_entry(), "env": {}},
        "The settings of its agent panel show it.",
    ),
}

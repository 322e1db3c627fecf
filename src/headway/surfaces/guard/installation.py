"""Installs the guard into the settings of an assistant, and removes it again. Other entries stay as they are."""

import json
import shlex
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadDocument, NameTaken
from headway.ledger.guard.values import CLIENT_TITLES
from headway.surfaces.mcp.installation import json_text
from headway.surfaces.mcp.installation.clients import find_xdg_folder
from headway.surfaces.mcp.installation.settings_file import EditedFile

Environment = Mapping[str, str]

STOP_TIMEOUT_S: Final = 900  # checks may take minutes
TIMEOUT_S: Final = 30
PLAN_TOOLS: Final = "TodoWrite|TaskCreate|TaskUpdate|TaskList"
PLUGIN: Final = "opencode_plugin.js"
PLUGIN_COMMAND: Final = '["headway"]'  # in the plugin; replaced by the command of this installation


class Hook(NamedTuple):
    """One event of a client, with the entry that calls the guard."""

    event: str
    entry: dict[str, Any]


class GuardedClient(NamedTuple):
    name: str
    find_file: Callable[[Path | None, Path, Environment], Path]  # by the project (None: the user's own file), and the user's home
    build_hooks: Callable[[str], list[Hook]]  # by the command; empty: the file is a plugin
    advice: str = ""  # what the person has to do
    new_file: str = "{}\n"

    @property
    def title(self) -> str:
        return CLIENT_TITLES[self.name]


def build_groups(command: str, events: Mapping[str, str], stops: tuple[str, ...], second: int = 1) -> list[Hook]:
    """Build hooks as Claude Code, Codex and Gemini CLI write them. `events` has the matcher of each event, and `second` is
    a second in the unit of their timeouts."""
    return [
        Hook(
            event,
            {
                **({"matcher": matcher} if matcher else {}),
                "hooks": [
                    {"type": "command", "command": command, "timeout": second * (STOP_TIMEOUT_S if event in stops else TIMEOUT_S)}
                ],
            },
        )
        for event, matcher in events.items()
    ]


def build_claude_hooks(command: str) -> list[Hook]:
    events = {"SessionStart": "", "PostToolUse": PLAN_TOOLS, "Stop": "", "SubagentStop": "", "SessionEnd": ""}
    return build_groups(command, events, ("Stop", "SubagentStop"))


def build_codex_hooks(command: str) -> list[Hook]:
    events = {"SessionStart": "", "PostToolUse": "update_plan", "Stop": "", "SubagentStop": ""}
    return build_groups(command, events, ("Stop", "SubagentStop"))


def build_gemini_hooks(command: str) -> list[Hook]:
    events = {"SessionStart": "", "AfterTool": "write_todos", "AfterAgent": "", "SessionEnd": ""}
    return build_groups(command, events, ("AfterAgent",), second=1000)


def build_cursor_hooks(command: str) -> list[Hook]:
    return [Hook(event, {"command": command}) for event in ("sessionStart", "postToolUse", "stop", "sessionEnd")]


def find_claude_file(project: Path | None, home: Path, environment: Environment) -> Path:
    if project is not None:
        return project / ".claude" / "settings.local.json"
    return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json"


def find_codex_file(project: Path | None, home: Path, environment: Environment) -> Path:
    return (project / ".codex" if project else Path(environment.get("CODEX_HOME") or home / ".codex")) / "hooks.json"


def find_gemini_file(project: Path | None, home: Path, environment: Environment) -> Path:
    return (project or Path(environment.get("GEMINI_CLI_HOME") or home)) / ".gemini" / "settings.json"


def find_opencode_file(project: Path | None, home: Path, environment: Environment) -> Path:
    folder = project / ".opencode" if project else find_xdg_folder(home, environment) / "opencode"
    return folder / "plugin" / "headway-guard.js"


def find_cursor_file(project: Path | None, home: Path, _environment: Environment) -> Path:
    return (project or home) / ".cursor" / "hooks.json"


CLIENTS: Final = {
    client.name: client
    for client in (
        GuardedClient("claude-code", find_claude_file, build_claude_hooks),
        GuardedClient("codex", find_codex_file, build_codex_hooks, "Start Codex and trust the hooks with /hooks."),
        GuardedClient("gemini", find_gemini_file, build_gemini_hooks, "Gemini CLI reads them in folders that it trusts."),
        GuardedClient("opencode", find_opencode_file, lambda _command: []),
        GuardedClient("cursor", find_cursor_file, build_cursor_hooks, new_file='{\n  "version": 1\n}\n'),
    )
}


class GuardFile(NamedTuple):
    """The file of a client that the guard is installed in."""

    client: GuardedClient
    path: Path
    program: tuple[str, ...]

    @property
    def command(self) -> str:
        return shlex.join((*self.program, "guard", "hook", self.client.name))

    @property
    def is_plugin(self) -> bool:
        return not self.client.build_hooks("")

    def render(self) -> str:
        """Return what a new file would contain."""
        if self.is_plugin:
            source = files(__package__).joinpath(PLUGIN).read_text(encoding="utf-8")
            return source.replace(PLUGIN_COMMAND, json.dumps(list(self.program)))
        return self.add_hooks(self.client.new_file)

    def add_hooks(self, text: str) -> str:
        for event, entry in self.client.build_hooks(self.command):
            text = json_text.add_item(text, "hooks", event, entry)
        return text

    def install(self) -> bool:
        """Install the guard and return whether that changed the file. Raises NameTaken or BadDocument if it cannot be done."""
        file = EditedFile(self.path)
        text = file.read()
        if self.is_plugin:
            if text not in ("", self.render()):
                raise NameTaken(f"{self.path} has another content. Nothing was changed. Remove it first.")
            if not text:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(self.render(), encoding="utf-8")
            return not text
        if self.list_installed(file.parse(text)):
            return False
        hooks = file.parse(text).get("hooks", {})
        if not isinstance(hooks, dict):
            raise BadDocument(f"{self.path}: its member hooks is not an object. Nothing was changed.")
        expected = {**(file.parse(text) if text else json.loads(self.client.new_file))}
        expected["hooks"] = {**hooks}
        for event, entry in self.client.build_hooks(self.command):
            expected["hooks"][event] = [*expected["hooks"].get(event, []), entry]
        file.replace(self.add_hooks(text or self.client.new_file), expected)
        return True

    def uninstall(self) -> bool:
        """Remove the guard and return whether it was there. A file that contains nothing else is deleted."""
        file = EditedFile(self.path)
        text = file.read()
        if self.is_plugin:
            if text and "headway guard" in text:
                self.path.unlink()
                return True
            return False
        installed = self.list_installed(file.parse(text))
        if not installed:
            return False
        expected = file.parse(text)
        for event, entry in reversed(installed):
            text = json_text.remove_item(text, "hooks", event, entry)
            rest = [other for other in expected["hooks"][event] if other != entry]
            expected["hooks"] = {**expected["hooks"], event: rest}
            if not rest:
                del expected["hooks"][event]
        if not expected["hooks"]:
            del expected["hooks"]
        if text == self.client.new_file or text.split() == self.client.new_file.split():
            text, expected = "{}", {}
        file.replace(text, expected)
        return True

    def list_installed(self, document: Mapping[str, Any]) -> list[Hook]:
        """List the entries that call the guard, also those that another installation of Headway wrote."""
        hooks = document.get("hooks")
        return [
            Hook(event, entry)
            for event, entries in (hooks.items() if isinstance(hooks, dict) else ())
            for entry in (entries if isinstance(entries, list) else ())
            if f"guard hook {self.client.name}" in json.dumps(entry)
        ]

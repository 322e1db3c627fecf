"""Installs the guard into the settings of an assistant, and removes it again. Other entries stay as they are."""

import json
import os
import shlex
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway import trust
from headway.ledger.errors import BadDocument, NameTaken
from headway.ledger.guard import CLIENT_TITLES
from headway.surfaces.mcp import installation
from headway.surfaces.mcp.installation import EditedFile, find_xdg_folder

Environment = Mapping[str, str]

STOP_TIMEOUT_S: Final = 900  # checks may take minutes
TIMEOUT_S: Final = 30
PLAN_TOOLS: Final = "TodoWrite|TaskCreate|TaskUpdate|TaskList"
CLAUDE_ENVIRONMENT: Final = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}  # newer models have no list of their own without it
CURSOR_EVENTS: Final = ("sessionStart", "postToolUse", "afterAgentResponse", "stop", "sessionEnd")
MISSING: Final = "Headway's guard is off: its program did not run. Install Headway again, or remove this hook."
PLUGIN: Final = "opencode_plugin.js"
PLUGIN_COMMAND: Final = '["headway"]'  # in the plugin; replaced by the command of this installation


class Hook(NamedTuple):
    """One event of a client, with the entry that calls the guard."""

    event: str
    entry: dict[str, Any]


class GuardedClient(NamedTuple):
    name: str
    find_file: Callable[
        [Path | None, Path, Environment], Path
    ]  # by the project, or None for the user's own file, and the user's home
    build_hooks: Callable[[str], list[Hook]]  # by the command; empty: the file is a plugin
    advice: str = ""  # what the person has to do
    new_file: str = "{}\n"
    environment: Mapping[str, str] = {}  # variables that the client is to have, unless its settings name them already

    @property
    def title(self) -> str:
        return CLIENT_TITLES[self.name]


class Original(NamedTuple):
    """The text of a client's file around the installation, so that the removal leaves the file byte for byte as it was."""

    before: str | None  # None if there was no file
    after: str  # what the installation wrote


def find_original_record(file: Path) -> Path:
    """Return where the original of a file is kept: among the user's own state, not in the project."""
    name = sha256(os.fsencode(file.resolve())).hexdigest()
    return Path(trust.find_state_folder()).parent / "guard" / f"{name}.json"


def keep_original(file: Path, original: Original) -> None:
    record = find_original_record(file)
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.touch(mode=0o600)
    record.write_text(json.dumps(original._asdict()), encoding="utf-8")


def find_original(file: Path) -> Original | None:
    try:
        document = json.loads(find_original_record(file).read_text(encoding="utf-8"))
        return Original(document["before"], str(document["after"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget_original(file: Path) -> None:
    find_original_record(file).unlink(missing_ok=True)


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
    return [Hook(event, {"command": command}) for event in CURSOR_EVENTS]


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
        GuardedClient("claude-code", find_claude_file, build_claude_hooks, environment=CLAUDE_ENVIRONMENT),
        GuardedClient("codex", find_codex_file, build_codex_hooks, "Start Codex and trust the hooks with /hooks."),
        GuardedClient("gemini", find_gemini_file, build_gemini_hooks, "Gemini CLI reads the hooks only in folders that it trusts."),
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
        """Runs in a shell. A program that is missing or broken must not stop the assistant, as it would in Gemini CLI."""
        command = shlex.join((*self.program, "guard", "hook", self.client.name))
        if self.client.name == "cursor":
            return command  # it shows no messages, and goes on whatever happens
        return f"{command} || echo {shlex.quote(json.dumps({'systemMessage': MISSING}))}"

    @property
    def is_plugin(self) -> bool:
        return not self.client.build_hooks("")

    def render(self) -> str:
        """Return what a new file would contain."""
        if self.is_plugin:
            source = files(__package__).joinpath(PLUGIN).read_text(encoding="utf-8")
            return source.replace(PLUGIN_COMMAND, json.dumps(list(self.program)))
        return self.add_entries(self.client.new_file)

    def add_entries(self, text: str) -> str:
        for event, entry in self.client.build_hooks(self.command):
            text = installation.add_item(text, "hooks", event, entry)
        for name, value in self.list_missing_variables(installation.parse_json(text).value).items():
            text = installation.add_member(text, "env", name, value)
        return text

    def list_missing_variables(self, document: Mapping[str, Any]) -> dict[str, str]:
        return {name: value for name, value in self.client.environment.items() if name not in self.read_section(document, "env")}

    def read_section(self, document: Mapping[str, Any], name: str) -> dict[str, Any]:
        section = document.get(name, {})
        if not isinstance(section, dict):
            raise BadDocument(f"{self.path}: its member {name} is not an object. Nothing was changed.")
        return section

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
        if installed := self.list_installed(file.parse(text)):
            if installed == self.client.build_hooks(self.command):
                return False
            self.uninstall()  # that of another installation, or of an older version
            text = file.read()
        expected = file.parse(text) if text.strip() else json.loads(self.client.new_file)
        hooks = {**self.read_section(expected, "hooks")}
        for event, entry in self.client.build_hooks(self.command):
            hooks[event] = [*hooks.get(event, []), entry]
        variables = {**self.read_section(expected, "env"), **self.list_missing_variables(expected)}
        new_text = self.add_entries(text if text.strip() else self.client.new_file)
        keep_original(self.path, Original(text if self.path.exists() else None, new_text))
        file.replace(new_text, {**expected, "hooks": hooks, **({"env": variables} if variables else {})})
        return True

    def uninstall(self) -> bool:
        """Remove the guard and return whether it was there. A file that did not exist before is deleted."""
        file = EditedFile(self.path)
        text = file.read()
        if self.is_plugin:
            if text and "headway guard" in text:
                self.path.unlink()
                return True
            return False
        if not self.list_installed(file.parse(text)):
            return False
        original = find_original(self.path)
        if original is None or original.after != text:
            self.remove_entries(file, text, original)
        elif original.before is None:
            self.path.unlink()
        else:
            file.write(original.before)
        forget_original(self.path)
        return True

    def remove_entries(self, file: EditedFile, text: str, original: Original | None) -> None:
        """Remove what the guard has added from a file that has changed since, and keep the changes."""
        expected = file.parse(text)
        for event, entry in reversed(self.list_installed(expected)):
            text = installation.remove_item(text, "hooks", event, entry)
            rest = [other for other in expected["hooks"][event] if other != entry]
            expected["hooks"] = {**expected["hooks"], event: rest}
            if not rest:
                del expected["hooks"][event]
        if not expected["hooks"]:
            del expected["hooks"]
        before = file.parse(original.before or "{}") if original else {}
        variables = self.read_section(expected, "env")
        ours = [name for name, value in self.list_missing_variables(before).items() if variables.get(name) == value]
        for name in ours:
            text = installation.remove_member(text, "env", name)
        if ours:
            expected["env"] = {name: value for name, value in variables.items() if name not in ours}
            if not expected["env"]:
                del expected["env"]
        if text.split() == self.client.new_file.split():
            text, expected = "{}", {}
        file.replace(text, expected)

    def list_installed(self, document: Mapping[str, Any]) -> list[Hook]:
        """List the entries that call the guard, also entries that another installation of Headway wrote."""
        hooks = document.get("hooks")
        return [
            Hook(event, entry)
            for event, entries in (hooks.items() if isinstance(hooks, dict) else ())
            for entry in (entries if isinstance(entries, list) else ())
            if f"guard hook {self.client.name}" in json.dumps(entry)
        ]

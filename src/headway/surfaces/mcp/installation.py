"""Edits the settings of MCP clients: where they are, and JSON and TOML changed without losing comments."""

import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadDocument, NameTaken

Environment = Mapping[str, str]


class LaunchCommand(NamedTuple):
    """The command with which a client starts the server. The paths are absolute: programs of a desktop have another PATH."""

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


# Changes one member of a JSON file and leaves the rest of its text alone, with comments and trailing commas (JSONC).


STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
SCALAR: Final = re.compile(r"[A-Za-z0-9+.-]+")
DEPTH_LIMIT: Final = 200


class Member(NamedTuple):
    key: str
    start: int  # where its key begins
    value: "Node"


class Node(NamedTuple):
    """A value and where it is in the text. Objects have members, and arrays have items."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()
    items: tuple["Node", ...] = ()

    def find(self, key: str) -> Member | None:
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse_json(text: str) -> Node:
    """Parse a file. Raises BadDocument."""
    node = parse_value(text, skip_space(text, 0), 0)
    if skip_space(text, node.end) != len(text):
        raise build_error(text, node.end)
    return node


def parse_value(text: str, at: int, depth: int) -> Node:
    if depth > DEPTH_LIMIT:
        raise build_error(text, at)
    if text.startswith("{", at):
        return parse_object(text, at, depth)
    if text.startswith("[", at):
        return parse_array(text, at, depth)
    match = STRING.match(text, at) or SCALAR.match(text, at)
    if match is None:
        raise build_error(text, at)
    try:
        return Node(at, match.end(), json.loads(match[0]))
    except ValueError:
        raise build_error(text, at) from None


def parse_object(text: str, at: int, depth: int) -> Node:
    members: list[Member] = []
    start, at = at, skip_space(text, at + 1)
    while not text.startswith("}", at):
        key = parse_value(text, at, depth)
        colon = skip_space(text, key.end)
        if not isinstance(key.value, str) or not text.startswith(":", colon):
            raise build_error(text, at)
        value = parse_value(text, skip_space(text, colon + 1), depth + 1)
        members.append(Member(key.value, at, value))
        at = skip_comma(text, value.end, "}")
    return Node(start, at + 1, {member.key: member.value.value for member in members}, tuple(members))


def parse_array(text: str, at: int, depth: int) -> Node:
    items: list[Node] = []
    start, at = at, skip_space(text, at + 1)
    while not text.startswith("]", at):
        item = parse_value(text, at, depth + 1)
        items.append(item)
        at = skip_comma(text, item.end, "]")
    return Node(start, at + 1, [item.value for item in items], items=tuple(items))


def skip_space(text: str, at: int) -> int:
    """Return the place after white space and comments."""
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise build_error(text, at)
            at = end + 2
        else:
            break
    return at


def skip_comma(text: str, at: int, closing: str) -> int:
    """Return where the next member begins, or the closing bracket."""
    at = skip_space(text, at)
    if text.startswith(",", at):
        return skip_space(text, at + 1)
    if not text.startswith(closing, at):
        raise build_error(text, at)
    return at


def build_error(text: str, at: int) -> BadDocument:
    return BadDocument(f"It is not valid JSON at line {text.count(chr(10), 0, at) + 1}.")


def add_member(text: str, section: str, name: str, value: Any) -> str:
    """Add a member to an object of the file's object, as its last one."""
    root = parse_json(text)
    found = root.find(section)
    if found is None:
        return insert_member(text, root, section, {name: value})
    if not isinstance(found.value.value, dict):
        raise BadDocument(f"Its member {section} is not an object.")
    return insert_member(text, found.value, name, value)


def insert_member(text: str, parent: Node, name: str, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = find_indentation(text)
    outer = get_line_indentation(text, parent.start)
    inner = get_line_indentation(text, parent.members[0].start) if parent.members else outer + unit
    member = f"{json.dumps(name)}: {json.dumps(value, indent=unit, ensure_ascii=False)}".replace("\n", f"{newline}{inner}")
    if not parent.members:
        start, rest = parent.start + 1, skip_space(text, parent.start + 1)
        comments = text[start:rest].rstrip()
        return f"{text[:start]}{comments}{newline}{inner}{member}{newline}{outer}{text[rest:]}"
    end = parent.members[-1].value.end
    comma = skip_space(text, end)
    if text.startswith(",", comma):  # a trailing comma: the new member gets one as well
        line_end = find_line_end(text, comma + 1)
        return f"{text[:line_end]}{newline}{inner}{member},{text[line_end:]}"
    line_end = find_line_end(text, end)
    return f"{text[:end]},{text[end:line_end]}{newline}{inner}{member}{text[line_end:]}"


def add_item(text: str, section: str, name: str, value: Any) -> str:
    """Add an item at the end of a list in an object of the file's object. The list and the object are added if they are missing."""
    found = parse_json(text).find(section)
    member = found.value.find(name) if found and isinstance(found.value.value, dict) else None
    if member is None:
        return add_member(text, section, name, [value])
    node = member.value
    if not isinstance(node.value, list):
        raise BadDocument(f"Its member {section}.{name} is not a list.")
    newline, unit = "\r\n" if "\r\n" in text else "\n", find_indentation(text)
    outer = get_line_indentation(text, node.start)
    inner = get_line_indentation(text, node.items[0].start) if node.items else outer + unit
    item = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"{newline}{inner}")
    if not node.items:
        return f"{text[: node.start]}[{newline}{inner}{item}{newline}{outer}]{text[node.end :]}"
    end = node.items[-1].end
    return f"{text[:end]},{newline}{inner}{item}{text[end:]}"


def remove_item(text: str, section: str, name: str, value: Any) -> str:
    """Remove an item that `add_item` has added. A list that becomes empty is removed."""
    found = parse_json(text).find(section)
    member = found.value.find(name) if found and isinstance(found.value.value, dict) else None
    if member is None or not isinstance(member.value.value, list) or value not in member.value.value:
        return text
    items = member.value.items
    if len(items) == 1:
        return remove_member(text, section, name)
    index = next(index for index, item in enumerate(items) if item.value == value)
    if index == 0:
        return text[: items[0].start] + text[items[1].start :]
    return text[: items[index - 1].end] + text[items[index].end :]


def find_line_end(text: str, at: int) -> int:
    """Return the end of a comment that follows on the same line, or the place itself."""
    comment = re.compile(r"[ \t]*//[^\r\n]*").match(text, at)
    return comment.end() if comment else at


def remove_member(text: str, section: str, name: str) -> str:
    """Remove a member of an object of the file's object. An object that becomes empty is removed."""
    root = parse_json(text)
    found = root.find(section)
    if found is None or found.value.find(name) is None:
        return text
    return cut_member(text, root, section) if len(found.value.members) == 1 else cut_member(text, found.value, name)


def cut_member(text: str, parent: Node, name: str) -> str:
    """Cut a member out, so that what `insert` has added is gone."""
    members = parent.members
    index = next(index for index, member in enumerate(members) if member.key == name)
    end = members[index].value.end
    if len(members) == 1:
        return f"{text[: parent.start + 1]}}}{text[parent.end :]}"
    if index == 0:
        return text[: members[0].start] + text[members[1].start :]
    comma_before, comma_after = skip_space(text, members[index - 1].value.end), skip_space(text, end)
    line_end = find_line_end(text, comma_before + 1)
    if text.startswith(",", comma_after):
        return text[:line_end] + text[comma_after + 1 :]
    return text[:comma_before] + text[comma_before + 1 : line_end] + text[end:]


def find_indentation(text: str) -> str:
    """Return what the file indents its first indented line with."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def get_line_indentation(text: str, at: int) -> str:
    """Return the white space at the beginning of the line that has this place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# Adds a table to a TOML file, or removes it, and leaves the rest of its text alone.


HEADER: Final = re.compile(r"[ \t]*\[{1,2}([^\]\r\n]+)\]")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a file. Raises BadDocument."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadDocument(f"It is not valid TOML: {error}") from None


def add_table(text: str, section: str, name: str, value: dict[str, Any]) -> str:
    """Add the table SECTION.NAME at the end. Texts and lists of texts are written alike in TOML and in JSON."""
    lines = [f"[{section}.{name}]", *(f"{key} = {json.dumps(member, ensure_ascii=False)}" for key, member in value.items())]
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = newline if text else ""  # an empty line, or the end of the last one
    return text + gap + newline.join(lines) + newline


def remove_table(text: str, section: str, name: str) -> str:
    """Remove the table SECTION.NAME and the tables below it, with the line end before each that `add_table` has added."""
    kept: list[str] = []
    is_removing = False
    has_gap = True
    for line in text.splitlines(keepends=True):
        if header := HEADER.match(line):
            path = [part.strip().strip("\"'") for part in header[1].split(".")]
            is_removing = path[:2] == [section, name]
            if is_removing and kept:
                has_gap = not kept[-1].strip()
                kept = kept[:-1] if has_gap else kept
        if not is_removing:
            kept.append(line)
    rest = "".join(kept)
    return rest.rstrip("\r\n") if is_removing and not has_gap else rest


# Adds an entry to the settings file of an MCP client, or removes it. Everything else in the file stays as it is.


SERVER_NAME: Final = "headway"
NEW_FILE_MODE: Final = 0o600


class EditedFile(NamedTuple):
    """A JSON or TOML file whose text is changed in one place. Everything else in it stays as it is."""

    path: Path
    is_toml: bool = False

    def read(self) -> str:
        try:
            return self.path.read_bytes().decode()
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            raise BadDocument(f"{self.path} is not UTF-8 text. Nothing was changed.") from None

    def parse(self, text: str) -> dict[str, Any]:
        try:
            document = parse_toml(text) if self.is_toml else parse_json(text or "{}").value
        except BadDocument as error:
            raise BadDocument(f"{self.path} cannot be read. {error} Nothing was changed.") from None
        if not isinstance(document, dict):
            raise BadDocument(f"{self.path} does not contain an object. Nothing was changed.")
        return document

    def replace(self, text: str, expected: dict[str, Any]) -> None:
        """Write the file in one step, if the new text says what is expected and nothing else."""
        try:
            is_as_expected = self.parse(text) == expected
        except BadDocument:
            is_as_expected = False
        if not is_as_expected:
            raise BadDocument(f"{self.path} cannot be changed without rewriting it. Nothing was changed. Edit it by hand.")
        if not expected and not text.strip().strip("{}").strip():
            self.path.resolve().unlink()  # nothing but the entry was in it
        else:
            self.write(text)

    def write(self, text: str) -> None:
        target = self.path.resolve()  # a link to a file that is kept elsewhere stays a link
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else NEW_FILE_MODE
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, mode)
            os.replace(draft, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise


class SettingsFile(NamedTuple):
    client: McpClient
    path: Path

    @property
    def file(self) -> EditedFile:
        return EditedFile(self.path, self.client.is_toml)

    def add(self, entry: dict[str, Any]) -> bool:
        """Add the entry and return whether that changed the file. Raises NameTaken if it has another one with our name, and
        BadDocument if it cannot be changed safely."""
        text = self.file.read()
        document = self.file.parse(text)
        section = document.get(self.client.section, {})
        if isinstance(section, dict) and SERVER_NAME in section:
            if section[SERVER_NAME] == entry:
                return False
            raise NameTaken(f"{self.path} has another entry named {SERVER_NAME}. Nothing was changed. Remove it first.")
        self.file.replace(self.render(entry, text), {**document, self.client.section: {**section, SERVER_NAME: entry}})
        return True

    def render(self, entry: dict[str, Any], text: str = "") -> str:
        """Return the text with the entry; without a text, that of a new file."""
        if self.client.is_toml:
            return add_table(text, self.client.section, SERVER_NAME, entry)
        return add_member(text or "{}\n", self.client.section, SERVER_NAME, entry)

    def remove(self) -> bool:
        """Remove the entry and return whether there was one."""
        text = self.file.read()
        document = self.file.parse(text)
        section = document.get(self.client.section)
        if not isinstance(section, dict) or SERVER_NAME not in section:
            return False
        others = {name: entry for name, entry in section.items() if name != SERVER_NAME}
        rest = {name: member for name, member in document.items() if name != self.client.section}
        remove = remove_table if self.client.is_toml else remove_member
        new_text = remove(text, self.client.section, SERVER_NAME)
        self.file.replace(new_text, {**rest, self.client.section: others} if others else rest)
        return True

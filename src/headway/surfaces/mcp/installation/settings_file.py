"""Adds an entry to the settings file of an MCP client, or removes it. Everything else in the file stays as it is."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadDocument, NameTaken
from headway.surfaces.mcp.installation import json_text, toml_text
from headway.surfaces.mcp.installation.clients import McpClient

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
            document = toml_text.parse(text) if self.is_toml else json_text.parse(text or "{}").value
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
            return toml_text.add_table(text, self.client.section, SERVER_NAME, entry)
        return json_text.add_member(text or "{}\n", self.client.section, SERVER_NAME, entry)

    def remove(self) -> bool:
        """Remove the entry and return whether there was one."""
        text = self.file.read()
        document = self.file.parse(text)
        section = document.get(self.client.section)
        if not isinstance(section, dict) or SERVER_NAME not in section:
            return False
        others = {name: entry for name, entry in section.items() if name != SERVER_NAME}
        rest = {name: member for name, member in document.items() if name != self.client.section}
        remove = toml_text.remove_table if self.client.is_toml else json_text.remove_member
        new_text = remove(text, self.client.section, SERVER_NAME)
        self.file.replace(new_text, {**rest, self.client.section: others} if others else rest)
        return True

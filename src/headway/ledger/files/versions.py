"""Files that agents wrote, and their versions. What is kept here is a record: the file itself is in a workspace."""

import hashlib
from typing import Any, Final, Literal, NamedTuple

from headway.ledger.attachment import PLAIN_TEXT, detect_binary_type, is_utf8_text

# written: by a tool that writes files. changed, deleted: the file after a program had run. found: before an agent wrote it.
Change = Literal["written", "changed", "deleted", "found"]

CONTENT_LIMIT: Final = 5_000_000  # bytes of one version that are kept
CALL_LIMIT: Final = 10_000_000  # bytes that one tool call adds
FILES_PER_CALL: Final = 200
PATH_LIMIT: Final = 1_000  # characters
ID_LENGTH: Final = 32
UNKNOWN_TYPE: Final = "application/octet-stream"


class WrittenFile(NamedTuple):
    """What a tool did to one file."""

    path: str  # in the workspace
    change: Change
    size: int = 0
    sha256: str = ""  # empty: deleted, or too large to read
    media_type: str = ""
    data: bytes | None = None  # None: not kept
    renamed_from: str = ""
    before: bytes | None = None  # the content that was replaced, if the tool has read it


class WrittenFiles(NamedTuple):
    """What one tool call did to files."""

    files: tuple[WrittenFile, ...] = ()
    omitted: int = 0  # further files that were changed, beyond the limits


class FileOrigin(NamedTuple):
    """Who wrote a version: a tool that an agent called."""

    tool: str = ""
    role: str = ""
    run_id: str = ""
    turn_id: str = ""
    goal_id: int = 0
    sub_goal_id: int = 0
    conversation_id: int = 0


class FileVersion(NamedTuple):
    """One version of a file, without its content."""

    file_id: str
    n: int
    change: Change
    size: int
    sha256: str
    media_type: str
    renamed_from: str
    at: int
    is_kept: bool  # whether the content is stored
    origin: FileOrigin

    @property
    def is_text(self) -> bool:
        return self.media_type == PLAIN_TEXT

    def as_json(self) -> dict[str, Any]:
        origin = self.origin
        return {
            "n": self.n,
            "change": self.change,
            "size": self.size,
            "sha256": self.sha256 or None,
            "media_type": self.media_type or None,
            "is_kept": self.is_kept,
            "renamed_from": self.renamed_from or None,
            "at": self.at // 1000,
            "tool": origin.tool,
            "role": origin.role,
            "run_id": origin.run_id or None,
            "turn_id": origin.turn_id or None,
            "goal_id": origin.goal_id or None,
            "sub_goal_id": origin.sub_goal_id or None,
            "conversation_id": origin.conversation_id or None,
        }


class StoredFile(NamedTuple):
    """A file with one of its versions: the newest, or the newest that a list asks for."""

    id: str
    workspace: str  # empty: the tenant's; otherwise a repository and its branch, or the folder of a conversation
    path: str
    latest: int  # the number of the newest version
    created_at: int
    updated_at: int
    version: FileVersion

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "workspace": self.workspace,
            "path": self.path,
            "latest": self.latest,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
            "version": self.version.as_json(),
        }


class FileSelection(NamedTuple):
    """A filter for the files of a tenant. Those of a turn, goal, sub-goal, conversation or role have a version that it wrote."""

    turn_id: str = ""
    goal_id: int = 0
    conversation_id: int = 0
    role: str = ""
    path: str = ""  # this file, or the files below this folder
    query: str = ""  # a part of the path, in any case
    sub_goal_id: int = 0


def build_file_id(tenant_id: int, workspace: str, path: str) -> str:
    """Return the id of a file. It derives from the path, so that processes which write the same file agree on it."""
    return hashlib.sha256(f"{tenant_id}\0{workspace}\0{path}".encode()).hexdigest()[:ID_LENGTH]


def describe_data(data: bytes) -> tuple[int, str, str]:
    """Return the size, the SHA-256 and the media type of a content."""
    return len(data), hashlib.sha256(data).hexdigest(), detect_type(data)


def detect_type(data: bytes) -> str:
    """Return what a content is. Every text is plain text, because a browser would run scripts in some others."""
    return detect_binary_type(data) or (PLAIN_TEXT if is_utf8_text(data) else UNKNOWN_TYPE)


def build_written(path: str, data: bytes, before: bytes | None = None) -> WrittenFile:
    """Describe a file that a tool has written whole."""
    size, sha256, media_type = describe_data(data)
    return WrittenFile(path, "written", size, sha256, media_type, data, before=before)

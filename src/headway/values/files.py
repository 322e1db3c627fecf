"""Files that agents wrote, with their versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from headway.values.value import Meaning, Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileVersion(Value):
    """One state of a file, and who wrote it. Without `is_kept`, its content can no longer be read."""

    n: int
    change: Annotated[
        Literal["written", "changed", "deleted", "found"],
        Meaning(
            "`written`: by a tool. `changed`, `deleted`: the file after a program had run. `found`: the file before an agent wrote "
            "it, if no version had that content"
        ),
    ]
    size: int = 0
    sha256: Annotated[str | None, Meaning("null: deleted, or too large to read")] = None
    media_type: Annotated[str | None, Meaning("`text/plain` for every text in UTF-8; null: not known")] = None
    is_kept: Annotated[bool, Meaning("Whether the content can be read")] = False
    renamed_from: Annotated[str | None, Meaning("The path that the file had before")] = None
    tool: str = ""
    role: str = ""
    run_id: str | None = None
    turn_id: str | None = None
    goal_id: int | None = None
    sub_goal_id: int | None = None
    conversation_id: int | None = None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class File(Value):
    """A file that agents wrote. `version` is the newest one that matches the filters of a list."""

    id: str
    path: str
    workspace: Annotated[
        str, Meaning("Empty: the tenant's. Otherwise a repository and its branch, or the folder of a conversation")
    ] = ""
    latest: Annotated[int, Meaning("The number of the newest version")] = 0
    version: FileVersion
    created_at: datetime
    updated_at: datetime

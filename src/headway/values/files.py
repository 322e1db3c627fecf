"""Files that agents wrote, with their versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headway.values.value import Value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileVersion(Value):
    """One state of a file, and who wrote it. Without `is_kept`, its content can no longer be read."""

    n: int
    change: Literal["written", "changed", "deleted", "found"]
    size: int = 0
    sha256: str | None = None
    media_type: str | None = None
    is_kept: bool = False
    renamed_from: str | None = None
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
    workspace: str = ""
    latest: int = 0
    version: FileVersion
    created_at: datetime
    updated_at: datetime

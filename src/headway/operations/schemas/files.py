"""Schemas of the files that agents wrote."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.ledger.files.versions import PATH_LIMIT, FileSelection
from headway.ledger.text import MAX_INTEGER, TEXT_PATTERN
from headway.ledger.wording.words import QUERY_LIMIT
from headway.operations.schemas.strict_model import to_whole_number
from headway.operations.schemas.todos import CursorQuery, Id, Name, QueryModel
from headway.values import files as values_files

VersionNumber = Annotated[int, Field(ge=0, le=MAX_INTEGER), BeforeValidator(to_whole_number)]

Obstacle = Literal["binary", "not_kept", "too_large"]


class FilesQuery(CursorQuery):
    turn_id: Annotated[Name | None, Field(description="Files that the agents of this turn wrote")] = None
    goal_id: Annotated[Id | None, Field(description="Files that the agents of this goal wrote")] = None
    sub_goal_id: Annotated[Id | None, Field(description="Files that the agents of this sub-goal wrote")] = None
    conversation_id: Annotated[Id | None, Field(description="Files that were written in this conversation")] = None
    role: Annotated[Name | None, Field(description="Files that an agent with this role wrote")] = None
    path: Annotated[
        str,
        Field(
            max_length=PATH_LIMIT,
            description="this path, or everything below this folder",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    q: Annotated[
        str,
        Field(
            max_length=QUERY_LIMIT,
            description="words that must all occur in the path, in any case",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""

    def selection(self) -> FileSelection:
        owners = self.turn_id or "", self.goal_id or 0, self.conversation_id or 0, self.role or ""
        return FileSelection(*owners, self.path, self.q, self.sub_goal_id or 0)


class VersionQuery(QueryModel):
    version: Annotated[Id | None, Field(description="omitted: the newest")] = None


class DiffQuery(QueryModel):
    from_: Annotated[
        VersionNumber | None,
        Field(alias="from", description="0: the file did not exist; omitted: the version before `to`"),
    ] = None
    to: Annotated[Id | None, Field(description="omitted: the newest")] = None


# Answers


class DiffLineShape(BaseModel):
    kind: Literal["same", "added", "deleted"]
    text: str
    has_newline: bool


class HunkShape(BaseModel):
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[DiffLineShape]


class FileDiff(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    file: values_files.File
    from_: Annotated[values_files.FileVersion | None, Field(alias="from", description="null: the file did not exist")]
    to: values_files.FileVersion
    is_equal: bool
    obstacle: Annotated[Obstacle | None, Field(description="Why the versions cannot be compared by lines")]
    added: Annotated[int | None, Field(description="Lines; null if they cannot be compared")]
    deleted: int | None
    is_cut: Annotated[bool, Field(description="Whether `hunks` do not show everything")]
    hunks: list[HunkShape]

"""Operations on the files that agents wrote: /files"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headway.actions.history import files
from headway.ledger.file_versions import FileSelection
from headway.ledger.parsing.paths import PATH_LIMIT
from headway.ledger.text import MAX_INTEGER, TEXT_PATTERN
from headway.ledger.wording import QUERY_LIMIT
from headway.operations.fields import CursorQuery, Id, Name, QueryModel, to_whole_number
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable
from headway.values import files as values_files
from headway.values.value import Meaning

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


class DiffLine(BaseModel):
    kind: Literal["same", "added", "deleted"]
    text: str
    has_newline: bool


class Hunk(BaseModel):
    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: list[DiffLine]


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
    hunks: list[Hunk]


# Operations on the files that agents wrote: /files. Files are read here, and never changed.


table = OperationTable("files")


@table.add(
    "GET /files",
    "List or search the files that agents wrote, the last written first",
    AnswerShape(
        "ManyFiles",
        {
            "files": Annotated[
                list[values_files.File], Meaning("`version` is the newest one that the filters match, also if there is a newer one")
            ],
            "next_cursor": str | None,
            "searched_all": Annotated[
                bool, Meaning("False: the search stopped before the oldest file. It continues with `next_cursor`")
            ],
        },
    ),
    errors=(404,),
)
def list_files(call: OperationCall, query: FilesQuery) -> Document:
    return files.list_files(call.tx, call.tenant_id, query.selection(), query.limit, query.cursor).as_json()


@table.add(
    "GET /files/{file_id}",
    "Get a file and its versions",
    AnswerShape(
        "OneFile",
        {
            "file": values_files.File,
            "versions": Annotated[list[values_files.FileVersion], Meaning("The newest first, at most 200")],
        },
    ),
    errors=(404,),
)
def get_file(call: OperationCall, file_id: str) -> Document:
    return files.get_file(call.tx, call.tenant_id, file_id).as_json()


@table.add("GET /files/{file_id}/content", "Download a version of a file", {200: None}, errors=(404,), is_served_apart=True)
def get_file_content(call: OperationCall, file_id: str, query: VersionQuery) -> Document:
    return {"data": files.get_content(call.tx, call.tenant_id, file_id, query.version).data}

"""Operations on the files that agents wrote: /files. Files are read here, and never changed."""

from typing import Annotated

from headway.actions.files import views
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable
from headway.operations.schemas import files as schemas
from headway.values import files as values_files
from headway.values.value import Meaning

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
def list_files(call: OperationCall, query: schemas.FilesQuery) -> Document:
    return views.list_page(call.tx, call.tenant_id, query.selection(), query.limit, query.cursor).as_json()


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
    return views.get(call.tx, call.tenant_id, file_id).as_json()


@table.add("GET /files/{file_id}/content", "Download a version of a file", {200: None}, errors=(404,), is_served_apart=True)
def get_file_content(call: OperationCall, file_id: str, query: schemas.VersionQuery) -> Document:
    return {"data": views.get_content(call.tx, call.tenant_id, file_id, query.version).data}

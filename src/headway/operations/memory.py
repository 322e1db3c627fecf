"""Operations on the notes that agents recall: /memory"""

from typing import Annotated

from headway.actions import memory
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable
from headway.operations.schemas import memory as schemas
from headway.operations.schemas.todos import Deleted
from headway.values.value import Meaning

table = OperationTable("memory")

ONE_MEMORY_ENTRY = AnswerShape("OneMemoryEntry", {"entry": schemas.MemoryShape})


@table.add(
    "GET /memory",
    "List or search the tenant's memory, newest first",
    AnswerShape(
        "ManyMemoryEntries",
        {
            "entries": list[schemas.MemoryShape],
            "next_cursor": str | None,
            "searched_all": Annotated[
                bool, Meaning("False: the search stopped before the oldest entry. It continues with `next_cursor`")
            ],
        },
    ),
    errors=(404,),
)
def list_memory_entries(call: OperationCall, query: schemas.MemoryQuery) -> Document:
    page = memory.list_page(call.tx, call.tenant_id, query.selection(), query.q, query.limit, query.cursor)
    return page.as_json()


@table.add("POST /memory", "Add a memory entry", {201: ONE_MEMORY_ENTRY}, errors=(404,))
def create_memory_entry(call: OperationCall, body: schemas.NewMemoryEntry) -> Document:
    return {"entry": memory.add(call.tx, call.tenant_id, body.to_entry(), call.caller_name).as_json()}


@table.add("GET /memory/{entry_id}", "Get a memory entry", ONE_MEMORY_ENTRY, errors=(404,))
def get_memory_entry(call: OperationCall, entry_id: int) -> Document:
    return {"entry": memory.get(call.tx, call.tenant_id, entry_id).as_json()}


@table.add("PATCH /memory/{entry_id}", "Edit a memory entry", ONE_MEMORY_ENTRY, errors=(404,))
def change_memory_entry(call: OperationCall, entry_id: int, body: schemas.MemoryFields) -> Document:
    return {"entry": memory.change(call.tx, call.tenant_id, entry_id, body.change(), call.caller_name).as_json()}


@table.add("DELETE /memory/{entry_id}", "Delete a memory entry for good", Deleted, errors=(404, 507))
def delete_memory_entry(call: OperationCall, entry_id: int) -> Document:
    memory.remove(call.tx, call.tenant_id, entry_id)
    return {"deleted": True}

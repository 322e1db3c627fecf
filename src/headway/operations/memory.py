"""Operations on the notes that agents recall: /memory"""

from headway.actions import memory
from headway.operations.operation import Document, OperationCall, OperationTable
from headway.operations.schemas import memory as schemas
from headway.operations.schemas.todos import Deleted

table = OperationTable("memory")


@table.add("GET /memory", "List or search the tenant's memory, newest first", schemas.ManyMemoryEntries, errors=(404,))
def list_memory_entries(call: OperationCall, query: schemas.MemoryQuery) -> Document:
    page = memory.list_page(call.tx, call.tenant_id, query.selection(), query.q, query.limit, query.cursor)
    return page.as_json()


@table.add("POST /memory", "Add a memory entry", {201: schemas.OneMemoryEntry}, errors=(404,))
def create_memory_entry(call: OperationCall, body: schemas.NewMemoryEntry) -> Document:
    return {"entry": memory.add(call.tx, call.tenant_id, body.to_entry(), call.caller_name).as_json()}


@table.add("GET /memory/{entry_id}", "Get a memory entry", schemas.OneMemoryEntry, errors=(404,))
def get_memory_entry(call: OperationCall, entry_id: int) -> Document:
    return {"entry": memory.get(call.tx, call.tenant_id, entry_id).as_json()}


@table.add("PATCH /memory/{entry_id}", "Edit a memory entry", schemas.OneMemoryEntry, errors=(404,))
def change_memory_entry(call: OperationCall, entry_id: int, body: schemas.MemoryFields) -> Document:
    return {"entry": memory.change(call.tx, call.tenant_id, entry_id, body.change(), call.caller_name).as_json()}


@table.add("DELETE /memory/{entry_id}", "Delete a memory entry for good", Deleted, errors=(404, 507))
def delete_memory_entry(call: OperationCall, entry_id: int) -> Document:
    memory.remove(call.tx, call.tenant_id, entry_id)
    return {"deleted": True}

"""Operations on the memory of a tenant: /memory"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.turns import memory
from headway.actions.turns.memory import DEFAULT_KIND, ENTRY_LIMIT, MemoryChange, NewMemory
from headway.ledger.scope import MemorySelection
from headway.ledger.text import SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.wording import QUERY_LIMIT
from headway.operations.fields import CursorQuery, ListId, Name, Revision, StrictModel, parse_list_id
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable
from headway.operations.todos import Deleted
from headway.values.value import Meaning
from headway.values.work import Note

MemoryText = Annotated[str, Field(min_length=1, max_length=ENTRY_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


class MemoryQuery(CursorQuery):
    q: Annotated[
        str,
        Field(
            max_length=QUERY_LIMIT,
            description="words that must all occur, in any case",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    kind: Name | None = None
    conversation_id: Annotated[
        ListId | Literal["tenant"] | None,
        Field(description="an id: the conversation's entries and the tenant-wide ones; `tenant`: only those; 0 or omitted: all"),
    ] = None

    def selection(self) -> MemorySelection:
        return MemorySelection(parse_list_id(self.conversation_id), self.kind)


class NewMemoryEntry(StrictModel):
    text: MemoryText
    kind: Name = DEFAULT_KIND
    conversation_id: ListId = 0

    def to_entry(self) -> NewMemory:
        return NewMemory(self.text, self.kind, self.conversation_id)


class MemoryFields(StrictModel):
    """The fields that can be changed. Omitted fields keep their values."""

    text: MemoryText | None = None
    kind: Name | None = None
    revision: Annotated[
        Revision | None, Field(description="Refuse the change with 409 if the entry has another revision by now")
    ] = None

    def change(self) -> MemoryChange:
        return MemoryChange(self.text, self.kind, self.revision)


# Answers


class Origin(BaseModel):
    """The agent or the person that an entry comes from."""

    agent_id: Annotated[str, Field(description="The role of the agent that wrote it; empty: a person wrote it")]
    person: Annotated[
        str, Field(description="Who wrote it, or last edited it: the label of a token, or `cli`; empty: only an agent has")
    ]
    conversation_id: Annotated[int | None, Field(description="Where the agent worked, also if the entry is tenant-wide")]
    turn_id: str | None
    run_id: str | None
    goal_id: int | None


# Operations on the notes that agents recall: /memory


table = OperationTable("memory")

ONE_MEMORY_ENTRY = AnswerShape("OneMemoryEntry", {"entry": Note})


@table.add(
    "GET /memory",
    "List or search the tenant's memory, newest first",
    AnswerShape(
        "ManyMemoryEntries",
        {
            "entries": list[Note],
            "next_cursor": str | None,
            "searched_all": Annotated[
                bool, Meaning("False: the search stopped before the oldest entry. It continues with `next_cursor`")
            ],
        },
    ),
    errors=(404,),
)
def list_memory_entries(call: OperationCall, query: MemoryQuery) -> Document:
    page = memory.list_notes(call.tx, call.tenant_id, query.selection(), query.q, query.limit, query.cursor)
    return page.as_json()


@table.add("POST /memory", "Add a memory entry", {201: ONE_MEMORY_ENTRY}, errors=(404,))
def create_memory_entry(call: OperationCall, body: NewMemoryEntry) -> Document:
    return {"entry": memory.add_note(call.tx, call.tenant_id, body.to_entry(), call.caller_name).as_json()}


@table.add("GET /memory/{entry_id}", "Get a memory entry", ONE_MEMORY_ENTRY, errors=(404,))
def get_memory_entry(call: OperationCall, entry_id: int) -> Document:
    return {"entry": memory.get_note(call.tx, call.tenant_id, entry_id).as_json()}


@table.add("PATCH /memory/{entry_id}", "Edit a memory entry", ONE_MEMORY_ENTRY, errors=(404,))
def change_memory_entry(call: OperationCall, entry_id: int, body: MemoryFields) -> Document:
    return {"entry": memory.change_note(call.tx, call.tenant_id, entry_id, body.change(), call.caller_name).as_json()}


@table.add("DELETE /memory/{entry_id}", "Delete a memory entry for good", Deleted, errors=(404, 507))
def delete_memory_entry(call: OperationCall, entry_id: int) -> Document:
    memory.remove_note(call.tx, call.tenant_id, entry_id)
    return {"deleted": True}

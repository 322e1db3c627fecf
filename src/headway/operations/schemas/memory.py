"""Schemas of the tenant's memory."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.memory import DEFAULT_KIND, ENTRY_LIMIT, MemoryChange, NewMemory
from headway.ledger.scope import MemorySelection
from headway.ledger.text import SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.wording.words import QUERY_LIMIT
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery, ListId, Name, Revision, parse_list_id

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


class OriginShape(BaseModel):
    """The agent or the person that an entry comes from."""

    agent_id: Annotated[str, Field(description="The role of the agent that wrote it; empty: a person wrote it")]
    person: Annotated[
        str, Field(description="Who wrote it, or last edited it: the label of a token, or `cli`; empty: only an agent has")
    ]
    conversation_id: Annotated[int | None, Field(description="Where the agent worked, also if the entry is tenant-wide")]
    turn_id: str | None
    run_id: str | None
    goal_id: int | None


class MemoryShape(BaseModel):
    id: int
    conversation_id: Annotated[int, Field(description="0: tenant-wide; agents in every conversation recall it")]
    kind: str
    text: str
    revision: Annotated[int, Field(description="How often it was edited")]
    created_at: int
    updated_at: int
    origin: OriginShape

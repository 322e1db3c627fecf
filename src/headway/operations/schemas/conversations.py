"""Schemas of conversations."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.history.conversation_pages import ConversationFilter, Sort
from headway.ledger.tenancy import ConversationState
from headway.ledger.text import SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.wording.words import QUERY_LIMIT
from headway.operations.schemas.agents import NewMessage
from headway.operations.schemas.strict_model import StrictModel
from headway.operations.schemas.todos import CursorQuery, Id, Name


class NewConversation(StrictModel):
    title: Annotated[str, Field(max_length=SUBJECT_LIMIT, json_schema_extra={"pattern": TEXT_PATTERN})] = ""
    key: Name | None = None
    message: Annotated[
        NewMessage | None, Field(description="The first message. If it cannot be sent, the conversation is not created either")
    ] = None


class ConversationFields(StrictModel):
    """The fields that can be changed."""

    title: Annotated[str, Field(min_length=1, max_length=SUBJECT_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]


class ConversationsQuery(CursorQuery):
    q: Annotated[
        str,
        Field(
            max_length=QUERY_LIMIT,
            description="words that must all occur, in any case, in the title and one message together",
            json_schema_extra={"pattern": TEXT_PATTERN},
        ),
    ] = ""
    sort: Annotated[
        Sort, Field(description="`created`: the newest first; `activity`: those used last first. `q` and `before` need `created`")
    ] = "created"
    before: Annotated[Id | None, Field(description="Only conversations older than this one; a cursor overrides it")] = None
    key: Annotated[Name | None, Field(description="Only the conversation with this key; overrides all others")] = None

    def selection(self) -> ConversationFilter:
        return ConversationFilter(self.q, self.sort, self.before)


# Answers


class ConversationShape(BaseModel):
    id: int
    key: str
    title: str
    created_at: int
    updated_at: int
    state: Annotated[
        ConversationState,
        Field(description="That of the unfinished turn; `waiting`: for a person; `paused`: for money; `idle`: no turn"),
    ]
    task_file: Annotated[str, Field(description="Path of the task list below HEADWAY_HOME")]
    client: Annotated[str | None, Field(description="The coding assistant whose session it is")]
    client_session: Annotated[str | None, Field(description="The assistant's own id of the session")]


class OneConversation(BaseModel):
    conversation: ConversationShape


class StartedConversation(OneConversation):
    turn_id: Annotated[str | None, Field(description="The turn that answers the first message; null if there was none")]


class ListedConversation(ConversationShape):
    excerpt: Annotated[str | None, Field(description="With `q`: the place in the newest message that has the words")] = None


class DeletedConversation(BaseModel):
    deleted: Literal[True]
    restorable_until: Annotated[int, Field(description="When its rows are deleted for good")]

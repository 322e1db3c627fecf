"""Operations on conversations: /conversations"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headway.actions.history import conversation_pages, timeline
from headway.actions.history.conversation_pages import ConversationFilter, Sort
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.text import MAX_INTEGER, SUBJECT_LIMIT, SUBJECT_PATTERN, TEXT_PATTERN
from headway.ledger.wording import QUERY_LIMIT
from headway.operations import turns as turn_operation
from headway.operations.fields import CursorQuery, Id, Name, StrictModel
from headway.operations.operation import AnswerShape, Document, OperationCall, OperationTable, many, one, page
from headway.operations.turns import NewMessage
from headway.values import turns as values_turns
from headway.values.value import Meaning


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
        Sort, Field(description="`created`: the newest first; `activity`: the last used first. `q` and `before` need `created`")
    ] = "created"
    before: Annotated[Id | None, Field(description="Only conversations older than this one; a cursor overrides it")] = None
    key: Annotated[Name | None, Field(description="Only the conversation with this key; overrides all others")] = None

    def selection(self) -> ConversationFilter:
        return ConversationFilter(self.q, self.sort, self.before)


# Answers


class DeletedConversation(BaseModel):
    deleted: Literal[True]
    restorable_until: Annotated[int, Field(description="When its rows are deleted for good")]


# Operations on conversations: /conversations


table = OperationTable("conversations")

ONE_CONVERSATION = one("conversation", values_turns.Conversation)
STARTED_CONVERSATION = AnswerShape(
    "StartedConversation",
    {
        **ONE_CONVERSATION.members,
        "turn_id": Annotated[str | None, Meaning("The turn that answers the first message; null if there was none")],
    },
)


@table.add(
    "POST /conversations",
    "Create a conversation, and send its first message if there is one",
    {201: STARTED_CONVERSATION},
    errors=(404,),
    is_served_apart=True,
)
def create_conversation(call: OperationCall, body: NewConversation) -> Document:
    """Create a conversation without a message."""
    return {
        "conversation": conversations.add_conversation(call.tx, call.tenant_id, body.title, body.key).as_json(),
        "turn_id": None,
    }


@table.add(
    "GET /conversations",
    "List or search conversations, newest first",
    page(
        "conversations",
        values_turns.Conversation,
        searched_all=Annotated[
            bool, Meaning("False: the search stopped before the oldest conversation. It continues with `next_cursor`")
        ],
    ),
)
def list_conversations(call: OperationCall, query: ConversationsQuery) -> Document:
    if query.key is not None:
        return conversation_pages.list_by_key(call.tx, call.tenant_id, query.key).as_json()
    return conversation_pages.list_conversations(call.tx, call.tenant_id, query.selection(), query.limit, query.cursor).as_json()


@table.add("GET /conversations/{conversation_id}", "Get a conversation", ONE_CONVERSATION, errors=(404,))
def get_conversation(call: OperationCall, conversation_id: int) -> Document:
    return {"conversation": conversations.show_conversation(call.tx, call.tenant_id, conversation_id).as_json()}


@table.add("PATCH /conversations/{conversation_id}", "Rename a conversation", ONE_CONVERSATION, errors=(404,))
def change_conversation(call: OperationCall, conversation_id: int, body: ConversationFields) -> Document:
    return {"conversation": conversations.rename_conversation(call.tx, call.tenant_id, conversation_id, body.title).as_json()}


@table.add(
    "DELETE /conversations/{conversation_id}",
    "Delete a conversation. It can be restored for a day",
    DeletedConversation,
    errors=(404, 409, 507),
)
def delete_conversation(call: OperationCall, conversation_id: int) -> Document:
    return {
        "deleted": True,
        "restorable_until": conversations.remove_conversation(call.tx, call.tenant_id, conversation_id) // 1000,
    }


@table.add(
    "POST /conversations/{conversation_id}/restore",
    "Restore a deleted conversation",
    ONE_CONVERSATION,
    errors=(404,),
)
def restore_conversation(call: OperationCall, conversation_id: int) -> Document:
    return {"conversation": conversations.restore(call.tx, call.tenant_id, conversation_id).as_json()}


@table.add(
    "GET /conversations/{conversation_id}/messages",
    "List messages, oldest first",
    many("messages", values_turns.Message),
    errors=(404,),
)
def list_conversation_messages(call: OperationCall, conversation_id: int, query: turn_operation.MessagesQuery) -> Document:
    before = query.before or MAX_INTEGER
    messages = turns.list_messages(call.tx, call.tenant_id, conversation_id, query.limit, before)
    return {"messages": [message.as_json() for message in messages]}


@table.add(
    "GET /conversations/{conversation_id}/timeline",
    "List past events, oldest first, with the running turn and the event to stream from",
    one("timeline", turn_operation.Timeline),
    errors=(404,),
)
def get_conversation_timeline(call: OperationCall, conversation_id: int, query: turn_operation.TimelineQuery) -> Document:
    before = query.before or MAX_INTEGER
    view = timeline.TimelineView(call.host.settings.limits, call.host.live_text, query.limit, before)
    return {"timeline": timeline.show_timeline(call.tx, call.tenant_id, conversation_id, view)}

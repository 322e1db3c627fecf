"""Operations on conversations: /conversations"""

from typing import Annotated

from headway.actions import conversations, turns
from headway.actions.history import conversation_pages, timeline
from headway.ledger.text import MAX_INTEGER
from headway.operations.operation import Document, OperationCall, OperationTable, many, one, page
from headway.operations.schemas import agents
from headway.operations.schemas import conversations as schemas
from headway.values import turns as values_turns
from headway.values.value import Meaning

table = OperationTable("conversations")


@table.add(
    "POST /conversations",
    "Create a conversation, and send its first message if there is one",
    {201: schemas.StartedConversation},
    errors=(404,),
    is_served_apart=True,
)
def create_conversation(call: OperationCall, body: schemas.NewConversation) -> Document:
    """Create a conversation without a message."""
    return {"conversation": conversations.add(call.tx, call.tenant_id, body.title, body.key).as_json(), "turn_id": None}


@table.add(
    "GET /conversations",
    "List or search conversations, newest first",
    page(
        "conversations",
        schemas.ListedConversation,
        searched_all=Annotated[
            bool, Meaning("False: the search stopped before the oldest conversation. It continues with `next_cursor`")
        ],
    ),
)
def list_conversations(call: OperationCall, query: schemas.ConversationsQuery) -> Document:
    if query.key is not None:
        return conversation_pages.list_by_key(call.tx, call.tenant_id, query.key).as_json()
    return conversation_pages.list_page(call.tx, call.tenant_id, query.selection(), query.limit, query.cursor).as_json()


@table.add("GET /conversations/{conversation_id}", "Get a conversation", schemas.OneConversation, errors=(404,))
def get_conversation(call: OperationCall, conversation_id: int) -> Document:
    return {"conversation": conversations.show(call.tx, call.tenant_id, conversation_id).as_json()}


@table.add("PATCH /conversations/{conversation_id}", "Rename a conversation", schemas.OneConversation, errors=(404,))
def change_conversation(call: OperationCall, conversation_id: int, body: schemas.ConversationFields) -> Document:
    return {"conversation": conversations.rename(call.tx, call.tenant_id, conversation_id, body.title).as_json()}


@table.add(
    "DELETE /conversations/{conversation_id}",
    "Delete a conversation. It can be restored for a day",
    schemas.DeletedConversation,
    errors=(404, 409, 507),
)
def delete_conversation(call: OperationCall, conversation_id: int) -> Document:
    return {"deleted": True, "restorable_until": conversations.remove(call.tx, call.tenant_id, conversation_id) // 1000}


@table.add(
    "POST /conversations/{conversation_id}/restore",
    "Restore a deleted conversation",
    schemas.OneConversation,
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
def list_conversation_messages(call: OperationCall, conversation_id: int, query: agents.MessagesQuery) -> Document:
    before = query.before or MAX_INTEGER
    messages = turns.list_messages(call.tx, call.tenant_id, conversation_id, query.limit, before)
    return {"messages": [message.as_json() for message in messages]}


@table.add(
    "GET /conversations/{conversation_id}/timeline",
    "List past events, oldest first, with the running turn and the event to stream from",
    one("timeline", agents.TimelineShape),
    errors=(404,),
)
def get_conversation_timeline(call: OperationCall, conversation_id: int, query: agents.TimelineQuery) -> Document:
    before = query.before or MAX_INTEGER
    view = timeline.TimelineView(call.host.settings.limits, call.host.live_text, query.limit, before)
    return {"timeline": timeline.show(call.tx, call.tenant_id, conversation_id, view)}

"""Requests about conversations and turns."""

from typing import Final

from headway.actions import conversations, run_ends, turns
from headway.actions.history import conversation_pages, timeline
from headway.actions.history.conversation_pages import ConversationFilter
from headway.actions.people import steering
from headway.actions.views import check_limit
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation
from headway.storage.transaction import Transaction


def add_conversation(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"conversation": conversations.add(tx, tenant_id, request.body["title"], request.body.get("key")).as_json()}


def list_conversations(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    query = request.query
    if "key" in query:
        return conversation_pages.list_by_key(tx, tenant_id, query["key"]).as_json()
    selection = ConversationFilter(query.get("q", ""), query.get("sort", "created"))
    return conversation_pages.list_page(tx, tenant_id, selection, request.limit, request.cursor).as_json()


def get_conversation(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"conversation": conversations.show(tx, tenant_id, request.get_id()).as_json()}


def rename_conversation(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"conversation": conversations.rename(tx, tenant_id, request.get_id(), request.body["title"]).as_json()}


def delete_conversation(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"deleted": True, "restorable_until": conversations.remove(tx, tenant_id, request.get_id()) // 1000}


def restore_conversation(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"conversation": conversations.restore(tx, tenant_id, request.get_id()).as_json()}


def get_timeline(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    headway = request.headway
    view = timeline.TimelineView(headway.settings.limits, headway.live_text, check_limit(request.limit), request.before)
    return {"timeline": timeline.show(tx, tenant_id, request.get_id(), view)}


def list_messages(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    messages = turns.list_messages(tx, tenant_id, request.get_id(), check_limit(request.limit), request.before)
    return {"messages": [message.as_json() for message in messages]}


def open_turn(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    turn = conversations.open_turn(tx, tenant_id, request.body["conversation_id"])
    return show_turn(tx, tenant_id, turn.id, request)


def show_turn(tx: Transaction, tenant_id: int, turn_id: str, request: LocalRequest) -> Document:
    return {"turn": turns.show(tx, tenant_id, turn_id, request.headway.settings.limits)}


def get_turn(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return show_turn(tx, tenant_id, request.get_name(), request)


def cancel_turn(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    ended = run_ends.cancel_turn(tx, tenant_id, request.get_name(), request.headway.live_text)
    request.after.append(lambda: request.headway.interrupt(ended))
    return show_turn(tx, tenant_id, request.get_name(), request)


def send_message(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    message = steering.send_to_turn(tx, tenant_id, request.get_name(), request.body["content"], request.actor)
    return {"message": message.as_json()}


def list_sent(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    messages = steering.list_by_turn(tx, tenant_id, request.get_name(), check_limit(request.limit))
    return {"messages": [message.as_json() for message in messages]}


OPERATIONS: Final[dict[str, Operation]] = {
    "POST /conversations": add_conversation,
    "GET /conversations": list_conversations,
    "GET /conversations/{}": get_conversation,
    "PATCH /conversations/{}": rename_conversation,
    "DELETE /conversations/{}": delete_conversation,
    "POST /conversations/{}/restore": restore_conversation,
    "GET /conversations/{}/messages": list_messages,
    "GET /conversations/{}/timeline": get_timeline,
    "POST /turns": open_turn,
    "GET /turns/{}": get_turn,
    "POST /turns/{}/cancel": cancel_turn,
    "POST /turns/{}/messages": send_message,
    "GET /turns/{}/messages": list_sent,
}

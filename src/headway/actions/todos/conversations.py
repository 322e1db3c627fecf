"""Conversations and their turns: created, looked up, renamed, deleted and restored."""

from typing import Final, Literal
from uuid import uuid4

from headway.actions.access import quotas
from headway.actions.todos import finding, proof, todo_lists
from headway.ledger import text
from headway.ledger.errors import Conflict, Invalid, NameTaken, NotFound, TurnRunning
from headway.ledger.events import Event, encode_json
from headway.ledger.tenancy import DAY_MS, RESTORE_DAYS, Conversation, ConversationState, Turn
from headway.storage.stores import conversations as conversation_store
from headway.storage.stores import receipts as receipt_store
from headway.storage.stores import runs as run_store
from headway.storage.stores import schedules as schedule_store
from headway.storage.transaction import Transaction

RESTORE_MS: Final = RESTORE_DAYS * DAY_MS


def add_conversation(tx: Transaction, tenant_id: int, title: str = "", key: str | None = None) -> Conversation:
    quotas.check_storage(tx, tenant_id)
    uuid = uuid4().hex
    key = uuid if key is None else text.check_name(key, "key")
    conversation = conversation_store.insert_conversation(
        tx, tenant_id, uuid, key, text.check_text(title, "title", text.SUBJECT_LIMIT)
    )
    if conversation is None:
        raise NameTaken(f"A conversation with the key {key!r} already exists.")
    return conversation


def get_or_create(tx: Transaction, tenant_id: int, key: str, title: str = "") -> Conversation:
    """Return the conversation with the caller's key, creating it on first use with this title."""
    key = text.check_name(key, "key")
    find, insert = conversation_store.find_by_key, conversation_store.insert_conversation
    conversation = find(tx, tenant_id, key) or insert(tx, tenant_id, uuid4().hex, key, title) or find(tx, tenant_id, key)
    assert conversation  # if it could not be inserted, a concurrent transaction has created it
    return conversation


def open_in_folder(tx: Transaction, tenant_id: int, folder: str, key: str | None = None) -> Conversation:
    """Return a new conversation, or the one with this key, whose agents work in a folder of this machine from now on."""
    conversation = (
        add_conversation(tx, tenant_id)
        if key is None
        else conversation_store.find_by_key(tx, tenant_id, text.check_text(key, "key"))
    )
    if conversation is None:
        raise NotFound(f"No conversation with the key {(key or '')[:80]!r}.")
    conversation_store.set_folder(tx, tenant_id, conversation.id, text.check_text(folder, "folder"))
    return conversation._replace(folder=folder)


def show_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation:
    """Return a conversation with the state of its unfinished turn."""
    return finding.check_found(conversation_store.find_with_state(tx, tenant_id, conversation_id), conversation_id)


def resolve_or_create(tx: Transaction, tenant_id: int, reference: str, title: str = "") -> Conversation:
    """Find a conversation like `resolve`. A key that no conversation has is given to a new one; an unknown id is not found."""
    try:
        return finding.resolve(tx, tenant_id, reference)
    except NotFound:
        if finding.is_id(reference):
            raise
        return get_or_create(tx, tenant_id, reference, title)


def ensure(tx: Transaction, tenant_id: int, reference: int | str | None) -> Conversation:
    """Return the conversation with this id, or with this key (created if there is none), or a new one for None."""
    if isinstance(reference, int):
        return finding.get_conversation(tx, tenant_id, reference)
    return add_conversation(tx, tenant_id) if reference is None else get_or_create(tx, tenant_id, reference)


def rename_conversation(tx: Transaction, tenant_id: int, conversation_id: int, title: str) -> Conversation:
    """Set the title. One that a person has set is never replaced by another request."""
    if not (title := text.check_text(title, "title", text.SUBJECT_LIMIT).strip()):
        raise Invalid("title must not be blank.")
    old = show_conversation(tx, tenant_id, conversation_id)
    if title == old.title:
        return old
    conversation_store.rename_conversation(tx, tenant_id, conversation_id, title)
    emit_conversation_changed(tx, tenant_id, conversation_id, "renamed")
    return old._replace(title=title)


def remove_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> int:
    """Delete a conversation. It is hidden with its todos and notes, and its rows are deleted after a day. Returns until when it can
    be restored."""
    if not conversation_store.lock(tx, tenant_id, conversation_id):
        raise NotFound(f"No conversation {conversation_id}.")
    if run_store.find_running_turn(tx, tenant_id, conversation_id):
        raise TurnRunning(
            f"A turn of conversation {conversation_id} has not ended. Nothing was deleted. Cancel the turn or wait for it, then "
            "delete the conversation."
        )
    if schedule := schedule_store.map_conversations(tx, tenant_id).get(conversation_id):
        raise Conflict(
            f"The schedule {schedule!r} works in conversation {conversation_id}. Nothing was deleted. Remove the schedule first."
        )
    for todo_id, checks in receipt_store.list_checks(tx, tenant_id, conversation_id):
        proof.refuse_evasion(tx, todo_id, checks, "delete it with its conversation")
    conversation_store.mark_deleted(tx, tenant_id, conversation_id, uuid4().hex)
    emit_conversation_changed(tx, tenant_id, conversation_id, "deleted")
    return tx.now + RESTORE_MS


def restore(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation:
    """Undo the deletion of a conversation. Its key is the one it had, unless another conversation has taken that."""
    if conversation_store.restore(tx, tenant_id, conversation_id):
        emit_conversation_changed(tx, tenant_id, conversation_id, "restored")
    return show_conversation(tx, tenant_id, conversation_id)


def emit_conversation_changed(
    tx: Transaction,
    tenant_id: int,
    conversation_id: int,
    change: Literal["renamed", "deleted", "restored", "state"],
    state: ConversationState | None = None,
) -> None:
    """Emit a tenant-wide event, which reaches the streams of other conversations. It has no title: events are kept for long,
    and a person may delete a conversation for what it says."""
    data = {"id": conversation_id, "change": change, **({"state": state} if state else {})}
    tx.emit(Event(tenant_id, "conversation_changed", encode_json(data)))


def open_turn(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Open a turn for an external agent loop: its plan can be written and drained, but Headway runs no agent."""
    finding.get_conversation(tx, tenant_id, conversation_id)
    turn = Turn(str(uuid4()), conversation_id, started_at=tx.now)
    conversation_store.insert_turn(tx, tenant_id, turn)
    return turn


def list_conversations(tx: Transaction, tenant_id: int, limit: int = 50, before: int = text.MAX_INTEGER) -> list[Conversation]:
    return conversation_store.list_conversation_page(tx, tenant_id, before, todo_lists.check_limit(limit))

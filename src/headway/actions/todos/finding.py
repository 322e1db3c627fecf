"""Conversations and their turns, found by id or by key."""

from headway.ledger import text
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.tenancy import Conversation, Turn
from headway.storage.stores import conversations as conversation_store
from headway.storage.transaction import Row, Transaction


def find_by_key(tx: Transaction, tenant_id: int, key: str) -> Conversation | None:
    return conversation_store.find_by_key(tx, tenant_id, text.check_name(key, "key"))


def get_conversation(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation:
    return check_found(conversation_store.find_conversation(tx, tenant_id, conversation_id), conversation_id)


def check_found(conversation: Conversation | None, conversation_id: int) -> Conversation:
    if conversation is None:
        raise NotFound(f"No conversation {conversation_id}.")
    return conversation


def resolve(tx: Transaction, tenant_id: int, reference: str) -> Conversation:
    """Find a conversation by id (2 or #2) or by key. A reference that is the id of one conversation and the key of another is
    rejected as ambiguous; a key that matches no id today may match one tomorrow."""
    reference = text.check_text(reference, "conversation")
    number = reference.removeprefix("#")
    by_id = conversation_store.find_conversation(tx, tenant_id, int(number)) if is_id(reference) and len(number) < 19 else None
    by_key = conversation_store.find_by_key(tx, tenant_id, reference)
    if by_id and by_key and by_id.id != by_key.id:
        sign = "" if reference.startswith("#") else "#"
        raise Invalid(
            f"{reference!r} is ambiguous: it is the id of conversation {by_id.id} and the key of conversation {by_key.id}. "
            f"Write {sign}{by_id.id} or {sign}{by_key.id}."
        )
    conversation = by_id or by_key
    if conversation is None:
        raise NotFound(f"No conversation {reference[:80]!r}.")
    return conversation


def is_id(reference: str) -> bool:
    """Whether a reference has the form of an id: 2 or #2."""
    number = reference.removeprefix("#")
    return number.isascii() and number.isdigit()


def get_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Turn:
    return load_turn(tx.fetch(conversation_store.build_find_turn(tenant_id, text.check_text(turn_id, "turn_id")))[0], turn_id)


def lock_turn(tx: Transaction, tenant_id: int, turn_id: str) -> Turn:
    query = conversation_store.build_find_turn_locked(tx, tenant_id, text.check_text(turn_id, "turn_id"))
    return load_turn(tx.fetch(query)[0], turn_id)


def load_turn(rows: list[Row], turn_id: str) -> Turn:
    """Return the turn that was found, or raise NotFound."""
    if not rows:
        raise NotFound(f"No turn {turn_id[:80]!r}.")
    return Turn._make(rows[0])

"""Creates and looks up conversations and their turns."""

from uuid import uuid4

from headway.actions.access import quotas
from headway.ledger import text
from headway.ledger.errors import Invalid, NameTaken, NotFound
from headway.ledger.tenancy import Conversation, Turn
from headway.storage.stores import conversations as conversation_store
from headway.storage.transaction import Row, Transaction


def add(tx: Transaction, tenant_id: int, title: str = "", key: str | None = None) -> Conversation:
    quotas.check_storage(tx, tenant_id)
    uuid = uuid4().hex
    key = uuid if key is None else text.check_name(key, "key")
    conversation = conversation_store.insert(tx, tenant_id, uuid, key, text.check_text(title, "title", text.SUBJECT_LIMIT))
    if conversation is None:
        raise NameTaken(f"A conversation with the key {key!r} already exists.")
    return conversation


def get_or_create(tx: Transaction, tenant_id: int, key: str) -> Conversation:
    """Return the conversation with the caller's key, creating it on first use."""
    key = text.check_name(key, "key")
    find, insert = conversation_store.find_by_key, conversation_store.insert
    conversation = find(tx, tenant_id, key) or insert(tx, tenant_id, uuid4().hex, key, "") or find(tx, tenant_id, key)
    assert conversation  # if it could not be inserted, a concurrent transaction has created it
    return conversation


def open_in_folder(tx: Transaction, tenant_id: int, folder: str, key: str | None = None) -> Conversation:
    """Return a new conversation, or the one with this key, whose agents work in a folder of this machine from now on."""
    conversation = add(tx, tenant_id) if key is None else conversation_store.find_by_key(tx, tenant_id, text.check_text(key, "key"))
    if conversation is None:
        raise NotFound(f"No conversation with the key {(key or '')[:80]!r}.")
    conversation_store.set_folder(tx, tenant_id, conversation.id, text.check_text(folder, "folder"))
    return conversation._replace(folder=folder)


def get(tx: Transaction, tenant_id: int, conversation_id: int) -> Conversation:
    conversation = conversation_store.find(tx, tenant_id, conversation_id)
    if conversation is None:
        raise NotFound(f"No conversation {conversation_id}.")
    return conversation


def resolve(tx: Transaction, tenant_id: int, reference: str) -> Conversation:
    """Find a conversation by id (2 or #2) or by key. A reference that is the id of one conversation and the key of another is
    rejected as ambiguous; a key that matches no id today may match one tomorrow."""
    reference = text.check_text(reference, "conversation")
    number = reference.removeprefix("#")
    is_number = number.isascii() and number.isdigit() and len(number) < 19
    by_id = conversation_store.find(tx, tenant_id, int(number)) if is_number else None
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


def ensure(tx: Transaction, tenant_id: int, reference: int | str | None) -> Conversation:
    """Return the conversation with this id, or with this key (created if there is none), or a new one for None."""
    if isinstance(reference, int):
        return get(tx, tenant_id, reference)
    return add(tx, tenant_id) if reference is None else get_or_create(tx, tenant_id, reference)


def open_turn(tx: Transaction, tenant_id: int, conversation_id: int) -> Turn:
    """Open a turn for an external agent loop: its plan can be written and drained, but Headway runs no agent."""
    get(tx, tenant_id, conversation_id)
    turn = Turn(str(uuid4()), conversation_id, started_at=tx.now)
    conversation_store.insert_turn(tx, tenant_id, turn)
    return turn


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
